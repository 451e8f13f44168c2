"""What a device stood still for, and the chain that decided an end, by hand."""

from __future__ import annotations

import pytest

from dovetail.comm.events.program import Compute, Program
from dovetail.comm.events.recording import StreamSlice
from dovetail.comm.events.simulate import simulate
from dovetail.comm.trace.critical import critical_path
from dovetail.comm.trace.waits import WAITS, _waits
from tests.unit.comm.events.networks import dimension, network_graph

GRAPH = network_graph((dimension("x", "switch", 2),))


def slice_of(task: str, begin_s: float, end_s: float, stream: str = "compute") -> StreamSlice:
    return StreamSlice(device=3, stream=stream, task=task, ready_s=begin_s, begin_s=begin_s, end_s=end_s)


COMM = (slice_of("c", 0.0, 1.0, "comm"), slice_of("a", 0.0, 4.5, "comm"), slice_of("b", 0.0, 5.0, "comm"))
KERNELS = (slice_of("k1", 1.0, 2.0), slice_of("k2", 2.0, 3.0), slice_of("k3", 5.0, 6.0))
AFTER = {"k1": ["c"], "k2": ["c"], "k3": ["a", "b", "elsewhere"]}


def waits(*own: StreamSlice) -> list[tuple[str, float, float]]:
    found = _waits(own, lambda _, task: AFTER.get(task, []))
    assert all((one.device, one.stream, one.ready_s) == (3, WAITS, one.begin_s) for one in found)
    return [(one.task, one.begin_s, one.end_s) for one in found]


def test_a_wait_is_named_for_the_last_of_what_the_next_kernel_waited_for():
    assert waits(*COMM, *KERNELS) == [("c", 0.0, 1.0), ("b", 3.0, 5.0)]
    assert waits(*COMM, *KERNELS, slice_of("d", 2.0, 8.0, "comm")) == [
        ("c", 0.0, 1.0),
        ("b", 3.0, 5.0),
        ("d", 6.0, 8.0),
    ]


def test_kernels_that_overlap_or_follow_at_once_leave_no_wait_and_one_that_waits_for_none_had_its_turn():
    assert waits(slice_of("x", 0.0, 4.0), slice_of("y", 1.0, 2.0), slice_of("z", 4.0, 5.0)) == []
    assert waits(slice_of("x", 0.0, 4.0), slice_of("y", 1.0, 2.0), slice_of("z", 4.5, 5.0)) == [("its turn", 4.0, 4.5)]
    assert waits(*COMM) == []  # a device without kernels waits for none


def compute(name: str, duration_s: float, *after: str, device: int = 0, stream: str = "compute") -> Compute:
    return Compute(name=name, duration_s=duration_s, devices=(device,), after=after, stream=stream)


@pytest.mark.parametrize(
    ("tasks", "path"),
    [
        ((compute("a", 1.0), compute("b", 2.0, device=1), compute("c", 3.0, "a", "b")), ["b", "c"]),
        ((compute("a", 3.0), compute("b", 2.0, device=1), compute("c", 3.0, "a", "b")), ["a", "c"]),
        (
            (compute("a", 1.0), compute("b", 1.0, "a"), compute("c", 1.0, "b"), compute("d", 2.5, device=1)),
            ["a", "b", "c"],
        ),
        ((compute("a", 1.0), compute("d", 2.5, device=1)), ["d"]),
        ((), []),
    ],
)
def test_the_critical_path_goes_back_from_the_last_end_by_what_was_waited_for(tasks, path):
    program = Program(tasks=tasks)
    timeline = simulate(GRAPH, program, "all ranks")
    found = critical_path(program, timeline)
    assert [one.task for one in found] == path
    assert [(one.begin_s, one.end_s) for one in found] == [timeline.spans_s[name] for name in path]
