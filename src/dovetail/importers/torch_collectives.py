"""Calls of process groups, as the dispatcher sees them: which collective, how many bytes, among which ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroup, Work

from dovetail.errors import NotModelled
from dovetail.importers.torch_dispatch import tensors_in
from dovetail.workload.dispatched import CollectiveCall

C10D, FUNCTIONAL, DTENSOR = "c10d::", "_c10d_functional::", "_dtensor::"
WAIT = "_c10d_functional::wait_tensor"
WRAP = "_c10d_functional::_wrap_tensor_autograd"


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """What an operator of a process group is: `message` picks the tensors whose bytes count from arguments and result.

    `times` is by what the bytes are multiplied: 1, or the size of the group where the tensors are one rank's part.
    """

    kind: str
    message: Callable[[Any, Any], Any]
    is_of_all: bool = False  # the bytes are one rank's part, and those of all count
    peer: int | None = None  # which argument is the other rank
    splits: int | None = None  # which argument says how much goes to each rank


def _first(args: Any, _made: Any) -> Any:
    return args[0]


def _second(args: Any, _made: Any) -> Any:
    return args[1]


def _made(_args: Any, made: Any) -> Any:
    return made


def _nothing(_args: Any, _made: Any) -> Any:
    return ()


COLLECTIVES = {
    "c10d::allreduce_": Collective(kind="all-reduce", message=_first),
    "c10d::allreduce_coalesced_": Collective(kind="all-reduce", message=_first),
    "c10d::broadcast_": Collective(kind="broadcast", message=_first),
    "c10d::reduce_": Collective(kind="reduce", message=_first),
    "c10d::allgather_": Collective(kind="all-gather", message=_first),
    "c10d::allgather_coalesced_": Collective(kind="all-gather", message=_first),
    "c10d::_allgather_base_": Collective(kind="all-gather", message=_first),
    "c10d::allgather_into_tensor_coalesced_": Collective(kind="all-gather", message=_first),
    "c10d::reduce_scatter_": Collective(kind="reduce-scatter", message=_second),
    "c10d::_reduce_scatter_base_": Collective(kind="reduce-scatter", message=_second),
    "c10d::reduce_scatter_tensor_coalesced_": Collective(kind="reduce-scatter", message=_second),
    "c10d::gather_": Collective(kind="gather", message=_second, is_of_all=True),
    "c10d::scatter_": Collective(kind="scatter", message=_first, is_of_all=True),
    "c10d::alltoall_": Collective(kind="all-to-all", message=_second),
    "c10d::alltoall_base_": Collective(kind="all-to-all", message=_second, splits=4),
    "c10d::barrier": Collective(kind="barrier", message=_nothing),
    "c10d::monitored_barrier_": Collective(kind="barrier", message=_nothing),
    "c10d::send": Collective(kind="send", message=_first, peer=2),
    "c10d::recv_": Collective(kind="recv", message=_first, peer=2),
    "_c10d_functional::all_reduce": Collective(kind="all-reduce", message=_first),
    "_c10d_functional::all_reduce_": Collective(kind="all-reduce", message=_first),
    "_c10d_functional::all_reduce_coalesced": Collective(kind="all-reduce", message=_first),
    "_c10d_functional::all_reduce_coalesced_": Collective(kind="all-reduce", message=_first),
    "_c10d_functional::all_gather_into_tensor": Collective(kind="all-gather", message=_made),
    "_c10d_functional::all_gather_into_tensor_out": Collective(kind="all-gather", message=_made),
    "_c10d_functional::all_gather_into_tensor_coalesced": Collective(kind="all-gather", message=_made),
    "_c10d_functional::reduce_scatter_tensor": Collective(kind="reduce-scatter", message=_first),
    "_c10d_functional::reduce_scatter_tensor_out": Collective(kind="reduce-scatter", message=_first),
    "_c10d_functional::reduce_scatter_tensor_coalesced": Collective(kind="reduce-scatter", message=_first),
    "_c10d_functional::all_to_all_single": Collective(kind="all-to-all", message=_first, splits=2),
    "_c10d_functional::broadcast": Collective(kind="broadcast", message=_first),
    "_c10d_functional::broadcast_": Collective(kind="broadcast", message=_first),
    "_c10d_functional::isend": Collective(kind="send", message=_first, peer=1),
    "_c10d_functional::irecv": Collective(kind="recv", message=_first, peer=1),
    "_dtensor::shard_dim_alltoall": Collective(kind="all-to-all", message=_first),
}


def is_collective(word: str) -> bool:
    """Whether the operator of that name calls a process group; raises where that call is not modelled."""
    if not word.startswith((C10D, FUNCTIONAL, DTENSOR)) or word == WAIT:
        return False
    if word not in COLLECTIVES:
        raise NotModelled(f"the operator {word} of a process group is not modelled")
    return True


def called(
    schema: Any, args: Any, kwargs: Any, made: Any, label_of: Callable[[ProcessGroup], str]
) -> tuple[CollectiveCall, bool]:
    """The call, and whether the code goes on before it has ended."""
    one = COLLECTIVES[schema.name]
    names = [argument.name for argument in schema.arguments]
    values = {argument.name: argument.default_value for argument in schema.arguments if argument.has_default_value()}
    values |= dict(zip(names, args, strict=False)) | kwargs
    group = group_of(values.get("process_group", values.get("group_name")))
    ranks = tuple(dist.get_process_group_ranks(group))
    tensors = tensors_in(one.message(args, made))
    num_bytes = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    splits: tuple[int, ...] = ()
    if one.splits is not None and args[one.splits]:
        rows = args[one.splits]
        row_bytes = num_bytes // max(sum(rows), 1)
        splits = tuple(int(num) * row_bytes for num in rows) if len(set(rows)) > 1 else ()
    elif schema.name == "c10d::alltoall_":
        sizes = [tensor.numel() * tensor.element_size() for tensor in tensors]
        splits = tuple(sizes) if len(set(sizes)) > 1 else ()
    peer = None
    if one.peer is not None:
        peer = args[one.peer] if schema.name.startswith(FUNCTIONAL) else ranks[args[one.peer]]
    call = CollectiveCall(
        kind=one.kind,
        ranks=ranks,
        num_bytes=num_bytes * (len(ranks) if one.is_of_all else 1),
        group=label_of(group),
        bytes_by_rank=splits,
        peer=peer,
    )
    return call, bool(values.get("async_op", True))


def group_of(value: Any) -> ProcessGroup:
    """The process group that an operator is given, by itself or by name."""
    if isinstance(value, str):
        value = torch._C._distributed_c10d._resolve_process_group(value)
    group: ProcessGroup = value if isinstance(value, ProcessGroup) else ProcessGroup.unbox(value)
    return group


class RecordedWork(Work):
    """What an asynchronous call gives back: who waits for it lets the current stream wait."""

    def __init__(self, waited: Callable[[], None], result: list[torch.Tensor] | None = None) -> None:
        super().__init__()
        self._waited = waited
        self._result = result or []

    def wait(self, _timeout: Any = None) -> bool:
        self._waited()
        return True

    def release(self) -> None:
        """Lets go of the tensors that it fills."""
        self._result = []

    def block_current_stream(self) -> None:
        self._waited()

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True

    def result(self) -> Any:
        return self._result

    def get_future(self) -> Any:
        future: Any = torch.futures.Future()
        future.set_result(self._result)
        self.release()
        return future


def exchanged(call: CollectiveCall, rank: int, own: torch.Tensor, shape: Any) -> torch.Tensor | None:
    """Small numbers after a collective, where every rank has what this one has; none where that does not say them.

    Of an all-to-all, every other rank is taken to send what it is sent.
    """
    num_ranks = len(call.ranks)
    if call.kind == "all-reduce":
        is_sum = own.dtype != torch.bool
        return own * num_ranks if is_sum and not own.dtype.is_floating_point else own
    if call.kind == "all-gather":
        return own.reshape(-1).repeat(num_ranks).reshape(shape) if own.numel() * num_ranks == shape.numel() else None
    if call.kind in ("broadcast", "all-to-all") and own.numel() == shape.numel():
        return own.reshape(shape)
    if call.kind == "reduce-scatter":
        parts = own.reshape(num_ranks, -1)
        return (parts[call.ranks.index(rank)] * num_ranks).reshape(shape)
    return None
