"""NCCL's all-to-all: a copy of a token for each of its experts."""

from __future__ import annotations

from dovetail.parallel.dispatchers import Dispatcher, dispatchers

dispatchers.register("all-to-all")(
    Dispatcher(
        name="all-to-all",
        summary="a token goes once to each of its experts, by an all-to-all of the library",
        source="Megatron-LM core, moe/token_dispatcher.py, MoEAlltoAllTokenDispatcher",
        copies="experts",
        aliases=("alltoall", "standard"),
        launch={
            "megatron-lm": (("--moe-token-dispatcher-type", "alltoall"),),
            "torchtitan": (("expert_parallel_comm_backend", "standard"),),
            "deepspeed": (),
            "maxtext": (),
        },
    )
)
