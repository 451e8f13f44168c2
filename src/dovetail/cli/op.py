"""`dovetail op`: one operator on one chip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dovetail.accuracy.one_operator import Asked, kinds
from dovetail.accuracy.prepared import dtype_of
from dovetail.api.arguments import count
from dovetail.api.operators import PASSES, costed, dims_of
from dovetail.cli.answers import show_answer
from dovetail.cli.html import check_html
from dovetail.cli.screen import show_json, write
from dovetail.errors import InvalidInput
from dovetail.files.chip_names import chip_named


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


def answer(said: Said, chip: str, *, is_compared: bool, as_json: bool, html: str = "") -> None:
    """Shows what the operator costs, or the names of all."""
    check_html(html)
    if said.kind == "list":
        if _asked(said) != Asked(kind="list") or chip or is_compared or html:
            raise InvalidInput("op list names the operators, and takes --json alone; leave the rest out")
        if as_json:
            show_json({"kinds": list(kinds())})
        else:
            write("\n".join(kinds()) + "\n")
        return
    show_answer(costed(_asked(said), chip_named(chip), is_compared=is_compared), as_json=as_json, html=html)


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
