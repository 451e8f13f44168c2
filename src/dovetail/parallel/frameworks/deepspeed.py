"""DeepSpeed with its pipeline engine and ZeRO optimizers."""

from __future__ import annotations

from dovetail.parallel.frameworks import Framework, frameworks

# The pipeline engine holds outputs until their backward pass, one pipe buffer more than microbatches in flight, and
# stands a buffer for activations and one for gradients that arrive (runtime/pipe/engine.py, schedule.py).
# reduce_bucket_size and allgather_bucket_size are 5e8 elements each by default (runtime/zero/config.py).
# Without ZeRO, step() widens gradients tensor by tensor and flattens the copies (runtime/fp16/fused_optimizer.py).
frameworks.register("deepspeed")(
    Framework(
        summary="DeepSpeed's pipeline engine and ZeRO optimizers at default bucket sizes",
        source="DeepSpeed 0.6, runtime/pipe/engine.py, runtime/zero/stage_1_and_2.py, runtime/fp16/fused_optimizer.py",
        aliases=("megatron-deepspeed",),
        keeps_stage_outputs=True,
        num_boundary_buffers=3,
        bucket_elements=500_000_000,
        widens_by_tensor=True,
        fragments_update_buffers=True,
    )
)
