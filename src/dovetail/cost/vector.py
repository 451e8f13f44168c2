"""Vector operators: kernels one after another, each as long as its bytes, lanes or dependent steps make it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from dovetail.cost.columns import ChipColumns
from dovetail.cost.kernels import Access, Kernel
from dovetail.units import KIBI
from dovetail.workload.graph import BoolArray, FloatArray, IntArray

# What the kernels of PyTorch are built like; the times they wait for are the chip's calibration.
SECTOR_BYTES = 32.0  # smallest unit of the shared cache and HBM
LOAD_BYTES = 16.0  # widest load of a thread
THREADS_OF_CORE = 2048.0
LANES_OF_CORE = 128.0
NORM_THREADS = 128.0
BLOCK_THREADS = 1024.0
RESIDENT_FRAC = 0.75  # of a core's SRAM that rows may fill before the second sweep leaves it
# Rows of 4-byte elements (fp32): a thread's load is whole, so one stream keeps as many bytes in flight as two of bf16,
# and blocks of a core hide each other's waits. A row is swept again from the core's SRAM while rows of all its resident
# blocks fit. Fitted on 463 fp32 operators of an A100 and a V100 (sitar-lab/NeuSight, torch 2.1): 78 layer norms and 78
# softmaxes among them.
WIDE_BYTES = 4.0
RESERVED_BYTES = 32.0 * KIBI  # of a core's SRAM, what its shared-memory partition keeps
KEPT_SHARE, LOST_SHARE = 0.6, 1.35  # of the rest: rows up to here are all kept, from here on all read again
WIDE_WARP_COLS = 1024.0  # softmax: to here a warp holds a row (PersistentSoftmax.cuh, torch 2.1)
WIDE_LOAD_ELEMENTS = 4.0  # a thread loads at once
SOFTMAX_SWEEPS, SOFTMAX_BARRIER_STEPS = 3.0, 5.0  # maximum, sum, result (SoftMax.cu); two reductions over a block
WARP_COLS, REGISTER_COLS = 2048.0, 9216.0  # softmax: to here a warp a row, a block a row in registers, else in SRAM
COLUMN_OPS_OF_CLOCK = 19.7  # of a core that sums down columns: loads, normalising, sums; 36e9 a second on the H200
MANY_ROWS = 3072.0  # embedding backward: above it the indices are sorted
SORT_KERNELS = 30.0  # radix sort, unique, scans and their fills
CHUNK_ELEMENTS = 65536.0
CHUNK_FRAC = 0.83  # of hbm_frac: chunks spread unevenly over cores
CHUNK_STEP_ELEMENTS = 2048.0  # of a block a step
COLUMN_SUM_STEPS = 24.0
SUMS_OF_THREAD = 16.0
PICKS_OF_THREAD = 16.0
MANY_STREAMS, ONE_STREAM, NO_STREAM, CHUNKED = range(4)  # rows of the table of bandwidth shares


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRows:
    """Kernels of many operators, one row each, as columns that broadcast over chips; codes stay flat."""

    operator: IntArray  # which operator each belongs to, in order
    access: IntArray
    streams: IntArray
    rows: FloatArray
    cols: FloatArray
    elements: FloatArray
    element_bytes: FloatArray
    moved_bytes: FloatArray
    slots: FloatArray
    array_slots: FloatArray  # beside arrays (`cost.mapping.vector_slots`)
    needs_row: FloatArray  # 1 or 0, there: the whole row is read before its first result is known
    pool: FloatArray
    reads: FloatArray
    num_sweeps: FloatArray
    num_sums: FloatArray
    num_barriers: FloatArray

    def at(self, mask: BoolArray) -> KernelRows:
        return KernelRows(**{field.name: getattr(self, field.name)[mask] for field in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Seconds of operators by cause, launches apart; `busy_s` is what passes, the others say why."""

    busy_s: FloatArray
    lanes_s: FloatArray
    hbm_s: FloatArray
    waits_s: FloatArray
    hbm_bytes: FloatArray
    nearest_bytes: FloatArray  # between lanes and the memory beside them; not counted on GPUs


