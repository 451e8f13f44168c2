"""What every family of operators works with: rows that broadcast over chips, parts of a cost, rates, power and host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from dovetail.columns import is_among
from dovetail.cost.columns import ChipColumns
from dovetail.cost.op_cost import Setting
from dovetail.cost.power import VOLTAGE_POWER
from dovetail.workload.graph import BoolArray, FloatArray, IntArray, Ops, Phase
from dovetail.workload.operators import DTYPE_BYTES, code_of, dtype_code

# Energy of a FLOP against bf16's: a dtype of twice the rate takes 0.51 of it (37 fp8 GEMMs of one H200).
DTYPE_ENERGY_POWER = 0.96
_BF16 = dtype_code("bf16")
TINY_S = np.finfo(np.float64).tiny  # keeps a row of no work from dividing by nothing


# Products whose rows are no whole vectors load operands in smaller pieces, by kernels that do not use Hopper's copies.
VECTOR_BYTES = 16.0  # of a load that a thread does at once (CUDA programming guide, 128-bit accesses)
COPY_BYTES = 4.0  # least that is copied to shared memory without passing registers (PTX ISA, cp.async)
# Of the pace, row by row (a linear layer forward) and otherwise: heads of odd, even and padded vocabularies (head and
# head_bias of eager_ops.csv, one H200, 61 rows).
HALF_LOAD_FRACS = (0.305, 0.320)  # rows of 4 or 8 bytes
SINGLE_LOAD_FRACS = (0.113, 0.166)  # rows of 2 bytes
MISALIGNED_FRAC = 0.12  # batched, by hand: two pairs of BLOOM's trials (A100) that differ in the width of heads alone
_MATMUL = code_of("matmul")
CAST_BEFORE = tuple(dtype_code(name) for name in ("fp8", "int8", "fp4"))
_MIXER, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)  # Fibonacci hashing: 2^64 over the golden ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows of a graph as columns of shape (rows, 1), which broadcast over chips; codes stay flat."""

    kind: IntArray
    phase: IntArray
    math: IntArray
    is_backward: BoolArray
    is_fused: BoolArray
    is_compiled: BoolArray
    b: FloatArray
    m: FloatArray
    n: FloatArray
    k: FloatArray
    v: FloatArray
    stride: FloatArray
    kv_frac: FloatArray  # distinct elements of B over those touched
    work_frac: FloatArray
    element_bytes: FloatArray
    operand_bytes: FloatArray  # an element as a product reads it: as stored, or cast to a narrower dtype before
    side_bytes: FloatArray  # an element
    flop: FloatArray
    in_bytes: FloatArray
    out_bytes: FloatArray
    load_frac: FloatArray  # of a GPU's pace of products, what operands leave whose rows are no whole vectors

    def __len__(self) -> int:
        return len(self.kind)

    def distinct(self) -> tuple[IntArray, IntArray]:
        """The first of each kind of row, and which kind each row is; a second forward pass costs what the first did."""
        phase = np.where(self.phase == Phase.RECOMPUTE, Phase.FORWARD, self.phase)
        others = [getattr(self, field.name).reshape(len(self)) for field in fields(self) if field.name != "phase"]
        columns = [column.astype(np.float64) for column in (phase, *others)]
        return distinct_rows(columns)

    def at(self, mask: BoolArray | IntArray) -> Rows:
        return Rows(**{field.name: getattr(self, field.name)[mask] for field in fields(self)})


def distinct_rows(columns: Sequence[FloatArray]) -> tuple[IntArray, IntArray]:
    """The first of the rows that are equal in all columns, and which of these each row is."""
    mixed = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        mixed = (mixed ^ column.view(np.uint64)) * _MIXER
        mixed ^= mixed >> _HALF
    _, first, which = np.unique(mixed, return_index=True, return_inverse=True)
    is_mistaken = any(not np.array_equal(column, column[first][which]) for column in columns)
    if is_mistaken:  # two kinds of row mixed to one number
        _, first, which = np.unique(np.stack(columns), axis=1, return_index=True, return_inverse=True)
    return first, which.reshape(-1)


def rows_of(ops: Ops) -> Rows:
    b, m, n, k, v = (column[:, None] for column in ops.extents.T.astype(np.float64))
    return Rows(
        kind=ops.kind,
        phase=ops.phase,
        math=ops.math,
        is_backward=ops.is_backward,
        is_fused=ops.is_fused,
        is_compiled=ops.is_compiled,
        b=b,
        m=m,
        n=n,
        k=k,
        v=v,
        stride=ops.stride.astype(np.float64)[:, None],
        kv_frac=ops.distinct_frac[:, 1:2],
        work_frac=ops.work_frac[:, None],
        element_bytes=DTYPE_BYTES[ops.dtype][:, None],
        operand_bytes=_operand_bytes(ops)[:, None],
        side_bytes=ops.side_bytes_per_element[:, None],
        flop=ops.flop[:, None],
        in_bytes=ops.read_bytes[:, None],
        out_bytes=ops.write_bytes[:, None],
        load_frac=_load_frac(ops)[:, None],
    )


def load_frac(load_bytes: IntArray, is_row_by_row: BoolArray) -> FloatArray:
    """Share of the pace that products keep on a GPU when rows of operands or result start at multiples of `load_bytes`.

    `is_row_by_row`: both operands hold the contraction side by side.
    """
    whole = np.where(is_row_by_row, HALF_LOAD_FRACS[0], HALF_LOAD_FRACS[1])
    single = np.where(is_row_by_row, SINGLE_LOAD_FRACS[0], SINGLE_LOAD_FRACS[1])
    return np.where(load_bytes >= VECTOR_BYTES, 1.0, np.where(load_bytes >= COPY_BYTES, whole, single))


