"""Element-wise, norm, loss, lookup and optimizer operators: rows, columns and microseconds."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from dovetail.accuracy.columns import bare_ops
from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import Prepared, TableContext, Typed, chip_for, dtypes_of, operators, promise_for
from dovetail.accuracy.sets import Format, sets
from dovetail.hardware.chip import Chip
from dovetail.units import MICRO
from dovetail.workload.graph import Ops, Phase
from dovetail.workload.operators import OPERATORS, code_of
from dovetail.workload.optimizer import Precision
from dovetail.workload.optimizers import update_operator_names

_NAME = re.compile(r"(?P<base>[a-z_]+?)(?P<pass>_fwd|_bwd)?(_v(?P<vocab>[0-9]+))?(_pool(?P<pool>[0-9]+))?(_fp32)?")
_KNOWN = {operator.name for operator in OPERATORS}
# What measurements call operators that go by another name here; the rest go by their own.
KINDS = {"adamw_fused": "adam", "sum_rows": "bias_grad", "transpose_copy": "transpose", "cast": "cast", "copy": "copy"}
_TABLES = ("embedding", "embedding_bag")  # their backward pass is a gradient of weights, not of inputs
ADAM_BYTES = Precision(compute="fp32").update_bytes  # fp32 weight, gradient and two moments in, all but one out


@dataclass(frozen=True, slots=True, kw_only=True)
class _Operator:
    """What the name of an operator in a table says."""

    kind: str
    phase: Phase
    vocab: int = 0  # rows of the table that is looked up
    pool: int = 1  # rows of it summed to one


def prepare(measurements: Measurements, given: TableContext) -> tuple[Prepared, ...]:
    chip = chip_for(given, table=measurements.name)
    named = {word: _operator(word) for word in set(measurements.words("op"))}
    words = measurements.words("op")
    dtypes = dtypes_of(measurements, given)
    is_known = np.array([named[w] is not None and bool(d) for w, d in zip(words, dtypes, strict=True)])
    unknown = Counter(word for word, known in zip(words, is_known, strict=True) if not known)
    table = measurements.where(is_known)
    rows = Typed(
        table=table,
        dtypes=[dtype for dtype, known in zip(dtypes, is_known, strict=True) if known],
        skipped=tuple(
            (f"rows of {word[:40]}, which is not modelled", count) for word, count in sorted(unknown.items())
        ),
    )
    found = [operator for word in table.words("op") if (operator := named[word]) is not None]
    return (_timed(rows, found, chip),)


def _timed(rows: Typed, found: list[_Operator], chip: Chip) -> Prepared:
    table = rows.table
    shape = zip(table.words("rows"), table.words("cols"), rows.dtypes, strict=True)
    return operators(
        rows,
        _ops(rows, found),
        chip,
        kinds=tuple(table.words("op")),
        whats=tuple(f"{m}x{n} {dtype}" for m, n, dtype in shape),
        measured_s=table.positive("time_us") * MICRO,
        promise=promise_for(chip, "h200 vector"),
    )


def _operator(word: str) -> _Operator | None:
    match = _NAME.fullmatch(word.strip().lower())
    if match is None:
        return None
    kind = KINDS.get(match["base"], match["base"])
    if kind not in _KNOWN:
        return None
    phase = Phase.FORWARD
    if match["pass"] == "_bwd":
        phase = Phase.WEIGHT_GRAD if kind in _TABLES else Phase.INPUT_GRAD
    elif kind in update_operator_names():
        phase = Phase.UPDATE
    return _Operator(kind=kind, phase=phase, vocab=int(match["vocab"] or 0), pool=int(match["pool"] or 1))


def _ops(rows: Typed, found: list[_Operator]) -> Ops:
    """A lookup carries the rows of its table, and how many of them it sums."""
    m, n = rows.table.counts("rows"), rows.table.counts("cols")
    pool = np.array([operator.pool for operator in found], dtype=np.int64)
    vocab = np.array([operator.vocab for operator in found], dtype=np.int64)
    is_update = np.array([operator.phase == Phase.UPDATE for operator in found], dtype=np.bool_)
    ops = bare_ops(
        kind=np.array([code_of(operator.kind) for operator in found], dtype=np.int64),
        phase=np.array([operator.phase for operator in found], dtype=np.int64),
        dtypes=rows.dtypes,
        extents=(1, m, n, np.maximum(vocab, 1), pool),
        side_bytes_per_element=np.where(is_update, ADAM_BYTES, 0.0),
    )
    return replace(ops, weight_elements=vocab * n, gradient_elements=vocab * n)


sets.register("vector")(
    Format(
        needed=("op", "rows", "cols", "time_us"),
        summary="vector operators: op, rows, cols, time_us; dtype",
        prepare=prepare,
        has_dtypes=True,
    )
)
