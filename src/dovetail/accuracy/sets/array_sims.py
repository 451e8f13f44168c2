"""Cycles that array simulators count: SCALE-Sim against the exact closed forms, ZigZag against the overlapped ones."""

from __future__ import annotations

from collections import Counter

import numpy as np

from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import Prepared, TableContext, chip_for
from dovetail.accuracy.sets import Format, sets
from dovetail.accuracy.sets.gemm import shape_label
from dovetail.cost.systolic import DATAFLOWS, convolution_product, systolic_cycles
from dovetail.hardware.chip import Chip
from dovetail.workload.graph import BoolArray, FloatArray, IntArray

_IMAGE = ("h_padded", "w_padded", "fh", "fw", "cin", "cout", "stride")
_ARRAY = ("array_rows", "array_cols")
_DATAFLOWS = {name[0] + "s": name for name in DATAFLOWS}  # os, ws, is


def prepare(measurements: Measurements, given: TableContext) -> tuple[Prepared, ...]:
    """A set for each simulator whose rows have a shape and one array; the others are counted."""
    has_shape = _filled(measurements, ("m", "n", "k")) | _filled(measurements, _IMAGE)
    tools = np.array([word.partition(" ")[0].lower() for word in measurements.words("tool")])
    flows = np.array([word.partition(" ")[0].lower() for word in measurements.words("dataflow")])
    usable = has_shape & _filled(measurements, (*_ARRAY, "stall_cycles")) & np.isin(flows, list(_DATAFLOWS))
    usable &= np.isin(tools, ["scale-sim", "zigzag"])
    unused = Counter(tools[~usable].tolist())
    skipped = tuple(
        (f"rows of {tool} without one array, a dataflow or a shape", n) for tool, n in sorted(unused.items())
    )
    found: list[Prepared] = []
    for tool, words, is_overlapped in (("scale-sim", "SCALE-Sim", False), ("zigzag", "ZigZag", True)):
        if bool((usable & (tools == tool)).any()):
            table = measurements.where(usable & (tools == tool))
            found.append(_simulated(table, words, is_overlapped, chip_for(given), skipped if not found else ()))
    if not found:
        raise measurements.refused("no row of this table is of SCALE-Sim or ZigZag with an array and a shape")
    return tuple(found)


def _simulated(
    table: Measurements, tool: str, is_overlapped: bool, chip: Chip, skipped: tuple[tuple[str, int], ...]
) -> Prepared:
    m, n, k = _products(table)
    num_rows, num_cols = (table.counts(column) for column in _ARRAY)
    flows = [_DATAFLOWS[word.partition(" ")[0].lower()] for word in table.words("dataflow")]
    steps = _closed_forms((m, n, k), (num_rows, num_cols), flows, is_overlapped)
    # SCALE-Sim counts waiting for memory apart; ZigZag's stalls are what the overlapped mode does not hide
    stalls = 0.0 if is_overlapped else table.numbers("stall_cycles")
    arrays = zip(shape_label(m, n, k), num_rows, num_cols, strict=True)

    def predicted(_chip: Chip) -> FloatArray:
        return steps

    return Prepared(
        name=tool,
        chip=chip,
        unit="cycles",
        kinds=tuple(flows),
        whats=tuple(f"{words} on {r}x{c}" for words, r, c in arrays),
        measured=table.positive("cycles") - stalls,
        predicted=predicted,
        is_of_chip=False,
        promise="" if is_overlapped else "scale-sim",
        skipped=skipped,
    )


def _closed_forms(
    shape: tuple[IntArray, ...], array: tuple[IntArray, ...], flows: list[str], is_overlapped: bool
) -> FloatArray:
    steps = np.zeros(len(flows))
    for flow in DATAFLOWS:
        rows = np.array([name == flow for name in flows])
        m, n, k, num_rows, num_cols = (column[rows].astype(np.float64) for column in (*shape, *array))
        steps[rows] = systolic_cycles(
            m, n, k, num_rows=num_rows, num_cols=num_cols, dataflow=flow, is_overlapped=is_overlapped
        )
    return steps


def _products(table: Measurements) -> tuple[IntArray, IntArray, IntArray]:
    """(m, n, k) of every row, convolutions unrolled."""
    is_image = ~_filled(table, ("m", "n", "k"))
    found = np.zeros((3, len(table)), dtype=np.int64)
    if not is_image.all():
        products = table.where(~is_image)
        found[:, ~is_image] = [products.counts(column) for column in ("m", "n", "k")]
    if is_image.any():
        height, width, *rest = (table.where(is_image).counts(column) for column in _IMAGE)
        window_height, window_width, in_channels, out_channels, stride = rest
        window = (window_height, window_width)
        found[:, is_image] = convolution_product(height, width, window, in_channels, out_channels, stride)
    return found[0], found[1], found[2]


def _filled(table: Measurements, columns: tuple[str, ...]) -> BoolArray:
    if not table.has(*columns):
        return np.zeros(len(table), dtype=np.bool_)
    cells = zip(*(table.words(column) for column in columns), strict=True)
    return np.array([all(row) for row in cells], dtype=np.bool_)


sets.register("array-sims")(
    Format(
        needed=("tool", "array_rows", "array_cols", "dataflow", "cycles"),
        summary="cycles of array simulators: tool, array_rows, array_cols, dataflow, cycles and a shape",
        prepare=prepare,
    )
)
