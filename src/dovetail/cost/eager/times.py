"""What every dispatched operator takes on a GPU: the kernels that PyTorch launches, each priced, added up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from dovetail.cost.attention import Attentions, attention_unit_s, score_flop, side_bytes
from dovetail.cost.columns import ChipColumns, chip_columns
from dovetail.cost.cost import Cost
from dovetail.cost.eager.launches import (
    AttentionKernel,
    ConvolutionKernel,
    Launch,
    ProductKernel,
    VectorKernel,
    launched,
)
from dovetail.cost.families.convolution import convolution_costing
from dovetail.cost.families.products import product_costing
from dovetail.cost.families.rows import TINY_S, VECTOR_BYTES, Rows, load_frac
from dovetail.cost.kernels import Access
from dovetail.cost.op_cost import Setting
from dovetail.cost.products import SPLITS
from dovetail.cost.vector import (
    CHUNKED,
    MANY_STREAMS,
    NO_STREAM,
    ONE_STREAM,
    THREADS_OF_CORE,
    KernelRows,
    access_codes,
    kernel_times,
)
from dovetail.errors import NotModelled
from dovetail.hardware.chip import Chip
from dovetail.workload.dispatched import DispatchedOp
from dovetail.workload.graph import BoolArray, FloatArray, IntArray, Phase
from dovetail.workload.operators import DTYPE_BYTES, DTYPES, code_of, dtype_code

RESIDENT_BLOCKS = 4.0  # of 512 threads in a core, 2,048 threads (CUDA programming guide, compute capability 9.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EagerTimes:
    """Seconds of dispatched operators on one chip at full clock, and what the power limit needs to know of them.

    `kernel_s` is the time in kernels, what passes between them not counted (`gap_s` a kernel in a full queue);
    `launches` is how many there are, 0 for views. The other columns are those of `Cost`. `part_*` are the kernels one
    by one: which operator each belongs to, its seconds and its name.
    """

    kernel_s: FloatArray
    launches: IntArray
    clocked_s: FloatArray
    energy_j: FloatArray
    core_j: FloatArray
    flop: FloatArray
    hbm_bytes: FloatArray
    gap_s: float
    part_op: IntArray
    part_s: FloatArray
    part_names: tuple[str, ...]

    @property
    def stream_s(self) -> FloatArray:
        """Seconds of operators one behind another, the queue full."""
        return np.asarray(self.kernel_s + self.launches * self.gap_s)

    def total(self, rows: BoolArray | None = None) -> Cost:
        """The cost of some operators (all, where none are given), one after another, gaps included."""
        chosen = np.ones(len(self.kernel_s), dtype=np.bool_) if rows is None else rows
        names = ("clocked_s", "energy_j", "core_j", "flop", "hbm_bytes")
        sums = {name: float(getattr(self, name)[chosen].sum()) for name in names}
        return Cost(compute_s=float(self.stream_s[chosen].sum()), **sums)


def eager_times(
    ops: Sequence[DispatchedOp], chip: Chip, setting: Setting = Setting.STREAM, *, has_tf32: bool = False
) -> EagerTimes:
    """Each of `ops` as the kernels that PyTorch launches for it on `chip`, a GPU; equal operators are priced once.

    In a stream the power limit is the step's affair; `KERNEL` and `ALONE` slow long products down to it by themselves.
    With `has_tf32`, products of fp32 run in TF32, as `torch.backends.cuda.matmul.allow_tf32` lets them; PyTorch's own
    default is without. Raises `NotModelled` for an operator that is not described, naming it.
    """
    chips = chip_columns((chip,))
    if chips.are_arrays:
        raise NotModelled(f"kernels of eager PyTorch are modelled on GPUs; {chip.name} has systolic arrays")
    places: dict[Any, int] = {}
    which = np.array([places.setdefault(_key(op), len(places)) for op in ops], dtype=np.int64)
    distinct: dict[int, DispatchedOp] = {}
    for op, place in zip(ops, which.tolist(), strict=True):
        distinct.setdefault(place, op)
    launches = [launched(distinct[place]) for place in range(len(places))]
    counts = np.array([len(one) for one in launches], dtype=np.int64)
    flat: list[Launch] = [launch for one in launches for launch in one]
    columns = _priced([_in_tf32(launch) for launch in flat] if has_tf32 else flat, chips, setting)
    owner = np.repeat(np.arange(len(launches)), counts)
    sums = {
        name: np.bincount(owner, weights=column, minlength=len(launches))[which].astype(np.float64)
        for name, column in columns.items()
    }
    starts = np.concatenate(([0], np.cumsum(counts)))[:-1]
    part_op = np.repeat(np.arange(len(ops)), counts[which]) if len(ops) else np.zeros(0, dtype=np.int64)
    part = (
        np.concatenate([np.arange(starts[p], starts[p] + counts[p]) for p in which.tolist()]).astype(np.int64)
        if len(ops)
        else np.zeros(0, dtype=np.int64)
    )
    launch_s = float(chips.calibration["launch_s"][0])
    return EagerTimes(
        kernel_s=sums.pop("busy_s"),
        launches=counts[which] if len(ops) else np.zeros(0, dtype=np.int64),
        gap_s=launch_s * GAP_FRAC,
        part_op=part_op,
        part_s=columns["busy_s"][part],
        part_names=tuple(flat[index].name for index in part.tolist()),
        **sums,
    )


def _in_tf32(launch: Launch) -> Launch:
    return replace(launch, dtype="tf32") if isinstance(launch, ProductKernel) and launch.dtype == "fp32" else launch


# Of a launch, what passes between kernels of a full queue: (step - kernels) / kernels of 14 profiled steps that neither
# the host nor the power limit holds up, 1.8 us.
GAP_FRAC = 0.95
START_FRAC = (
    0.5  # of a launch, what a profiler counts to the kernel: its start and end (kernels of 1,000 elements, 0.95 us)
)
PRODUCT_START_FRAC = (
    1.25  # the same of products, which set up their copies first (512 x 1,024 x 1,024: 5.2 us, 8 kernels)
)


def _key(op: DispatchedOp) -> Any:
    return op.name, op.inputs, op.outputs, op.arguments


_COLUMNS = ("busy_s", "clocked_s", "energy_j", "core_j", "flop", "hbm_bytes")


def _priced(flat: list[Launch], chips: ChipColumns, setting: Setting) -> dict[str, FloatArray]:
    """Columns of all kernels, family by family."""
    found = {name: np.zeros(len(flat)) for name in _COLUMNS}
    families: tuple[tuple[type, Any], ...] = (
        (VectorKernel, _vectors),
        (ProductKernel, _products),
        (AttentionKernel, _attentions),
        (ConvolutionKernel, _convolutions),
    )
    for kind, priced in families:
        places = [place for place, launch in enumerate(flat) if isinstance(launch, kind)]
        if places:
            for name, column in priced([flat[place] for place in places], chips, setting).items():
                found[name][places] = column
    is_product = np.array([isinstance(launch, ProductKernel) for launch in flat], dtype=np.bool_)
    found["busy_s"] += np.where(is_product, PRODUCT_START_FRAC, START_FRAC) * chips.calibration["launch_s"][0]
    found["energy_j"] = found["core_j"] + found["hbm_bytes"] * chips.hbm_j_per_byte[0]
    return found


def _column(kernels: Sequence[Any], name: str) -> FloatArray:
    return np.array([[float(getattr(kernel, name))] for kernel in kernels])


def _vectors(kernels: list[VectorKernel], chips: ChipColumns, setting: Setting) -> dict[str, FloatArray]:
    codes = access_codes([Access.STREAM if kernel.access is Access.COLUMN_SUM else kernel.access for kernel in kernels])
    streams = np.array([_stream(kernel) for kernel in kernels], dtype=np.int64)
    own = {name: _column(kernels, name) for name in (
        "rows", "cols", "elements", "element_bytes", "slots", "reads", "num_sweeps", "num_sums", "num_barriers"
    )}  # fmt: skip
    moved_bytes = _column(kernels, "read_bytes") + _column(kernels, "write_bytes")
    rows = KernelRows(
        operator=np.arange(len(kernels)), access=codes, streams=streams, moved_bytes=moved_bytes,
        pool=np.ones((len(kernels), 1)), array_slots=own["slots"], needs_row=np.zeros((len(kernels), 1)), **own,
    )  # fmt: skip
    if setting is Setting.STREAM:
        hit = np.where(_column(kernels, "is_cold") > 0, 0.0, _hit_frac(rows, chips))
        slots = rows.slots * (1 - hit * _column(kernels, "waits_frac"))
        rows = replace(rows, moved_bytes=rows.moved_bytes * _warm_frac(hit, chips), slots=slots)
    times = kernel_times(rows, chips)
    steps = _column(kernels, "steps") + _column_sum_steps(kernels, chips)
    busy_s = np.maximum(times.busy_s, _column(kernels, "sram_bytes") / chips.sram_bytes_per_s)
    busy_s = np.maximum(busy_s, _blocks_s(kernels, chips))
    busy_s = busy_s + steps * chips.calibration["wait_s"]
    lanes_s = times.lanes_s
    slots = own["slots"]
    drawn = np.where(_column(kernels, "is_counted") > 0, 1.0, DRAWN_FRAC)
    return {
        "busy_s": busy_s[:, 0],
        "clocked_s": (lanes_s * lanes_s / np.maximum(np.maximum(lanes_s, times.hbm_s), TINY_S))[:, 0],
        "core_j": (drawn * slots * chips.vector_j_per_flop + times.hbm_bytes * chips.sram_j_per_byte)[:, 0],
        "flop": slots[:, 0],
        "hbm_bytes": times.hbm_bytes[:, 0],
    }


# Slots that were fitted to a rate are mostly waits, and draw that share of what instructions do: power-limited steps of
# hf_steps are 4.1 % off with all of it (10 rows), 2.3 % with this (6); of other families 4.9 (8) and 3.2 % (7).
DRAWN_FRAC = 0.1
# In a step, what a kernel moves was often written by the one before it and is still in the shared cache: all of it up
# to two thirds of the cache, nothing from four thirds on (tensors of 2 to 60 MB, 40 kernels of profiled steps).
WARM_SHARE, COLD_SHARE = 0.67, 1.33
WARM_RATIO = 1.13  # pace of such traffic against the cache's own figure


def _hit_frac(rows: KernelRows, chips: ChipColumns) -> FloatArray:
    """Share of a kernel's traffic that the shared cache has, by how much of it there is."""
    share = rows.moved_bytes / chips.sram_bytes
    return np.clip((COLD_SHARE - share) / (COLD_SHARE - WARM_SHARE), 0.0, 1.0)


