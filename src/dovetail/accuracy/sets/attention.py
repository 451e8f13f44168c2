"""Fused attention, forward and backward: heads, positions and microseconds."""

from __future__ import annotations

import numpy as np

from dovetail.accuracy.columns import attention_ops
from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.passes import phases_of
from dovetail.accuracy.prepared import Prepared, TableContext, chip_for, operators, promise_for, typed
from dovetail.accuracy.sets import Format, sets
from dovetail.units import MICRO
from dovetail.workload.graph import Phase

NEEDED = ("batch", "heads", "kv_heads", "seq", "head_dim", "causal", "pass", "time_us")


def prepare(measurements: Measurements, given: TableContext) -> tuple[Prepared, ...]:
    chip = chip_for(given)
    rows = typed(measurements, given, chip)
    table = rows.table
    batch, heads, kv_heads, seq, width = (table.counts(name) for name in NEEDED[:5])
    is_causal = table.counts("causal", least=0) > 0
    phases = phases_of(table)
    ops = attention_ops(
        batch * heads,
        seq,
        width,
        kv_frac=kv_heads / heads,
        work_frac=np.where(is_causal, 0.5, 1.0),
        phase=phases,
        dtypes=rows.dtypes,
    )
    prepared = operators(
        rows,
        ops,
        chip,
        kinds=tuple("forward" if phase == Phase.FORWARD else "backward" for phase in phases),
        whats=_words(table),
        measured_s=table.positive("time_us") * MICRO,
        promise=promise_for(chip, "h200 attention"),
    )
    return (prepared,)


def _words(table: Measurements) -> tuple[str, ...]:
    columns = (table.words(name) for name in NEEDED[:6])
    return tuple(
        f"b{b} h{h}/{kv} s{s} d{d}{' causal' if c == '1' else ''}" for b, h, kv, s, d, c in zip(*columns, strict=True)
    )


sets.register("attention")(
    Format(needed=NEEDED, summary=f"fused attention: {', '.join(NEEDED)}", prepare=prepare, has_dtypes=True)
)