_CODES = {access: code for code, access in enumerate(Access)}
_PLAIN = (_CODES[Access.STREAM], _CODES[Access.SMALL])


def access_code(kernel: Kernel) -> int:
    return _CODES[kernel.access]


def access_codes(accesses: Sequence[Access]) -> IntArray:
    return np.array([_CODES[access] for access in accesses], dtype=np.int64)


def stream_code(kernel: Kernel) -> int:
    """How many loads a kernel keeps in flight: more with more streams; a write alone waits most."""
    if kernel.access is Access.CHUNK:
        return CHUNKED
    num_streams = kernel.num_streams or kernel.reads
    if num_streams >= 2 or kernel.access in (Access.COLUMN_SUM, Access.BAG):
        return MANY_STREAMS
    return ONE_STREAM if num_streams >= 1 else NO_STREAM


def wide_streams(streams: IntArray, element_bytes: FloatArray) -> IntArray:
    """Loads in flight with elements of so many bytes: one stream of 4-byte elements is as good as two of 2 bytes."""
    return np.where((streams == ONE_STREAM) & (element_bytes >= WIDE_BYTES), MANY_STREAMS, streams)


def kernel_times(kernels: KernelRows, chips: ChipColumns) -> Times:
    """Operators as the sum of their kernels, one after another."""
    calibration = chips.calibration
    whole = calibration["hbm_frac"] * chips.hbm_bytes_per_s
    bandwidths = np.stack(
        (whole, whole * calibration["stream_frac"], whole * calibration["write_frac"], whole * CHUNK_FRAC)
    )
    shape = (len(kernels.operator), len(chips))
    moved_bytes = np.array(np.broadcast_to(kernels.moved_bytes, shape))
    waits_s = np.zeros(shape)
    lanes_s = kernels.slots / (chips.vector_flop_per_s / 2 * calibration["vector_frac"])  # a multiply-add is one slot
    is_wide = is_wide_row(kernels.access, kernels.element_bytes)
    wide_waits_s = np.zeros(())
    if bool(is_wide.any()):
        again_bytes, wide_waits_s = _wide_rows(kernels.at(is_wide), chips)
        moved_bytes[is_wide] += again_bytes
    for code in set(kernels.access[~is_wide].tolist()) - set(_PLAIN):
        mask = (kernels.access == code) & ~is_wide
        moved_bytes[mask] += _more_bytes(list(Access)[code], kernels.at(mask), chips)
    hbm_s = moved_bytes / bandwidths[kernels.streams]
    busy_s = np.maximum(hbm_s, lanes_s)
    if bool(is_wide.any()):
        busy_s[is_wide] = np.maximum(busy_s[is_wide], wide_waits_s)
        waits_s[is_wide] = wide_waits_s
    for code in set(kernels.access[~is_wide].tolist()) - set(_PLAIN):
        mask = (kernels.access == code) & ~is_wide
        overlappable_s, after_s = _waits(list(Access)[code], kernels.at(mask), chips)
        busy_s[mask] = np.maximum(busy_s[mask], overlappable_s) + after_s
        waits_s[mask] = overlappable_s + after_s
    return added_up(
        kernels,
        busy_s=busy_s,
        lanes_s=lanes_s,
        hbm_s=hbm_s,
        waits_s=waits_s,
        hbm_bytes=moved_bytes,
        nearest_bytes=np.zeros(shape),
    )


def added_up(kernels: KernelRows, **columns: FloatArray) -> Times:
    """Kernels added up to operators; those of one operator stand together."""
    starts = np.flatnonzero(np.diff(kernels.operator, prepend=-1))
    return Times(**{name: np.add.reduceat(column, starts, axis=0) for name, column in columns.items()})


