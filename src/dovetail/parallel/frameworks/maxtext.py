"""MaxText: JAX on XLA, on TPUs."""

from __future__ import annotations

from dovetail.parallel.frameworks import Framework, frameworks

# XLA assigns every buffer an offset when it compiles, within HBM less its own reserve (XLA, hlo buffer assignment), so
# nothing is held beside what is in use. Parameters are sharded arrays: the partitioner gathers each where a product
# reads it, and reduce-scatters each gradient as the product left it. Gradients take the dtype of their parameters.
# Estimates, chosen with 16 runs in view of which only that they fit is known: that two weights are gathered at a time,
# of which one is a layer's (no dump of buffers was read); and that logits and their gradient are in the compute dtype.
# For the latter base.yml of 2024 says logits_dot_in_fp32: true; with fp32 logits Llama 3 70B would not fit 128 v6e.
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
