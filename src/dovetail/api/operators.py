"""One operator on one chip: from what was asked to what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, SupportsIndex

from dovetail.accuracy.one_operator import Asked as OpAsked
from dovetail.accuracy.one_operator import OpAnswer, kinds, op_answer
from dovetail.accuracy.prepared import dtype_of
from dovetail.api.answer import Answer, call_of
from dovetail.api.arguments import count, counted, in_python
from dovetail.errors import DovetailError
from dovetail.files.given import ChipGiven, chip_given
from dovetail.hardware.chip import Chip
from dovetail.report.operator import op_record, op_tables
from dovetail.report.page import Page
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.units import format_s

# What tables of measurements call the passes.
PASSES = {
    "fwd": "forward",
    "bwd": "input-grad",
    "backward": "input-grad",
    "dgrad": "input-grad",
    "wgrad": "weight-grad",
}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Operator(Answer):
    """What one operator costs on one chip: `outcome` is the model's own value."""

    outcome: OpAnswer
    call: str

    @property
    def fits(self) -> bool:
        return True

    @property
    def time_s(self) -> float:
        return self.outcome.time_s

    @property
    def energy_j(self) -> float:
        return self.outcome.energy_j

    @property
    def limit(self) -> str:
        """What binds it."""
        return self.outcome.limit

    @property
    def headline(self) -> str:
        found = self.outcome
        return f"{found.what} on {found.chip}, {format_s(found.time_s)}, limited by {found.limit}"

    @property
    def tables(self) -> tuple[Table, ...]:
        return op_tables(self.outcome)

    @property
    def _record(self) -> Record:
        return op_record(self.outcome)

    @property
    def page(self) -> Page:
        from dovetail.report.pages.operator import op_page  # with its charts

        return op_page(self.outcome)


@in_python
def op(
    kind: str,
    *dims: SupportsIndex | str,
    chip: ChipGiven = "",
    dtype: str = "bf16",
    direction: str = "forward",
    batch: SupportsIndex = 1,
    heads: SupportsIndex = 1,
    kv_heads: SupportsIndex | None = None,
    seq: SupportsIndex | None = None,
    head_dim: SupportsIndex | None = None,
    causal: bool = False,
    kernel: SupportsIndex = 1,
    stride: SupportsIndex = 1,
    table_rows: SupportsIndex = 1,
    fused: bool = False,
    setting: str = "alone",
    compare: bool = False,
) -> Operator:
    """Cost one operator on one chip, and say what limits it.

    `kind` is one of `dovetail.operator_kinds()`, such as matmul, attention or layernorm; `dims` are M, N and K of a
    product, rows and columns, or as one text, "4096x4096x4096". `chip` is a name, the beginning of one such as h200,
    a file, a mapping or a `Chip`. `direction` is forward, input-grad or weight-grad; sizes stay those of forward.
    """
    said = dict(locals())  # of arguments alone, as nothing stands before
    return costed(_asked(said), chip_given(chip), is_compared=compare, call=call_of("op", **said))


def _asked(said: dict[str, Any]) -> OpAsked:
    """The arguments, with counts read."""
    numbers = ("batch", "heads", "kv_heads", "seq", "head_dim", "kernel", "stride", "table_rows")
    counts = {name: counted(name, said[name]) for name in numbers}
    return OpAsked(
        kind=said["kind"],
        dims=dims_of(said["dims"]),
        dtype=dtype_of(said["dtype"]) or said["dtype"],
        phase=PASSES.get(said["direction"], said["direction"]),
        batch=counts["batch"],
        heads=counts["heads"],
        kv_heads=counts["kv_heads"],
        seq=counts["seq"],
        head_width=counts["head_dim"],
        is_causal=said["causal"],
        window=counts["kernel"],
        stride=counts["stride"],
        table_rows=counts["table_rows"],
        is_fused=said["fused"],
        setting=said["setting"],
    )


def operator_kinds() -> tuple[str, ...]:
    """What `op` takes as its kind."""
    return kinds()


def costed(asked: OpAsked, chip: Chip, *, is_compared: bool, call: str = "dovetail.op()") -> Operator:
    """What an operator costs; errors name it and the chip."""
    try:
        found = op_answer(asked, chip, is_compared=is_compared)
    except DovetailError as error:
        raise type(error)(error.message, error.where or f"{asked.kind} on {chip.name}") from None
    return Operator(outcome=found, call=call)


def dims_of(sizes: tuple[SupportsIndex | str, ...]) -> tuple[int, ...]:
    """Sizes as people write them: apart, or joined by an x as in 4096x4096x4096."""
    found: list[int] = []
    for size in sizes:
        if isinstance(size, str):
            found += [count("a size", word) for word in size.lower().split("x")]
        else:
            found.append(counted("a size", size))
    return tuple(found)