def _warm_frac(hit: FloatArray, chips: ChipColumns) -> FloatArray:
    """Time of such traffic against that with cold caches."""
    hbm = chips.hbm_bytes_per_s * chips.calibration["hbm_frac"]
    return np.asarray(1 / (1 + hit * np.maximum(WARM_RATIO * chips.sram_bytes_per_s / hbm - 1, 0.0)))


def _stream(kernel: VectorKernel) -> int:
    if kernel.access is Access.CHUNK:
        return CHUNKED
    if kernel.streams >= 2:
        return MANY_STREAMS
    return ONE_STREAM if kernel.streams == 1 else NO_STREAM


# Sums down columns (Reduce.cuh): blocks of 32 x 4 threads take 128 columns each, and share out the rows so that the
# chip is full; the last block of a column adds up what the others left, one load behind another.
SUM_THREADS, SUM_VECTOR, SUM_WIDTH = 128.0, 4.0, 32.0
LEAST_VALUES, MOST_VALUES, SPLIT_VALUES = 16.0, 256.0, 256.0  # of a thread; from how many on rows are shared out
SUM_LOADS = 4.0  # in flight at once before blocks meet
SUM_STEP = (
    0.48  # of a memory round trip (wait): one load of a partial sum from the shared cache (38 kernels of profiles)
)
SUM_START_STEPS = 5.7  # round trips of start, counter and end (the same)
RAGGED_RATIO = 1.6  # columns that are no whole blocks (the same: 96, 192 and 960 columns)


