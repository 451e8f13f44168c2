"""What vector operators launch: kernels, their passes over memory, lanes and dependent steps, eager and fused.

Eager is PyTorch 2.11 as its profiler lists the kernels on an H200; fused is one kernel with the least passes, as
torch.compile, Triton or Apex give. An operator without an entry is one streaming kernel with the passes that the
operator table (`workload.operators`) gives it. Lane slots count the instructions of an element; a special function
(exp, tanh) fills eight. They were set from measured rates where lanes and not memory were the limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from dovetail.workload.optimizers import update_operator_names


class Access(Enum):
    """How a kernel goes through memory, and so what beside its bytes can hold it up."""

    STREAM = "stream"  # each element once, in order
    NORM = "norm"  # a block of threads a row: statistics, then the row again
    SOFTMAX = "softmax"  # a warp or a block a row, which stays on chip
    LONG_SOFTMAX = "long softmax"  # rows longer than a core's SRAM: swept three times
    PICK = "pick"  # one element a row, by one block
    COLUMNS = "columns"  # sums down the columns, a block for each 32 of them
    COLUMN_SUM = "column sum"  # partial sums of all columns, handed in at the end
    SCATTER = "scatter"  # rows added into a table
    STRIDED = "strided"  # one side touches a sector an element
    CHUNK = "chunk"  # many tensors in chunks: an optimizer
    BAG = "bag"  # rows of a table summed in bags
    SMALL = "small"  # starts and ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One kernel over rows x cols elements; reads and writes are tensors, side is bytes an element beside them."""

    reads: float = 1.0
    writes: float = 1.0
    side_bytes: float = 0.0
    takes_side: bool = False  # the operator's own side bytes move here
    lane_slots: float = 0.0
    access: Access = Access.STREAM
    num_streams: int = 0  # tensors read side by side where `reads` does not say
    num_sweeps: int = 0  # norm: tensors read a second time
    num_sums: int = 0  # columns: sums kept a column
    num_barriers: int = 0  # norm, pick: dependent steps beside the sweeps
    is_on_table: bool = False  # elements are the table's, not the rows'


@dataclass(frozen=True, slots=True, kw_only=True)
class Launches:
    """The kernels of one direction of an operator, and the gradients autograd makes of it (0: none)."""

    kernels: tuple[Kernel, ...]
    num_gradients: int = 0


def _one(reads: float, writes: float, **more: float | bool | Access) -> tuple[Kernel, ...]:
    return (Kernel(reads=reads, writes=writes, **more),)  # type: ignore[arg-type]


_SMALL = Kernel(reads=0, writes=0, access=Access.SMALL)
_PICK = Kernel(reads=0, writes=0, access=Access.PICK)
_SILU = Kernel(lane_slots=32)
_GELU = Kernel(lane_slots=36)  # the tanh form; erf takes 43
_NORM_COLUMNS = {"reads": 2, "writes": 0, "access": Access.COLUMNS}
_NORM_BACKWARD = Kernel(reads=2, access=Access.NORM, num_sweeps=2)
_FUSED_NORM_BACKWARD = (Kernel(reads=2), Kernel(reads=2, writes=0), _SMALL)
_LOSS_BACKWARD = (Kernel(reads=0), _PICK, Kernel(reads=3))

