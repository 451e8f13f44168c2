"""Megatron-LM with Transformer Engine."""

from __future__ import annotations

from dovetail.parallel.frameworks import Framework, frameworks

# Weight gradients are added inside the product kernel; to make autograd's hooks run, Transformer Engine hands back an
# unused tensor a shape of weight and keeps it for good (get_dummy_wgrad in transformer_engine/pytorch/module/base.py).
# Outputs of stages are freed once sent (deallocate_pipeline_outputs).
frameworks.register("megatron-lm")(
    Framework(
        summary="Megatron-LM with Transformer Engine's layers",
        source="Transformer Engine 2, pytorch/module/base.py; Megatron-LM core, pipeline_parallel/schedules.py",
        aliases=("megatron",),  # as specs of 0.1 had it
        has_placeholder_gradients=True,
    )
)