def _column_sum_steps(kernels: list[VectorKernel], chips: ChipColumns) -> FloatArray:
    is_sum = np.array([[kernel.access is Access.COLUMN_SUM] for kernel in kernels])
    rows, cols = _column(kernels, "rows"), _column(kernels, "cols")
    wide = np.maximum(cols / SUM_VECTOR, 1.0)
    width = np.minimum(2.0 ** np.floor(np.log2(wide)), SUM_WIDTH)
    height = SUM_THREADS / width
    blocks = np.ceil(wide / width)
    values = np.ceil(rows / height)
    target = chips.num_units * THREADS_OF_CORE / SUM_THREADS
    shared = np.maximum(
        np.minimum(np.ceil(target / blocks), np.ceil(values / LEAST_VALUES)), np.ceil(values / MOST_VALUES)
    )
    shared = np.where(values >= SPLIT_VALUES, shared, 1.0)
    own = np.ceil(values / shared) / SUM_LOADS
    meeting = np.where(shared > 1, shared / height, 0.0)
    ragged = np.where(wide % width == 0, 1.0, RAGGED_RATIO)
    start = np.where(shared > 1, SUM_START_STEPS, 0.0)
    return np.where(is_sum, start + SUM_STEP * ragged * (own + meeting), 0.0)


