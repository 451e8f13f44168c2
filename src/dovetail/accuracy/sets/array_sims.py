"""Cycles and energy that array simulators and mappers count, each beside what it assumes.

SCALE-Sim is the mapper with one dataflow and fill for every pass. ZigZag is met by its own rules, a named mode, and its
rows go through our mapper too, on an array like its own. AccelForge's rows go through our mapper on its TPU v4i.
Sunstone picks the least product of energy and delay on placeholder energies, so its rows are no target.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import Prepared, TableContext, chip_for
from dovetail.accuracy.sets import Format, sets
from dovetail.accuracy.sets.gemm import shape_label
from dovetail.cost.mapping.convolution import convolution_shapes
from dovetail.cost.mapping.mapper import mapped_table
from dovetail.cost.mapping.simulators import scale_sim_cycles, zigzag_cycles, zigzag_energy_j
from dovetail.cost.mapping.tables import Dataflow, ProductShapes, WindowMapping, array_chips, product_shapes
from dovetail.cost.systolic import convolution_product
from dovetail.hardware.chip import Chip
from dovetail.units import BITS_PER_BYTE, GIGA, MEBI, MEGA, PICO
from dovetail.workload.graph import BoolArray, FloatArray

_IMAGE = ("h_padded", "w_padded", "fh", "fw", "cin", "cout", "stride")
_WINDOW = ("fh", "fw", "cin", "cout", "stride")
_PRODUCT = ("m", "n", "k")
_ARRAY = ("array_rows", "array_cols")
_FLOWS = {flow.value[0] + "s": flow for flow in Dataflow}  # os, ws, is
_BUFFER = re.compile(r"buffer (\d+) B")
# Sunstone as PHAZE calls it: words per clock from its SRAM and from DRAM, hard-coded there.
_SUNSTONE_SRAM_WORDS, _SUNSTONE_DRAM_WORDS, _WORD_BYTES = 256.0, 128.0, 2.0
_ZIGZAG_ACCUMULATORS = 2048  # per column (its rows' notes)
_TPU_V4I_CMEM_BYTES_PER_S, _TPU_V4I_BUFFER_BYTES = 2000 * GIGA, 4 * MEBI  # AccelForge's tpu_v4i.yaml

Sets = Iterator[tuple[str, str, FloatArray, FloatArray, str]]  # name, unit, measured, predicted, promise


def prepare(measurements: Measurements, given: TableContext) -> tuple[Prepared, ...]:
    """A set for each simulator and what it counts; rows that lack an array, a shape or cycles are counted."""
    tools = np.array([word.partition(" ")[0].lower() for word in measurements.words("tool")])
    usable = np.zeros(len(measurements), dtype=np.bool_)
    found: list[Prepared] = []
    for tool, (is_usable, compared) in _TOOLS.items():
        own = (tools == tool) & is_usable(measurements)
        usable |= own
        if bool(own.any()):
            table = measurements.where(own)
            found += [_prepared(table, chip_for(given), *one) for one in compared(table)]
    if not found:
        raise measurements.refused(f"no row of this table is of {', '.join(_TOOLS)} with an array and a shape")
    unused = Counter(tools[~usable].tolist())
    skipped = tuple(
        (f"rows of {tool} without an array, a dataflow or a shape", n) for tool, n in sorted(unused.items())
    )
    return (replace(found[0], skipped=skipped), *found[1:])


def _prepared(
    table: Measurements, chip: Chip, name: str, unit: str, measured: FloatArray, predicted: FloatArray, promise: str
) -> Prepared:
    num_rows, num_cols = (table.counts(column) for column in _ARRAY)
    is_product = _filled(table, _PRODUCT)
    kinds = [word.partition(" ")[0].lower() for word in table.words("dataflow")]
    shapes = np.array(["convolution"] * len(table), dtype=object)
    shapes[is_product] = shape_label(*(table.where(is_product).counts(column) for column in _PRODUCT))
    arrays = zip(shapes.tolist(), num_rows, num_cols, strict=True)
    return Prepared(
        name=name,
        chip=chip,
        unit=unit,
        kinds=tuple(_FLOWS[kind].value if kind in _FLOWS else kind for kind in kinds),
        whats=tuple(f"{words} on {r}x{c}" for words, r, c in arrays),
        measured=measured,
        predicted=lambda _chip: predicted,
        is_of_chip=False,
        promise=promise,
    )


def _scale_sim(table: Measurements) -> Sets:
    """Waiting for memory is counted apart there, and taken off."""
    is_image = ~_filled(table, _PRODUCT)
    extents = np.zeros((3, len(table)), dtype=np.int64)
    if not is_image.all():
        extents[:, ~is_image] = [table.where(~is_image).counts(column) for column in _PRODUCT]
    if is_image.any():
        height, width, *window, cin, cout, stride = (table.where(is_image).counts(column) for column in _IMAGE)
        extents[:, is_image] = convolution_product(height, width, (window[0], window[1]), cin, cout, stride)
    shapes = product_shapes(*extents.astype(np.float64))
    num_rows, num_cols = (table.counts(column).astype(np.float64) for column in _ARRAY)
    flows = [word.partition(" ")[0].lower() for word in table.words("dataflow")]
    predicted = np.zeros(len(table))
    for word, flow in _FLOWS.items():
        own = np.flatnonzero([each == word for each in flows])
        if len(own):
            predicted[own] = scale_sim_cycles(shapes.rows(own), num_rows[own], num_cols[own], flow)
    yield "SCALE-Sim", "cycles", table.positive("cycles") - table.numbers("stall_cycles"), predicted, "scale-sim"


def _zigzag(table: Measurements) -> Sets:
    shapes, width = _zigzag_shapes(table), table.counts("array_rows").astype(np.float64)
    per_cycle = table.positive("dram_bw") / BITS_PER_BYTE
    counted = table.positive("cycles")
    yield "ZigZag, its rules", "cycles", counted, zigzag_cycles(shapes, width, per_cycle), "zigzag"
    if bool(_filled(table, ("energy_pj",)).all()):
        energy_j = table.positive("energy_pj") * PICO
        yield "ZigZag, its rules, energy", "J", energy_j, zigzag_energy_j(shapes, width), "zigzag energy"
    chips = array_chips(
        len(table),
        levels=((table.positive("sram_total_mb") * MEBI, width * shapes.operand_bytes * 3),),
        dataflows=(Dataflow.WEIGHT_STATIONARY,),
        num_arrays=1.0,
        num_rows=width,
        num_cols=width,
        clock_hz=1.0,
        core_buffer_bytes=_ZIGZAG_ACCUMULATORS * width * 4,
        hbm_bytes_per_s=per_cycle,
    )
    mapped = np.diag(mapped_table(shapes, chips, window=WindowMapping.IN_TIME).time_s())
    yield "ZigZag, our mapper", "cycles", counted, mapped, ""


def _zigzag_shapes(table: Measurements) -> ProductShapes:
    """Products, and convolutions as ZigZag has them: pixels, window and channels."""
    is_image = _filled(table, _WINDOW)
    m, n, k = (table.counts(column).astype(np.float64) for column in _PRODUCT)
    window, reuse = np.ones(len(table)), np.ones(len(table))
    if is_image.any():
        height, width, cin, cout, stride = (table.where(is_image).counts(c).astype(np.float64) for c in _WINDOW)
        images = convolution_shapes(m[is_image], (height, width), cin, cout, stride)
        window[is_image], reuse[is_image] = images.window, images.input_reuse
    size = _element_bytes(table)
    return product_shapes(m, n, k, operand_bytes=size, result_bytes=size, window=window, input_reuse=reuse)


def _accelforge(table: Measurements) -> Sets:
    clock_hz = table.positive("clock_ghz") * GIGA
    width, height = (table.counts(column).astype(np.float64) for column in _ARRAY)
    chips = array_chips(
        len(table),
        levels=((table.positive("sram_total_mb") * MEGA, _TPU_V4I_CMEM_BYTES_PER_S),),
        dataflows=(Dataflow.WEIGHT_STATIONARY,),
        num_arrays=table.positive("num_arrays"),
        num_rows=width,
        num_cols=height,
        clock_hz=clock_hz,
        core_buffer_bytes=_TPU_V4I_BUFFER_BYTES,
        hbm_bytes_per_s=table.positive("dram_bw") * GIGA,
    )
    mapped = np.diag(mapped_table(_plain_shapes(table, _element_bytes(table)), chips).time_s())
    yield "AccelForge, our mapper", "cycles", table.positive("cycles"), mapped * clock_hz, "accelforge"


def _sunstone(table: Measurements) -> Sets:
    width = table.counts("array_rows").astype(np.float64)
    buffers = [_BUFFER.search(note) for note in table.words("notes")]
    chips = array_chips(
        len(table),
        levels=((table.positive("sram_total_mb") * MEBI, _SUNSTONE_SRAM_WORDS * _WORD_BYTES),),
        num_arrays=table.positive("num_arrays"),
        num_rows=width,
        num_cols=table.counts("array_cols").astype(np.float64),
        clock_hz=1.0,
        core_buffer_bytes=np.array([float(found[1]) if found else 0.0 for found in buffers]),
        hbm_bytes_per_s=_SUNSTONE_DRAM_WORDS * _WORD_BYTES,
    )
    mapped = np.diag(mapped_table(_plain_shapes(table, np.full(len(table), _WORD_BYTES)), chips).time_s())
    yield "Sunstone, our mapper, no target", "cycles", table.positive("cycles"), mapped, ""


def _plain_shapes(table: Measurements, element_bytes: FloatArray) -> ProductShapes:
    extents = (table.counts(column).astype(np.float64) for column in _PRODUCT)
    return product_shapes(*extents, operand_bytes=element_bytes, result_bytes=element_bytes)


def _element_bytes(table: Measurements) -> FloatArray:
    return table.positive("precision_bits") / BITS_PER_BYTE


def _filled(table: Measurements, columns: tuple[str, ...]) -> BoolArray:
    if not table.has(*columns):
        return np.zeros(len(table), dtype=np.bool_)
    cells = zip(*(table.words(column) for column in columns), strict=True)
    return np.array([all(row) for row in cells], dtype=np.bool_)


def _scale_sim_rows(table: Measurements) -> BoolArray:
    flows = np.array([word.partition(" ")[0].lower() in _FLOWS for word in table.words("dataflow")])
    has_shape = _filled(table, _PRODUCT) | _filled(table, _IMAGE)
    return np.asarray(has_shape & _filled(table, (*_ARRAY, "stall_cycles")) & flows)


def _zigzag_rows(table: Measurements) -> BoolArray:
    return _filled(table, (*_PRODUCT, *_ARRAY, "precision_bits", "dram_bw", "sram_total_mb"))


def _accelforge_rows(table: Measurements) -> BoolArray:
    needed = ("precision_bits", "dram_bw", "sram_total_mb", "clock_ghz", "num_arrays")
    return _filled(table, (*_PRODUCT, *_ARRAY, *needed))


def _sunstone_rows(table: Measurements) -> BoolArray:
    if not _filled(table, (*_PRODUCT, *_ARRAY, "sram_total_mb", "num_arrays")).any():
        return np.zeros(len(table), dtype=np.bool_)
    buffers = np.array([_BUFFER.search(note) is not None for note in table.words("notes")])
    return buffers & _filled(table, (*_PRODUCT, *_ARRAY, "sram_total_mb", "num_arrays"))


_TOOLS: dict[str, tuple[Callable[[Measurements], BoolArray], Callable[[Measurements], Sets]]] = {
    "scale-sim": (_scale_sim_rows, _scale_sim),
    "zigzag": (_zigzag_rows, _zigzag),
    "accelforge": (_accelforge_rows, _accelforge),
    "sunstone": (_sunstone_rows, _sunstone),
}
sets.register("array-sims")(
    Format(
        needed=("tool", "array_rows", "array_cols", "dataflow", "cycles"),
        summary="cycles of array simulators: tool, array_rows, array_cols, dataflow, cycles and a shape",
        prepare=prepare,
    )
)
