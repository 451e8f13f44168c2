"""Events of a trace into measured operators: which kernels are whose, and what is none of ours.

The outermost call that is an operator of ours has all kernels beneath it. Where a trace has no kernels, times are the
host's: an operator has all of its call, and others what their callees leave.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from dovetail.files.profiles.aten_calls import Row
from dovetail.files.profiles.call_tree import NO_CALL, CallTree
from dovetail.files.profiles.kineto import Events, Kernel
from dovetail.files.profiles.kineto_steps import profiled_steps
from dovetail.files.text import one_line
from dovetail.hardware.measured import LeftOut, MeasuredExchange, MeasuredOp, Profile

_BETWEEN = "a copy between host and device"
_NO_CALLER = "launched by no operator of the trace"
_NO_MESSAGE = "the trace does not state the size of its message"
MAX_NAME = 100
T = TypeVar("T")


@dataclass(slots=True)
class _Sum:
    """All runs of one thing."""

    total_s: float = 0.0
    num_runs: int = 0
    num_kernels: int = 0

    def add(self, took_s: float, num_runs: int = 1) -> None:
        self.total_s += took_s
        self.num_runs += num_runs


@dataclass(slots=True)
class _Sums:
    """Seconds and runs by what they are of: name, row and stream; a collective; name and why it is left out."""

    ops: defaultdict[tuple[str, Row, str], _Sum] = field(default_factory=lambda: defaultdict(_Sum))
    collectives: defaultdict[Kernel, _Sum] = field(default_factory=lambda: defaultdict(_Sum))
    left: defaultdict[tuple[str, str], _Sum] = field(default_factory=lambda: defaultdict(_Sum))

    def leave_out(self, name: str, why: str, took_s: float) -> None:
        self.left[name[:MAX_NAME], why].add(took_s)


def profile_of(events: Events, tree: CallTree, source: str) -> Profile:
    """What `events` measured, of the calls in `tree`."""
    sums = _Sums()
    is_host_time = not len(events.kernel)
    if is_host_time:
        _add_host_times(events, tree, sums)
    else:
        _add_kernels(events, tree, sums)
    return Profile(
        source=source,
        device=events.devices[0] if len(events.devices) == 1 else "",
        ops=tuple(_ops(sums)),
        collectives=tuple(_exchanges(sums)),
        left_out=tuple(_left_out(sums)),
        num_steps=len(events.steps),
        num_ranks=events.num_ranks,
        is_host_time=is_host_time,
        steps=profiled_steps(events),
    )


def _add_kernels(events: Events, tree: CallTree, sums: _Sums) -> None:
    place = {number: index for index, number in enumerate(events.id) if number and tree.of(index).is_operator}
    kernels = list(events.kernels)
    of_owner: dict[int, _Sum] = {}
    columns = zip(events.kernel_s, events.kernel_id, events.kernel_launch, events.kernel, strict=True)
    for took_s, number, launch, code in columns:
        kernel = kernels[code]
        if kernel.collective:
            sums.collectives[kernel].add(took_s)
            continue
        index = place.get(number, place.get(events.launched_by.get(launch, 0), NO_CALL))
        owner = NO_CALL if index == NO_CALL else tree.owner[index]
        if kernel.is_copy or owner == NO_CALL:
            sums.leave_out(*_name_and_reason(kernel, index, tree), took_s)
            continue
        if owner not in of_owner:
            of_owner[owner] = sums.ops[(*_named_row(tree, owner), kernel.stream)]
            of_owner[owner].num_runs += 1
        of_owner[owner].add(took_s, num_runs=0)
        of_owner[owner].num_kernels += 1


def _named_row(tree: CallTree, owner: int) -> tuple[str, Row]:
    call = tree.of(owner)
    assert isinstance(call.row, Row), call
    return call.name, call.row


def _name_and_reason(kernel: Kernel, index: int, tree: CallTree) -> tuple[str, str]:
    """By what name a kernel without a caller is left out, and why."""
    if kernel.is_copy:
        return kernel.name, _BETWEEN
    if kernel.name.startswith("nccl"):
        return kernel.name, _NO_MESSAGE
    return tree.label(index) if index != NO_CALL else (kernel.name, _NO_CALLER)


def _add_host_times(events: Events, tree: CallTree, sums: _Sums) -> None:
    own_s = list(events.took_s)
    for index, around in enumerate(tree.parent):
        if around != NO_CALL and tree.of(index).is_operator:
            own_s[around] -= events.took_s[index]
    for index, call in enumerate(map(tree.of, range(len(own_s)))):
        if tree.owner[index] == index:
            sums.ops[(*_named_row(tree, index), "")].add(events.took_s[index])
        elif tree.owner[index] == NO_CALL and call.is_operator and own_s[index] > 0:
            sums.leave_out(*tree.label(index), own_s[index])


def _ops(sums: _Sums) -> Iterable[MeasuredOp]:
    for (name, row, stream), found in _longest_first(sums.ops):
        if found.total_s <= 0:  # runs that the trace's clock did not see
            sums.leave_out(name, "took no time that the trace shows", 0.0)
            continue
        yield MeasuredOp(
            name=one_line(name),
            stream=stream,
            kind=row.kind,
            phase=row.phase,
            dtype=row.dtype,
            extents=row.extents,
            work_frac=row.work_frac,
            stride=row.stride,
            distinct_frac=row.distinct_frac,
            time_s=found.total_s / found.num_runs,
            num_runs=found.num_runs,
            num_kernels=found.num_kernels,
        )


def _exchanges(sums: _Sums) -> Iterable[MeasuredExchange]:
    for kernel, found in _longest_first(sums.collectives):
        yield MeasuredExchange(
            name=one_line(kernel.collective),
            message_bytes=kernel.message_bytes,
            num_ranks=kernel.num_ranks,
            time_s=found.total_s / found.num_runs,
            num_runs=found.num_runs,
            stream=kernel.stream,
        )


def _left_out(sums: _Sums) -> Iterable[LeftOut]:
    for (name, why), found in _longest_first(sums.left):
        yield LeftOut(name=one_line(name), why=why, total_s=found.total_s, num_runs=found.num_runs)


def _longest_first(sums: Mapping[T, _Sum]) -> list[tuple[T, _Sum]]:
    return sorted(sums.items(), key=lambda pair: -pair[1].total_s)
