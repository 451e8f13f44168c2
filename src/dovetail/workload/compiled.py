"""Kernels that torch.compile generates, as operators of a dispatched step.

Inductor turns what products, attention and convolutions leave over into Triton kernels. Each is one `DispatchedOp` with
the name `FUSED`; `inputs` and `outputs` are the buffers that it reads and writes, and `arguments` say how it goes
through them, under the names of `FusedKernel`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from dovetail.workload.dispatched import DispatchedOp

FUSED = "inductor.fused"


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedKernel:
    """How one Triton kernel goes through memory.

    It runs over `num_rows` x `num_cols` elements; a reduction goes over the columns of each row. `read_bytes` and
    `written_bytes` are those that it touches, each once. `gathered_bytes` of the reads follow indices, and
    `atomic_bytes` of the writes are added atomically. `num_plain` to `num_welford` count operations of all elements
    together, by how many instructions one fills: additions and comparisons, loads, special functions (exp, rsqrt,
    division), hyperbolic tangents and error functions, sines and cosines, random numbers, and steps of a softmax or of
    a variance whose maximum or mean still moves.
    """

    kernel: str
    num_rows: int
    num_cols: int
    read_bytes: int
    written_bytes: int
    strided_bytes: int = 0  # of neighbours that are not next to each other in memory
    gathered_bytes: int = 0
    atomic_bytes: int = 0
    atomic_table_bytes: int = 0  # of the buffers that these are added into
    num_plain: int = 0
    num_loads: int = 0
    num_special: int = 0
    num_curves: int = 0
    num_angles: int = 0
    num_random: int = 0
    num_online: int = 0
    num_welford: int = 0
    num_unaligned: int = 0  # elements that no wide load or store covers, as rows do not start at multiples of 16 bytes
    is_persistent: bool = False  # a reduction that keeps a row in registers
    is_accumulating: bool = False  # a reduction along rows that adds up columns too, in a workspace a block

    @property
    def is_outer(self) -> bool:
        """A reduction whose rows, and not its columns, lie next to each other."""
        return self.is_reduction and 2 * self.strided_bytes > self.moved_bytes

    @property
    def is_reduction(self) -> bool:
        return self.num_cols > 1

    @property
    def moved_bytes(self) -> int:
        return self.read_bytes + self.written_bytes

    @property
    def arguments(self) -> tuple[tuple[str, bool | int | str], ...]:
        return tuple((field.name, getattr(self, field.name)) for field in fields(self))


def fused_kernel(op: DispatchedOp) -> FusedKernel:
    """What an operator named `FUSED` says of itself."""
    return FusedKernel(**dict(op.arguments))  # type: ignore[arg-type]
