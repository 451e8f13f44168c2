"""The policies that MaxText has names for (remat_policy of its base.yml; `full` there is `nothing_saveable` here)."""

from __future__ import annotations

from dovetail.workload.checkpoint_policies import DEVICE, OFFLOAD, CheckpointPolicy, Places, checkpoint_policies

SOURCE = "MaxText, MaxText/layers/decoders.py get_remat_policy (commit 0013a4d) and configs/base.yml"
QKV = ("query_proj", "key_proj", "value_proj")
MLP_IN = ("mlpwi_0", "mlpwi_1")


def _all(tensors: tuple[str, ...], place: str) -> Places:
    return tuple((tensor, place) for tensor in tensors)


def _register(name: str, summary: str, tensors: Places = ()) -> None:
    checkpoint_policies.register(name)(CheckpointPolicy(summary=summary, source=SOURCE, tensors=tensors))


_register("nothing_saveable", "layer inputs alone; MaxText's full")
_register("minimal", "outputs of all products with weights", _all((*QKV, "out_proj", *MLP_IN, "mlpwo"), DEVICE))
_register(
    "minimal_flash", "as minimal, and attention's output", _all((*QKV, "context", "out_proj", *MLP_IN, "mlpwo"), DEVICE)
)
_register("minimal_offloaded", "as minimal, all on the host", _all((*QKV, "out_proj", *MLP_IN, "mlpwo"), OFFLOAD))
_register(
    "save_dot_except_mlpwi", "products but those into the feed-forward", _all((*QKV, "out_proj", "mlpwo"), DEVICE)
)
_register("save_dot_except_mlp", "products of attention", _all((*QKV, "out_proj"), DEVICE))
_register(
    "save_dot_with_context_except_mlp",
    "products of attention, and its output",
    _all((*QKV, "context", "out_proj"), DEVICE),
)
_register("save_qkv_proj", "queries, keys and values", _all(QKV, DEVICE))
_register("save_out_proj", "what attention adds to the residual", _all(("out_proj",), DEVICE))
_register("qkv_proj_offloaded", "queries, keys and values, on the host", _all(QKV, OFFLOAD))