def pooled_bytes(kernels: KernelRows) -> FloatArray:
    """Rows of a table that bags read beside the first of each."""
    return np.asarray((kernels.pool - 1) * kernels.elements * kernels.element_bytes)


def _cores(chips: ChipColumns) -> FloatArray:
    return np.maximum(chips.num_lanes / LANES_OF_CORE, 1.0)


def is_wide_row(access: IntArray, element_bytes: FloatArray) -> BoolArray:
    """Which kernels are norms and softmaxes of 4-byte elements."""
    is_row = (access == _CODES[Access.NORM]) | (access == _CODES[Access.SOFTMAX])
    return np.asarray(is_row & (element_bytes[:, 0] >= WIDE_BYTES))


def _softmax_threads(cols: FloatArray) -> FloatArray:
    """Threads of a block of the softmax kernel: the power of two from half of a row's loads on (SoftMax.cu)."""
    loads = np.minimum(cols / WIDE_LOAD_ELEMENTS, BLOCK_THREADS)
    return np.asarray(np.maximum(2.0 ** np.ceil(np.log2(np.maximum(loads / 2, 1.0))), 32.0))


def _wide_rows(kernels: KernelRows, chips: ChipColumns) -> tuple[FloatArray, FloatArray]:
    """Bytes read again, and seconds that rows wait for themselves, of norms and softmaxes of 4-byte elements."""
    cols, cores = kernels.cols, chips.num_units
    is_norm = (kernels.access == _CODES[Access.NORM])[:, None]
    is_warp = ~is_norm & (cols <= WIDE_WARP_COLS)
    threads = np.where(is_norm, NORM_THREADS, np.where(is_warp, 32.0, _softmax_threads(cols)))
    blocks = np.where(is_warp, 32.0, THREADS_OF_CORE / threads)  # of a core; registers leave a warp kernel half of it
    sweeps = np.where(is_norm, kernels.num_sweeps, SOFTMAX_SWEEPS - 1)  # beside the first
    room = np.maximum(chips.core_buffer_bytes - RESERVED_BYTES, RESERVED_BYTES)
    share = blocks * cols * kernels.element_bytes * np.where(is_norm, kernels.num_sweeps, 1.0) / room
    lost = np.clip((share - KEPT_SHARE) / (LOST_SHARE - KEPT_SHARE), 0.0, 1.0)
    again_bytes = np.where(is_warp, 0.0, lost * sweeps * kernels.elements * kernels.element_bytes)
    step = threads * WIDE_LOAD_ELEMENTS
    whole = np.floor(cols / step)
    loads = whole + np.ceil((cols - whole * step) / threads)  # the rest of a row is loaded element by element
    norm_steps = np.ceil(cols / step) * kernels.num_sweeps * (1 + lost) + kernels.num_barriers
    block_steps = np.where(is_norm, norm_steps, SOFTMAX_SWEEPS * loads + SOFTMAX_BARRIER_STEPS)
    steps = np.where(is_warp, cols / step, block_steps)
    return again_bytes, _waves(kernels.rows, cores * blocks) * steps * chips.calibration["wait_s"]


def _more_bytes(access: Access, kernels: KernelRows, chips: ChipColumns) -> FloatArray:
    """Bytes beside one pass: rows in flight that the shared SRAM cannot hold are read again; pooled rows."""
    if access is Access.LONG_SOFTMAX:
        in_flight = 2 * _cores(chips) * 2 * kernels.cols * kernels.element_bytes
        lost = np.maximum(1 - chips.sram_bytes / in_flight, 0.0)
        return np.asarray(2 * kernels.elements * kernels.element_bytes * lost)
    if access is Access.BAG:
        return pooled_bytes(kernels)
    return np.zeros(())


