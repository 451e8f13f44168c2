"""One transformer layer holding a 1/tp shard, forward and backward: milliseconds.

Small eager layers wait for the host to launch their operators, not for the device: they are a set of their own.
"""

from __future__ import annotations

import numpy as np

from dovetail.accuracy.jobs import Layer, kernels_of, layer_graph, layer_work
from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import Prepared, TableContext, chip_for, promise_for
from dovetail.accuracy.sets import Format, sets
from dovetail.errors import DovetailError
from dovetail.hardware.chip import Chip
from dovetail.step.work import StageWork
from dovetail.units import MILLI
from dovetail.workload.graph import BoolArray, FloatArray, Graph

SHAPE = ("tp", "micro_batch", "seq", "hidden", "ffn", "heads", "kv_heads", "head_dim")
# Guards and wrappers of a compiled graph, forward and backward, beside what any pass takes to enter. A layer compiled
# by itself pays it every time, a compiled model once a step; medians of the smallest layers measured on one H200.
COMPILED_S = (0.35 * MILLI, 1.0 * MILLI)
NEEDED = ("model", *SHAPE, "gated", "causal", "mode", "fwd_bwd_ms")


def prepare(measurements: Measurements, given: TableContext) -> tuple[Prepared, ...]:
    """Rows that wait for the device, and rows that wait for the host, as our own prediction has it."""
    chip = chip_for(given)
    layers = layers_of(measurements)
    pairs, works = _worked(measurements, layers, chip)
    is_bound = np.array([is_host_bound(work, layer.mode) for work, layer in zip(works, layers, strict=True)])
    found = []
    for name, rows, promise in (("", ~is_bound, "h200 layers"), (" host-bound", is_bound, "")):
        if rows.any():
            found.append(_prepared(measurements, name, rows, pairs, chip, promise_for(chip, promise)))
    return tuple(found)


def _worked(table: Measurements, layers: list[Layer], chip: Chip) -> tuple[list[tuple[Graph, Layer]], list[StageWork]]:
    """Every layer with its graph, and its work on `chip`; raises for all the rows that cannot be expressed."""
    pairs, works, unreadable = [], [], {}
    for row, layer in enumerate(layers):
        try:
            graph = layer_graph(layer)
            works.append(layer_work(graph, layer, chip))
            pairs.append((graph, layer))
        except DovetailError as error:  # a table of one's own may hold more than we know
            unreadable[row] = error.message
    if unreadable:
        raise table.unreadable(unreadable)
    return pairs, works


def is_host_bound(work: StageWork, mode: str) -> bool:
    """Whether queueing a layer's operators takes the host longer, in one direction at least, than running them."""
    return any(host_s > device_s for host_s, device_s in _host_and_device_s(work, mode))


def _time_s(work: StageWork, mode: str) -> float:
    return sum(max(pair) for pair in _host_and_device_s(work, mode))


def _host_and_device_s(work: StageWork, mode: str) -> list[tuple[float, float]]:
    """Seconds of host and device, forward and backward."""
    more_s = COMPILED_S if kernels_of(mode) == "compiled" else (0.0, 0.0)
    ways = zip((work.forward.cost, work.backward.cost), more_s, strict=True)
    return [(cost.host_s + call_s, cost.compute_s) for cost, call_s in ways]


def _prepared(
    measurements: Measurements, name: str, rows: BoolArray, pairs: list[tuple[Graph, Layer]], chip: Chip, promise: str
) -> Prepared:
    table = measurements.where(rows)
    chosen = [pair for pair, is_chosen in zip(pairs, rows, strict=True) if is_chosen]

    def predicted(chip: Chip) -> FloatArray:
        return np.array([_time_s(layer_work(graph, layer, chip), layer.mode) for graph, layer in chosen])

    columns = (table.words(column) for column in ("model", "tp", "micro_batch", "seq", "mode"))
    return Prepared(
        name=measurements.name + name,
        chip=chip,
        unit="s",
        kinds=tuple(table.words("mode")),
        whats=tuple(f"{model} tp{tp} mb{batch} s{seq}" for model, tp, batch, seq, _ in zip(*columns, strict=True)),
        measured=table.positive("fwd_bwd_ms") * MILLI,
        predicted=predicted,
        promise=promise,
    )


def layers_of(table: Measurements) -> list[Layer]:
    counts = [table.counts(column) for column in SHAPE]
    flags = [table.counts(column, least=0) > 0 for column in ("gated", "causal")]
    modes = table.words("mode")
    layers = []
    for row in range(len(table)):
        tensor, batch, seq, hidden, ffn, heads, kv_heads, head_width = (int(column[row]) for column in counts)
        layers.append(
            Layer(
                tensor=tensor,
                batch=batch,
                seq=seq,
                hidden=hidden,
                ffn=ffn,
                heads=heads,
                kv_heads=kv_heads,
                head_width=head_width,
                is_gated=bool(flags[0][row]),
                is_causal=bool(flags[1][row]),
                mode=modes[row],
            )
        )
    return layers


sets.register("layers")(
    Format(needed=NEEDED, summary="transformer layers: model, tp, micro_batch, ..., fwd_bwd_ms", prepare=prepare)
)