def _blocks_s(kernels: list[VectorKernel], chips: ChipColumns) -> FloatArray:
    """Kernels that give each channel one block: rounds over cores, whose blocks hide each other's waits."""
    blocks = _column(kernels, "num_blocks")
    full = np.floor(blocks / (RESIDENT_BLOCKS * chips.num_units))  # waves of as many blocks as fit
    rest = np.ceil(blocks / chips.num_units - RESIDENT_BLOCKS * full)
    busy, waiting = _column(kernels, "block_cycles"), _column(kernels, "block_wait_cycles")
    cycles = full * (RESIDENT_BLOCKS * busy + waiting) + np.where(rest > 0, rest * busy + waiting, 0.0)
    return np.asarray(cycles / chips.clock_hz)


# Small tiles run several to a unit, and start while others multiply: products of misaligned rows, by kernels before
# Hopper's, and thin ones (30 kernels of profiled steps).
THIN, SHARED_FILL_FRAC = 64.0, 0.35
EAGER_SPLITS = (*SPLITS, 32, 64, 128)  # the weight gradient of a 1x1 convolution contracts over millions of pixels


def _products(kernels: list[ProductKernel], chips: ChipColumns, setting: Setting) -> dict[str, FloatArray]:
    load_bytes = np.array([kernel.load_bytes for kernel in kernels])
    is_row_by_row = np.array([kernel.is_row_by_row for kernel in kernels])
    b, m, n, k = (_column(kernels, name) for name in "bmnk")
    rows = _rows(kernels, b=b, m=m, n=n, k=k, load_frac=load_frac(load_bytes, is_row_by_row)[:, None])
    is_thin = (np.minimum(m, n) <= THIN) & (np.maximum(m, n) > THIN * chips.num_units)
    fill_frac = np.where((load_bytes < VECTOR_BYTES)[:, None] | is_thin, SHARED_FILL_FRAC, 1.0)
    found = product_costing(rows, fill_frac=fill_frac, splits=EAGER_SPLITS)(chips, setting)
    pace = _column(kernels, "pace")
    return _found(found, pace)


def _rows(kernels: Sequence[ProductKernel | ConvolutionKernel], **columns: FloatArray | IntArray) -> Rows:
    """Rows of a family of `cost.families`, built from kernels."""
    count = len(kernels)
    math = np.array([dtype_code(_math(kernel.dtype)) for kernel in kernels], dtype=np.int64)
    ones, no = np.ones((count, 1)), np.zeros(count, dtype=np.bool_)
    element_bytes = DTYPE_BYTES[math][:, None]
    own: dict[str, Any] = {
        "kind": np.full(count, code_of("linear")), "phase": np.zeros(count, dtype=np.int64), "math": math,
        "is_backward": no, "is_fused": no, "is_compiled": no, "b": ones, "v": ones, "stride": ones, "kv_frac": ones,
        "work_frac": ones, "element_bytes": element_bytes, "operand_bytes": element_bytes, "side_bytes": 0 * ones,
        "in_bytes": _column(kernels, "in_bytes"), "out_bytes": _column(kernels, "out_bytes"), "load_frac": ones,
    }  # fmt: skip
    own |= columns
    own.setdefault("flop", 2 * own["b"] * own["m"] * own["n"] * own["k"])
    return Rows(**{field.name: own[field.name] for field in fields(Rows)})


def _math(dtype: str) -> str:
    if dtype not in DTYPES:
        raise NotModelled(f"products in {dtype} are not modelled; those in {', '.join(DTYPES)} are")
    return dtype


def _found(found: Any, pace: FloatArray | float = 1.0) -> dict[str, FloatArray]:
    names = ("busy_s", "clocked_s", "core_j", "flop", "hbm_bytes")
    columns = {name: np.broadcast_to(getattr(found, name), np.shape(found.busy_s)) for name in names}
    columns |= {name: columns[name] * pace for name in ("busy_s", "clocked_s")}
    return {name: column[:, 0] for name, column in columns.items()}


