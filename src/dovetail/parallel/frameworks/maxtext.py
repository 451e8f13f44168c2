"""MaxText: JAX on XLA, on TPUs."""

from __future__ import annotations

from dovetail.parallel.frameworks import Framework, frameworks

# XLA assigns every buffer an offset when it compiles, within HBM less its own reserve (XLA, hlo buffer assignment), so
# nothing is held beside what is in use. Parameters are sharded arrays: the partitioner gathers each where a product
# reads it, in the product's dtype, and reduce-scatters each gradient as the product left it; the scheduler of overlap
# (latency hiding) starts the next gather early as long as its memory limit is kept, and not over the end of a layer,
# which is one turn of a loop (scan_layers). Gradients take the dtype of their parameters (weight_dtype).
# The loss reads logits in the compute dtype, widens them in registers, and leaves their gradient in that dtype too
# (max_utils.cross_entropy_with_logits; logits_dot_in_fp32: false in the recipes).
frameworks.register("maxtext")(
    Framework(
        summary="MaxText on XLA: buffers laid out by the compiler, weights gathered one by one",
        source="MaxText, configs/base.yml and max_utils.py; XLA, buffer_assignment and latency_hiding_scheduler",
        aliases=("xla", "jax"),
        has_static_buffers=True,
        gathers_by_tensor=True,
        keeps_gradients_as_weights=True,
        has_loss_gradients=True,
    )
)
