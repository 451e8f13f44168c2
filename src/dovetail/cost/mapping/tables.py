"""What is mapped and onto what: products and array chips as columns, and the words for dataflow, fill and windows."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum

import numpy as np

from dovetail.columns import check_rows, distinct
from dovetail.errors import InvalidInput
from dovetail.workload.graph import BoolArray, FloatArray, IntArray

LEAST_CORE_BYTES = 64.0  # one element of each operand and two accumulators, double-buffered, of up to 8 bytes each
LEAST_MEMORY_BYTES = 4096.0  # one row and one column of a slab of the contraction, double-buffered


class Dataflow(Enum):
    """Which operand stays in the PEs of an array while the others stream (SCALE-Sim's os, ws, is)."""

    OUTPUT_STATIONARY = "output-stationary"
    WEIGHT_STATIONARY = "weight-stationary"
    INPUT_STATIONARY = "input-stationary"


class Fill(Enum):
    """How often the fill and drain of an array shows: once a product, for every work item, for every pass."""

    ONCE = "once"
    PER_ITEM = "per-item"
    PER_PASS = "per-pass"


class WindowMapping(Enum):
    """How a convolution's window meets the array's rows.

    Unrolled: window positions and input channels share the rows (im2col). In time: rows hold input channels only, and
    the positions of the window run one after another.
    """

    UNROLLED = "unrolled"
    IN_TIME = "in-time"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductShapes:
    """Products, one a row: `b` of C[m,n] = A[m,k] B[k,n]; A are the inputs, B the weights, C the results.

    A convolution is the product it unrolls to: k is window x input channels, and `input_reuse` says how many elements
    of the unrolled input one stored element is (1 elsewhere).
    """

    b: FloatArray
    m: FloatArray
    n: FloatArray
    k: FloatArray
    operand_bytes: FloatArray  # of one element
    result_bytes: FloatArray
    window: FloatArray
    input_reuse: FloatArray

    def __post_init__(self) -> None:
        check_rows({one.name: getattr(self, one.name) for one in fields(self)})
        for name in ("b", "m", "n", "k", "window", "input_reuse"):
            column = getattr(self, name)
            if len(column) and not column.min() >= 1:
                raise InvalidInput(f"every {name} of a product must be at least 1; got {column.min():g}", name)
        for name in ("operand_bytes", "result_bytes"):
            column = getattr(self, name)
            if len(column) and not (column.min() > 0 and column.max() <= 8):
                raise InvalidInput(f"an element has up to 8 bytes; got {column.min():g} to {column.max():g}", name)
        if bool((self.k % self.window).any()):
            raise InvalidInput("k must be the window's positions times the input channels", "window")

    def __len__(self) -> int:
        return len(self.b)

    @property
    def macs(self) -> FloatArray:
        return self.b * self.m * self.n * self.k

    def rows(self, of: IntArray) -> ProductShapes:
        return ProductShapes(**{one.name: getattr(self, one.name)[of] for one in fields(self)})


def product_shapes(
    m: FloatArray,
    n: FloatArray,
    k: FloatArray,
    *,
    b: FloatArray | float = 1.0,
    operand_bytes: FloatArray | float = 2.0,
    result_bytes: FloatArray | float = 2.0,
    window: FloatArray | float = 1.0,
    input_reuse: FloatArray | float = 1.0,
) -> ProductShapes:
    """Products with what is not given the same for all of them: one of each, in bf16, no convolutions."""
    columns = np.broadcast_arrays(*(np.asarray(x, dtype=np.float64).reshape(-1) for x in (m, n, k, b)))
    rest = (operand_bytes, result_bytes, window, input_reuse)
    others = [np.broadcast_to(np.asarray(x, dtype=np.float64), columns[0].shape) for x in rest]
    return ProductShapes(
        m=columns[0], n=columns[1], k=columns[2], b=columns[3],
        operand_bytes=others[0], result_bytes=others[1], window=others[2], input_reuse=others[3],
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLevels:
    """One on-chip memory of each chip, shared by its arrays: vector memory, or a larger SRAM behind it."""

    capacity_bytes: FloatArray
    bytes_per_s: FloatArray  # to and from the level below it
    access_j_per_byte: FloatArray

    def __post_init__(self) -> None:
        check_rows({one.name: getattr(self, one.name) for one in fields(self)})
        if not self.capacity_bytes.min() >= LEAST_MEMORY_BYTES:
            got = f"{self.capacity_bytes.min():g} bytes"
            raise InvalidInput(f"a memory level needs at least {LEAST_MEMORY_BYTES:g} bytes; got {got}", "capacity")
        if not self.bytes_per_s.min() > 0:
            raise InvalidInput(f"a memory level's bandwidth must be positive; got {self.bytes_per_s.min():g}", "rate")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayChips:
    """Chips as columns: `num_arrays` systolic arrays of rows x cols, a buffer each, shared memories, HBM.

    `memories` stand from the arrays outwards. `dataflows` has a column for each `Dataflow` in order: one is true where
    a chip's is fixed, several where it is flexible. An array loads `num_loaded_rows` rows of its stationary tile per
    clock.
    """

    num_arrays: FloatArray
    num_rows: FloatArray
    num_cols: FloatArray
    clock_hz: FloatArray
    core_buffer_bytes: FloatArray  # of each array
    num_loaded_rows: FloatArray
    dataflows: BoolArray  # chips by Dataflow
    memories: tuple[MemoryLevels, ...]
    hbm_bytes_per_s: FloatArray
    hbm_j_per_byte: FloatArray
    mac_j: FloatArray

    def __post_init__(self) -> None:
        columns = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "memories"}
        check_rows(columns | {f"memories {at}": level.capacity_bytes for at, level in enumerate(self.memories)})
        if not self.memories:
            raise InvalidInput("arrays need at least one shared memory between them and HBM", "memories")
        for name in ("num_arrays", "num_rows", "num_cols", "num_loaded_rows"):
            if not columns[name].min() >= 1:
                raise InvalidInput(f"{name} must be at least 1; got {columns[name].min():g}", name)
        for name in ("clock_hz", "hbm_bytes_per_s"):
            if not columns[name].min() > 0:
                raise InvalidInput(f"{name} must be positive; got {columns[name].min():g}", name)
        if not self.core_buffer_bytes.min() >= LEAST_CORE_BYTES:
            got = f"{self.core_buffer_bytes.min():g} bytes"
            raise InvalidInput(f"a core buffer needs at least {LEAST_CORE_BYTES:g} bytes; got {got}", "core_buffer")
        if not bool(self.dataflows.any(axis=1).all()):
            raise InvalidInput("every chip needs a dataflow", "dataflows")

    def __len__(self) -> int:
        return len(self.num_arrays)

    @property
    def macs_per_s(self) -> FloatArray:
        return self.num_arrays * self.num_rows * self.num_cols * self.clock_hz


def array_chips(
    num_chips: int = 1,
    *,
    levels: tuple[tuple[FloatArray | float, FloatArray | float], ...],
    dataflows: tuple[Dataflow, ...] = tuple(Dataflow),
    num_loaded_rows: FloatArray | float = 1.0,
    memory_j_per_byte: tuple[float, ...] = (),
    hbm_j_per_byte: float = 0.0,
    mac_j: float = 0.0,
    **columns: FloatArray | float,
) -> ArrayChips:
    """`num_chips` chips from columns or single figures; `levels` are (bytes, bytes/s) from the arrays outwards."""

    def column(given: FloatArray | float) -> FloatArray:
        return np.broadcast_to(np.asarray(given, dtype=np.float64), (num_chips,))

    energies_j = memory_j_per_byte or (0.0,) * len(levels)
    return ArrayChips(
        dataflows=np.tile([flow in dataflows for flow in Dataflow], (num_chips, 1)),
        memories=tuple(
            MemoryLevels(
                capacity_bytes=column(capacity_bytes), bytes_per_s=column(rate), access_j_per_byte=column(energy_j)
            )
            for (capacity_bytes, rate), energy_j in zip(levels, energies_j, strict=True)
        ),
        num_loaded_rows=column(num_loaded_rows),
        hbm_j_per_byte=column(hbm_j_per_byte),
        mac_j=column(mac_j),
        **{name: column(given) for name, given in columns.items()},
    )


def distinct_rows(*columns: FloatArray | BoolArray) -> tuple[IntArray, IntArray]:
    """Distinct rows of columns of numbers taken together: the first row of each, and which of them every row is."""
    return distinct(*map(_codes, columns))


def _codes(column: FloatArray | BoolArray) -> IntArray:
    if bool((column == column[0]).all()):
        return np.zeros(len(column), dtype=np.int64)
    return np.unique(column, return_inverse=True)[1].reshape(-1)