def _load_frac(ops: Ops) -> FloatArray:
    """Of batched products of activations, whose rows are as long as their extents; weights are taken to be padded."""
    lengths = ops.extents[:, 2:4]
    is_part = (lengths * DTYPE_BYTES[ops.dtype][:, None] % VECTOR_BYTES != 0) & (lengths > 1)
    return np.where(is_part.any(axis=1) & (ops.kind == _MATMUL), MISALIGNED_FRAC, 1.0)


def _operand_bytes(ops: Ops) -> FloatArray:
    """Bytes of an element as products read it: kernels cast what is multiplied in 8 bits or fewer before, no other."""
    is_cast = is_among(ops.math, CAST_BEFORE)
    stored = DTYPE_BYTES[ops.dtype]
    return np.where(is_cast, np.minimum(DTYPE_BYTES[ops.math], stored), stored)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCosts:
    """What a family says of its rows; launches are apart from the time that passes (`busy_s`)."""

    busy_s: FloatArray
    clocked_s: FloatArray
    num_kernels: FloatArray
    hbm_bytes: FloatArray
    core_j: FloatArray
    flop: FloatArray
    host_s: FloatArray  # in a stream
    floor_s: FloatArray  # of the host, alone


# A family is given its rows and says, once, how to cost them on any chips.
Costing = Callable[[ChipColumns, Setting], RowCosts]


def loop_flop_per_s(rows: Rows, chips: ChipColumns) -> FloatArray:
    """FLOP/s of each row's dtype in the main loop of large products."""
    for dtype in set(rows.math.tolist()):
        chips.rate_flop_per_s(dtype)
    return np.asarray(chips.dtype_flop_per_s[rows.math] * chips.calibration["tensor_frac"])


def tensor_j_per_flop(rows: Rows, chips: ChipColumns) -> FloatArray:
    """Energy of a FLOP in each row's dtype, from bf16's (or the highest rate the chip has) and the rates."""
    if bool((rows.math == _BF16).all()):
        return chips.tensor_j_per_flop
    reference = np.where(
        chips.dtype_flop_per_s[_BF16] > 0, chips.dtype_flop_per_s[_BF16], chips.dtype_flop_per_s.max(axis=0)
    )
    return np.asarray(chips.tensor_j_per_flop * (reference / chips.dtype_flop_per_s[rows.math]) ** DTYPE_ENERGY_POWER)


def throttled(tensor_s: FloatArray, full_j: FloatArray, chips: ChipColumns) -> tuple[FloatArray, FloatArray]:
    """Time and energy of a product run again and again: it slows to the power limit, the more the longer it runs."""
    limit_w = np.maximum(chips.tdp_w - chips.idle_w, 1.0)
    full_w = full_j / np.maximum(tensor_s, TINY_S)
    over = np.maximum((full_w / limit_w) ** (1 / (1 + VOLTAGE_POWER)) - 1, 0.0)
    share = tensor_s / np.maximum(tensor_s + chips.calibration["power_loop_s"], TINY_S)
    slower = 1 + over * share
    return tensor_s * slower, full_j / slower**VOLTAGE_POWER


def beside(tensor_s: FloatArray, hbm_s: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Seconds of units and HBM side by side, and the part that a slower clock stretches.

    The root of the sum of squares: neither hides the other wholly where both take long.
    """
    both_s = np.sqrt(tensor_s * tensor_s + hbm_s * hbm_s)
    return both_s, tensor_s * tensor_s / np.maximum(both_s, TINY_S)


def overlapped(on_chip_s: FloatArray, hbm_s: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Seconds of a chip beside HBM where the longer hides the other, and the part that a slower clock stretches."""
    both_s = np.maximum(on_chip_s, hbm_s)
    return both_s, on_chip_s * on_chip_s / np.maximum(both_s, TINY_S)


def floor_s(chips: ChipColumns, num_kernels: FloatArray, gradients: FloatArray) -> FloatArray:
    """Alone, a gradient waits for autograd to hand it out; a forward operator is queued in no time that shows."""
    calibration = chips.calibration
    made_s = gradients * calibration["host_gradient_s"] + num_kernels * calibration["host_kernel_s"]
    return np.where(gradients > 0, made_s + calibration["host_autograd_s"], 0.0)


def stream_host_s(
    rows: Rows,
    chips: ChipColumns,
    num_kernels: FloatArray,
    gradients: FloatArray,
    *,
    num_further: FloatArray | float = 0.0,
    num_ops: FloatArray | float = 1.0,
) -> FloatArray:
    """Seconds the host takes to queue each row: an operator of a layer run eagerly, or no more than its kernels.

    `num_further` are kernels that one operator queues beyond what is usual; `num_ops` how many operators a row is.
    """
    calibration = chips.calibration
    kernels_s = num_kernels * calibration["host_kernel_s"]
    if bool(rows.is_compiled.all()):
        return np.asarray(kernels_s)
    # the gradient of a weight or a bias comes out of the node that also makes the gradient of its input
    is_node = (rows.phase != Phase.WEIGHT_GRAD)[:, None]
    node_s = num_ops * gradients * calibration["host_gradient_s"] + is_node * calibration["host_autograd_s"]
    eager_s = np.where(rows.is_backward[:, None], kernels_s + node_s, num_ops * calibration["host_op_s"])
    eager_s = eager_s + num_further * calibration["host_kernel_s"]
    return np.where(rows.is_compiled[:, None], kernels_s, eager_s)
