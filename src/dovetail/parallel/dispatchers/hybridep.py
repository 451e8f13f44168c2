"""HybridEP: DeepEP's traffic by other kernels, which take a whole NVLink domain of up to 72 devices for one node."""

from __future__ import annotations

from dovetail.parallel.dispatchers import Dispatcher, dispatchers

dispatchers.register("hybridep")(
    Dispatcher(
        name="hybridep",
        summary="as deepep, by kernels for NVLink domains of many nodes (HybridEP)",
        source="NVIDIA 2025, DeepEP branch hybrid-ep; Megatron-LM core, moe/fused_a2a.py, HybridEPDispatch",
        copies="places",
        launch={
            "megatron-lm": (("--moe-token-dispatcher-type", "flex"), ("--moe-flex-dispatcher-backend", "hybridep")),
        },
    )
)
