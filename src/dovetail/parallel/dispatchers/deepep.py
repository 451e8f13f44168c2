"""DeepEP: one copy per node over the network, handed on to the node's devices over NVLink by the same kernel."""

from __future__ import annotations

from dovetail.parallel.dispatchers import Dispatcher, dispatchers

dispatchers.register("deepep")(
    Dispatcher(
        name="deepep",
        summary="a token goes once to each node with experts of its own, then to their devices (DeepEP)",
        source="DeepSeek-AI 2025, DeepEP, normal kernels; Megatron-LM core, moe/fused_a2a.py",
        copies="places",
        aliases=("flex",),
        launch={
            "megatron-lm": (("--moe-token-dispatcher-type", "flex"), ("--moe-enable-deepep", "")),
            "torchtitan": (("expert_parallel_comm_backend", "deepep"),),
        },
    )
)
