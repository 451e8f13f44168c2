"""Square convolutions, forward and both gradients: channels, window, side and microseconds."""

from __future__ import annotations

from dovetail.accuracy.columns import convolution_ops
from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.passes import pass_labels, phases_of
from dovetail.accuracy.prepared import Prepared, TableContext, chip_for, operators, promise_for, typed
from dovetail.accuracy.sets import Format, sets
from dovetail.units import MICRO

SHAPE = ("batch", "cin", "cout", "kernel", "stride", "hw_in")
NEEDED = (*SHAPE, "pass", "time_us")


def prepare(measurements: Measurements, given: TableContext) -> tuple[Prepared, ...]:
    chip = chip_for(given)
    rows = typed(measurements, given, chip)
    table = rows.table
    batch, in_channels, out_channels, window, stride, side = (table.counts(name) for name in SHAPE)
    phases = phases_of(table)
    ops = convolution_ops(
        batch=batch,
        in_channels=in_channels,
        out_channels=out_channels,
        window=window,
        stride=stride,
        side=side,
        phase=phases,
        dtypes=rows.dtypes,
    )
    prepared = operators(
        rows,
        ops,
        chip,
        kinds=pass_labels(phases),
        whats=_words(table),
        measured_s=table.positive("time_us") * MICRO,
        promise=promise_for(chip, "h200 convolution"),
    )
    return (prepared,)


def _words(table: Measurements) -> tuple[str, ...]:
    columns = (table.words(name) for name in SHAPE)
    return tuple(f"b{b} {i}->{o} {k}x{k}/{s} of {hw}" for b, i, o, k, s, hw in zip(*columns, strict=True))


sets.register("convolution")(
    Format(needed=NEEDED, summary=f"convolutions: {', '.join(NEEDED)}", prepare=prepare, has_dtypes=True)
)
