"""Every device of the group gets all tokens and keeps those of its experts; results are summed on the way back."""

from __future__ import annotations

from dovetail.parallel.dispatchers import Dispatcher, dispatchers

dispatchers.register("all-gather")(
    Dispatcher(
        name="all-gather",
        summary="all tokens are gathered by every device; results are reduced and scattered",
        source="Megatron-LM core, moe/token_dispatcher.py, MoEAllGatherTokenDispatcher",
        copies="all",
        aliases=("allgather",),
        launch={"megatron-lm": (("--moe-token-dispatcher-type", "allgather"),)},
    )
)
