"""`dovetail op`: one operator on one chip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dovetail.accuracy.prepared import dtype_of
from dovetail.accuracy.single import KINDS, Asked, op_answer
from dovetail.cli.asked import count
from dovetail.cli.naming import chip_named
from dovetail.cli.screen import show_json, show_tables, write
from dovetail.errors import DovetailError
from dovetail.report.operator import op_record, op_tables

# What tables of measurements call the passes.
PASSES = {
    "fwd": "forward",
    "bwd": "input-grad",
    "backward": "input-grad",
    "dgrad": "input-grad",
    "wgrad": "weight-grad",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """The operator as it was typed; `counts` by the option that gave them."""

    kind: str
    dims: tuple[str, ...]
    dtype: str
    direction: str
    counts: Mapping[str, str | None]
    is_causal: bool
    is_fused: bool
    setting: str


def answer(said: Said, chip: str, *, is_compared: bool, as_json: bool) -> None:
    if said.kind == "list":
        if as_json:
            show_json(list(KINDS))
        else:
            write("\n".join(KINDS) + "\n")
        return
    named = chip_named(chip)
    asked = _asked(said)
    try:
        found = op_answer(asked, named, is_compared=is_compared)
    except DovetailError as error:
        raise type(error)(error.message, error.where or f"{asked.kind} on {named.name}") from None
    if as_json:
        show_json(op_record(found))
    else:
        show_tables(op_tables(found))


def _asked(said: Said) -> Asked:
    counts = {option: count(f"--{option}", text) for option, text in said.counts.items()}
    return Asked(
        kind=said.kind,
        dims=dims_of(said.dims),
        dtype=dtype_of(said.dtype) or said.dtype,
        phase=PASSES.get(said.direction, said.direction),
        batch=counts["batch"],
        heads=counts["heads"],
        kv_heads=counts["kv-heads"],
        seq=counts["seq"],
        head_width=counts["head-dim"],
        is_causal=said.is_causal,
        window=counts["kernel"],
        stride=counts["stride"],
        table_rows=counts["table-rows"],
        is_fused=said.is_fused,
        setting=said.setting,
    )


def dims_of(texts: tuple[str, ...]) -> tuple[int, ...]:
    """Sizes as people write them: apart, or joined by an x as in 4096x4096x4096."""
    words = [word for text in texts for word in text.lower().split("x")]
    return tuple(count("a size", word) for word in words)
