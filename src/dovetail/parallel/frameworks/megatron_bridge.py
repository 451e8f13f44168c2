"""Megatron-Bridge, which trains for NeMo."""

from __future__ import annotations

from dovetail.parallel.frameworks import Framework, frameworks

# It runs Megatron Core's schedules and Transformer Engine's layers, so that what stays on a device is Megatron-LM's.
frameworks.register("megatron-bridge")(
    Framework(
        summary="Megatron-Bridge on Megatron Core with Transformer Engine's layers",
        source="Megatron-Bridge 0.3, training/train.py, which calls Megatron Core's forward_backward_func",
        has_placeholder_gradients=True,
    )
)