def _attentions(kernels: list[AttentionKernel], chips: ChipColumns, setting: Setting) -> dict[str, FloatArray]:  # noqa: ARG001
    found = {name: np.zeros(len(kernels)) for name in ("busy_s", "clocked_s", "core_j", "flop", "hbm_bytes")}
    for is_backward in (False, True):
        places = [place for place, kernel in enumerate(kernels) if kernel.is_backward == is_backward]
        if places:
            for name, column in _one_way([kernels[place] for place in places], chips, is_backward=is_backward).items():
                found[name][places] = column
    return found


def _one_way(kernels: list[AttentionKernel], chips: ChipColumns, *, is_backward: bool) -> dict[str, FloatArray]:
    """As `cost.families.attention` has it, and lane slots a score that dropout adds."""
    names = ("heads", "queries", "keys", "key_width", "value_width", "kv_frac", "work_frac", "pace_frac")
    math = np.array([dtype_code("tf32" if kernel.dtype == "fp32" else kernel.dtype) for kernel in kernels])
    for dtype in set(math.tolist()):
        chips.rate_flop_per_s(dtype)
    rate = np.asarray(chips.dtype_flop_per_s[math] * chips.calibration["tensor_frac"])
    shape = Attentions(
        **{name: _column(kernels, name) for name in names},
        is_backward=is_backward, rate_flop_per_s=rate, product_frac=np.ones((len(kernels), 1)),
        element_bytes=DTYPE_BYTES[math][:, None],
    )  # fmt: skip
    scores = shape.heads * shape.queries * shape.keys * shape.work_frac
    lanes = chips.vector_flop_per_s / 2 * chips.calibration["vector_frac"]
    tensor_s = attention_unit_s(shape, chips) + scores * _column(kernels, "score_slots") / lanes
    bandwidth = chips.hbm_bytes_per_s * chips.calibration["hbm_frac"] * chips.calibration["stream_frac"]
    apart = side_bytes(shape)
    beside = _column(kernels, "in_bytes") + _column(kernels, "out_bytes")
    products = (3 * shape.key_width + 2 * shape.value_width) if is_backward else shape.key_width + shape.value_width
    flop = 2 * scores * products
    hbm_bytes = beside + apart
    core_j = (
        flop * chips.tensor_j_per_flop + score_flop(shape) * chips.vector_j_per_flop + hbm_bytes * chips.sram_j_per_byte
    )
    busy_s = np.maximum(tensor_s, beside / bandwidth)
    return {
        "busy_s": (busy_s + apart / bandwidth)[:, 0],
        "clocked_s": (tensor_s * tensor_s / np.maximum(busy_s, TINY_S))[:, 0],
        "core_j": core_j[:, 0],
        "flop": flop[:, 0],
        "hbm_bytes": hbm_bytes[:, 0],
    }


# What a unit gathers a clock, fitted again on 369 convolution kernels of profiled steps and 40 rows of eager_ops.csv;
# ResNet-50's 79 are 9.1 % off by it and 9.2 % by the constant of `cost.families.convolution`, which records rest on.
GATHERED_BYTES_OF_CLOCK = 48.0


def _convolutions(kernels: list[ConvolutionKernel], chips: ChipColumns, setting: Setting) -> dict[str, FloatArray]:
    found = {name: np.zeros(len(kernels)) for name in ("busy_s", "clocked_s", "core_j", "flop", "hbm_bytes")}
    for phase in {kernel.phase for kernel in kernels}:
        places = [place for place, kernel in enumerate(kernels) if kernel.phase == phase]
        own = [kernels[place] for place in places]
        m, n = _column(own, "pixels"), _column(own, "outputs")
        k = _column(own, "window") * _column(own, "channels")
        if phase == Phase.INPUT_GRAD:
            n, k = k, n
        elif phase == Phase.WEIGHT_GRAD:
            m, k = k, m
        rows = _rows(
            own, b=_column(own, "groups"), m=m, n=n, k=k, v=_column(own, "window"), stride=_column(own, "stride"),
            kind=np.full(len(own), code_of("convolution")), phase=np.full(len(own), int(phase)),
            is_backward=np.full(len(own), phase != Phase.FORWARD),
        )  # fmt: skip
        parts = convolution_costing(rows, GATHERED_BYTES_OF_CLOCK)(chips, setting)
        extra = (parts.num_kernels - 1) * chips.calibration["launch_s"]  # kernels that clear and reduce, within its own
        for name, column in _found(parts).items():
            found[name][places] = column
        found["busy_s"][places] += np.broadcast_to(extra, parts.busy_s.shape)[:, 0]
    return found