def _waits(access: Access, kernels: KernelRows, chips: ChipColumns) -> tuple[FloatArray, FloatArray]:
    """Seconds kernels wait for themselves: beside their traffic (the longer counts), and after it."""
    wait_s, none, cores = chips.calibration["wait_s"], np.zeros(()), _cores(chips)
    if access is Access.STRIDED:
        return kernels.elements * (SECTOR_BYTES + kernels.element_bytes) / chips.sram_bytes_per_s, none
    if access is Access.COLUMNS:
        blocks = np.ceil(kernels.cols / 32 / cores)
        operations = blocks * kernels.rows * 32 * (kernels.reads + 1 + kernels.num_sums)
        return operations / (COLUMN_OPS_OF_CLOCK * chips.clock_hz) * (wait_s > 0), none
    if access is Access.CHUNK:
        steps = np.ceil(np.minimum(kernels.elements, CHUNK_ELEMENTS) / CHUNK_STEP_ELEMENTS)
        return 2 * steps * wait_s, none
    if access is Access.BAG:
        warps = kernels.rows * kernels.cols / 32
        return _waves(warps, cores * THREADS_OF_CORE / 32) * kernels.pool * wait_s, none
    if access is Access.SCATTER:
        return _scatter_waits(kernels, chips)
    return none, _steps(access, kernels, chips) * wait_s


def _scatter_waits(kernels: KernelRows, chips: ChipColumns) -> tuple[FloatArray, FloatArray]:
    """Few rows go one batch after another; many are sorted, summed by segment in fp32 and scattered."""
    is_few, wait_s = kernels.rows <= MANY_ROWS, chips.calibration["wait_s"]
    sectors = 2 * kernels.elements * (SECTOR_BYTES + kernels.element_bytes + 4) / chips.sram_bytes_per_s
    few_s = np.ceil(kernels.rows / 32) * 2 * wait_s
    return np.where(is_few, 0.0, sectors), np.where(is_few, few_s, SORT_KERNELS * wait_s)


def _steps(access: Access, kernels: KernelRows, chips: ChipColumns) -> FloatArray:
    """Dependent steps of the last block to end, waves of blocks included."""
    rows, cols, cores = kernels.rows, kernels.cols, _cores(chips)
    row_bytes = cols * kernels.element_bytes
    if access is Access.NORM:
        resident = THREADS_OF_CORE / NORM_THREADS
        is_again = resident * row_bytes * kernels.num_sweeps > RESIDENT_FRAC * chips.core_buffer_bytes
        sweeps = np.ceil(row_bytes / (NORM_THREADS * LOAD_BYTES)) * kernels.num_sweeps * (1 + is_again)
        return np.asarray(_waves(rows, cores * resident) * (sweeps + kernels.num_barriers))
    if access is Access.SOFTMAX:
        in_sram = 3 + np.ceil(row_bytes / (BLOCK_THREADS * LOAD_BYTES))
        block = np.where(cols <= REGISTER_COLS, cols / BLOCK_THREADS, in_sram)
        by_warp = _waves(rows, cores * 32) * cols / 128
        return np.where(cols <= WARP_COLS, by_warp, _waves(rows, cores * 2) * block)
    if access is Access.LONG_SOFTMAX:
        wide = BLOCK_THREADS * LOAD_BYTES / kernels.element_bytes
        steps = cols // wide + np.ceil(cols % wide / BLOCK_THREADS)
        return np.asarray(_waves(rows, cores * 2) * steps)
    if access is Access.PICK:
        return np.asarray(np.maximum(PICKS_OF_THREAD, rows / BLOCK_THREADS) + kernels.num_barriers)
    assert access is Access.COLUMN_SUM, f"no steps are known of {access}"
    filled = kernels.elements / (SUMS_OF_THREAD * cores * THREADS_OF_CORE)
    return np.asarray(COLUMN_SUM_STEPS * np.minimum(1.0, filled))


def _waves(blocks: FloatArray, at_once: FloatArray) -> FloatArray:
    return np.asarray(np.maximum(blocks / at_once, 1.0))