FORWARD: dict[str, tuple[Kernel, ...]] = {
    "gelu": (_GELU,),
    "silu": (_SILU,),
    "tanh": (_SILU,),
    "sigmoid": (_SILU,),
    "silu_mul": (_SILU, Kernel(reads=2)),
    "gelu_mul": (_GELU, Kernel(reads=2)),
    "copy": _one(1, 1, num_streams=2),  # the copy kernel keeps several loads of a thread in flight
    "dropout": _one(1, 1, side_bytes=1, lane_slots=54),  # Philox; a byte of mask
    "bias_add": _one(1, 1, lane_slots=80),  # broadcast: not vectorised, an index division an operand
    "cast": _one(1, 0, side_bytes=4, lane_slots=92),  # not vectorised, a switch on the dtype
    "transpose": _one(1, 1, access=Access.STRIDED),
    "layernorm": _one(1, 1, access=Access.NORM, num_sweeps=1, num_barriers=3),  # Welford merge over warps
    "rmsnorm": _one(1, 1, access=Access.NORM, num_sweeps=1),
    "softmax": _one(1, 1, access=Access.SOFTMAX),
    "cross_entropy": (
        Kernel(access=Access.LONG_SOFTMAX),
        Kernel(reads=0, writes=0, access=Access.PICK, num_barriers=4),
    ),
    "bias_grad": _one(1, 0, access=Access.COLUMN_SUM),
    "embedding_bag": (_SMALL, Kernel(access=Access.BAG)),
    "amax": (Kernel(writes=0), _SMALL),  # and the scale from it
    # times the weights of rows, which are fp32; added; then joined, and cast
    "expert_bias": (
        Kernel(reads=0, writes=0, side_bytes=4),
        Kernel(writes=0, side_bytes=8),
        Kernel(reads=0, writes=0, side_bytes=8),
        Kernel(reads=0, side_bytes=4),
    ),
}
# An optimizer's element-wise step over many tensors at once: PyTorch's fused and foreach forms.
UPDATE = (_SMALL, Kernel(reads=0, writes=0, takes_side=True, access=Access.CHUNK))
BACKWARD: dict[str, Launches] = {
    "gelu": Launches(kernels=_one(2, 1, lane_slots=48), num_gradients=1),
    "dropout": Launches(kernels=_one(1, 1, side_bytes=1, num_streams=2), num_gradients=1),
    "layernorm": Launches(kernels=(_NORM_BACKWARD, Kernel(**_NORM_COLUMNS, num_sums=2)), num_gradients=3),  # type: ignore[arg-type]
    "rmsnorm": Launches(kernels=(_NORM_BACKWARD, Kernel(**_NORM_COLUMNS, num_sums=1)), num_gradients=2),  # type: ignore[arg-type]
    "softmax": Launches(kernels=(Kernel(reads=2), Kernel(reads=2)), num_gradients=1),
    "silu_mul": Launches(kernels=(Kernel(reads=3, writes=2), Kernel(reads=2, lane_slots=48)), num_gradients=2),
    "gelu_mul": Launches(kernels=(Kernel(reads=3, writes=2), Kernel(reads=2, lane_slots=48)), num_gradients=2),
    "cross_entropy": Launches(kernels=_LOSS_BACKWARD, num_gradients=1),
    "embedding": Launches(
        kernels=(Kernel(reads=0, is_on_table=True), Kernel(side_bytes=8, access=Access.SCATTER)), num_gradients=1
    ),
    "bias_grad": Launches(kernels=FORWARD["bias_grad"], num_gradients=1),
    "amax": Launches(kernels=FORWARD["amax"]),
    # of the bias and of the weights of rows, a product and its sum each; cast before, cast back and joined after
    "expert_bias": Launches(
        kernels=(
            *(Kernel(reads=0, writes=0, side_bytes=8), Kernel(reads=0, writes=0, side_bytes=4)) * 2,
            Kernel(writes=0, side_bytes=4),
            Kernel(reads=0, side_bytes=4),
            Kernel(),
        ),
        num_gradients=1,
    ),
}
FUSED_FORWARD: dict[str, tuple[Kernel, ...]] = {
    "silu_mul": _one(2, 1, lane_slots=32),
    "gelu_mul": _one(2, 1, lane_slots=36),
    "bias_add": _one(1, 1),
    "cast": _one(1, 0, side_bytes=4),
    "transpose": _one(1, 1),  # tiles turned in SRAM
    "layernorm": _one(1, 1),
    "rmsnorm": _one(1, 1),
    "softmax": _one(1, 1),
    "cross_entropy": (Kernel(reads=2, writes=0), _SMALL),  # a row outgrows the SRAM: maximum and sum, then the loss
    "bias_grad": (Kernel(reads=1, writes=0), _SMALL),
}
FUSED_BACKWARD: dict[str, Launches] = {
    "silu_mul": Launches(kernels=_one(3, 2, lane_slots=48), num_gradients=2),
    "gelu_mul": Launches(kernels=_one(3, 2, lane_slots=48), num_gradients=2),
    "layernorm": Launches(kernels=_FUSED_NORM_BACKWARD, num_gradients=3),
    "rmsnorm": Launches(kernels=_FUSED_NORM_BACKWARD, num_gradients=2),
    "softmax": Launches(kernels=_one(2, 1), num_gradients=1),
    "cross_entropy": Launches(kernels=_one(1, 1), num_gradients=1),
    "bias_grad": Launches(kernels=FUSED_FORWARD["bias_grad"], num_gradients=1),
}


def launches(name: str, own: Kernel, *, is_backward: bool, is_fused: bool) -> Launches:
    """What operator `name` launches in one direction; `own` is the one kernel of an operator without an entry."""
    if is_backward:
        fused = FUSED_BACKWARD.get(name) if is_fused else None
        return fused or BACKWARD.get(name) or Launches(kernels=(own,), num_gradients=1)
    if name in update_operator_names():
        return Launches(kernels=UPDATE)
    return Launches(kernels=(FUSED_FORWARD.get(name) if is_fused else None) or FORWARD.get(name) or (own,))
