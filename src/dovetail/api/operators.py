"""One operator on one chip: from what was asked to what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import SupportsIndex

from dovetail.accuracy.one_operator import OpAnswer, OperatorQuery, kinds, op_answer
from dovetail.accuracy.prepared import dtype_of
from dovetail.api.answer import Answer
from dovetail.api.arguments import count, counted
from dovetail.api.requests.components import OpRequest
from dovetail.errors import DovetailError
from dovetail.files.python_values import as_chip
from dovetail.report.figures import record_of, tables_of
from dovetail.report.operator import op_figures
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
    """The cost of one operator on one chip."""

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
        return tables_of(op_figures(self.outcome))

    @property
    def _record(self) -> Record:
        return record_of(op_figures(self.outcome))

    @property
    def page(self) -> Page:
        from dovetail.report.pages.operator import op_page  # with its charts

        return op_page(self.outcome)


def operator_kinds() -> tuple[str, ...]:
    """What `op` takes as its kind."""
    return kinds()


def costed(request: OpRequest) -> Operator:
    """What an operator costs; errors name it and the chip."""
    query, chip = _operator(request), as_chip(request.chip)
    try:
        found = op_answer(query, chip, is_compared=request.compare)
    except DovetailError as error:
        raise type(error)(error.message, error.where or f"{query.kind} on {chip.name}") from None
    return Operator(outcome=found, call=request.call)


def _operator(request: OpRequest) -> OperatorQuery:
    """The operator as the cost model takes it."""
    return OperatorQuery(
        kind=request.kind,
        dims=dims_of(request.dims),
        dtype=dtype_of(request.dtype) or request.dtype,
        phase=PASSES.get(request.direction, request.direction),
        batch=request.batch,
        heads=request.heads,
        kv_heads=request.kv_heads,
        seq=request.seq,
        head_width=request.head_dim,
        is_causal=request.causal,
        window=request.kernel,
        stride=request.stride,
        table_rows=request.table_rows,
        is_fused=request.fused,
        setting=request.setting,
    )


def dims_of(sizes: tuple[SupportsIndex | str, ...]) -> tuple[int, ...]:
    """Sizes as people write them: apart, or joined by an x as in 4096x4096x4096."""
    found: list[int] = []
    for size in sizes:
        if isinstance(size, str):
            found += [count("a size", word) for word in size.lower().split("x")]
        else:
            found.append(counted("a size", size))
    return tuple(found)
