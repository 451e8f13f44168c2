"""Three engines give one answer; that the closed forms do is a law of `tests/property/test_link_laws.py`."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.comm.events.program import Collective, Compute, Devices, Program, Queueing, Task
from dovetail.comm.events.simulate import simulate
from tests.unit.comm.events.networks import PAYLOAD_BYTES, dimension, dimensions, end_s, network_graph, one

SOON = settings(max_examples=20, deadline=None)


@SOON
@given(
    dimensions(max_dimensions=2), st.sampled_from(("all-reduce", "all-gather", "all-to-all")),
    st.sampled_from(("", "ring", "direct", "halving-doubling")), st.integers(1, 3),
)  # fmt: skip
def test_one_rank_stands_for_all_where_it_may(parts, collective, algorithm, num_chunks):
    graph = network_graph(parts)
    task = one(collective, algorithm=algorithm, num_chunks=num_chunks)
    devices = Devices(overhead_s=1e-8, reduce_s_per_byte=1e-12)
    program = Program(tasks=(task,), queueing=Queueing(num_active_chunks=2), devices=devices)
    quick = simulate(graph, program)
    if quick.engine == "one rank":
        full = simulate(graph, program, "messages")
        assert math.isclose(quick.end_s, full.end_s, rel_tol=1e-9)


@SOON
@given(
    dimensions(max_dimensions=2), st.sampled_from(("all-reduce", "all-to-all", "broadcast", "reduce")),
    st.sampled_from(("", "ring", "direct", "halving-doubling")), st.integers(0, 2**31), st.booleans(),
)  # fmt: skip
def test_all_ranks_agree_with_messages_wherever_they_call_themselves_exact(parts, collective, algorithm, seed, is_slow):
    rng = np.random.default_rng(seed)
    graph = network_graph(parts)
    if is_slow:
        link = int(rng.choice(np.flatnonzero(graph.is_alive)))
        graph = graph.with_link_scaled(int(graph.source[link]), int(graph.target[link]), 0.5)
    slowdown = rng.uniform(1, 1.5, graph.num_devices)
    first = Compute(name="work", duration_s=1e-4)
    task = one(collective, algorithm=algorithm, num_chunks=2, after=("work",))
    program = Program(tasks=(first, task), devices=Devices(slowdown=slowdown, overhead_s=1e-8))
    full = simulate(graph, program, "all ranks")
    if full.is_exact:
        assert math.isclose(full.end_s, simulate(graph, program, "messages").end_s, rel_tol=1e-9)


@SOON
@given(dimensions(max_dimensions=2, max_devices=4), st.integers(0, 2**31), st.integers(1, 2))
def test_several_tasks_in_flight_agree_wherever_all_ranks_call_themselves_exact(parts, seed, num_active):
    rng = np.random.default_rng(seed)
    graph = network_graph(parts)
    tasks: list[Task] = [Compute(name="w0", duration_s=1e-4), Compute(name="w1", duration_s=2e-4, stream="b")]
    for i in range(4):
        named = tuple(part.name for part in parts if rng.random() < 0.7) or (parts[0].name,)
        after = tuple(str(name) for name in rng.choice([t.name for t in tasks], 1))
        size = float(rng.uniform(1e5, 1e7))
        tasks.append(
            Collective(name=f"k{i}", collective="all-reduce", payload_bytes=size, dimensions=named, after=after)
        )
    tasks.append(Compute(name="w2", duration_s=1e-4, after=("k0",)))
    devices = Devices(slowdown=rng.uniform(1, 1.5, graph.num_devices))
    program = Program(tasks=tuple(tasks), queueing=Queueing(num_active_chunks=num_active), devices=devices)
    full = simulate(graph, program, "all ranks")
    single = simulate(graph, program, "messages")
    if full.is_exact:
        for name, (_, end) in single.spans_s.items():
            assert math.isclose(full.spans_s[name][1], end, rel_tol=1e-9), name
    assert math.isclose(full.end_s, single.end_s, rel_tol=0.5)


@pytest.mark.parametrize("algorithm", ["ring", "direct", "halving-doubling", "double-binary-tree", "in-switch"])
@pytest.mark.parametrize("collective", ["all-reduce", "broadcast", "reduce"])
def test_every_algorithm_runs_alike_in_both_engines(algorithm, collective):
    graph = network_graph((dimension("x", "switch", 7),))
    task = one(collective, algorithm=algorithm, num_chunks=3)
    full, single = (end_s(graph, task, engine=engine) for engine in ("all ranks", "messages"))
    assert full > 0
    assert math.isclose(full, single, rel_tol=0.35)
    assert end_s(graph, task) in (full, single)


def test_a_sub_group_uses_the_links_it_lies_on():
    graph = network_graph((dimension("x", "switch", 4), dimension("y", "switch", 4, bandwidth=1e10)))
    inner = one("all-reduce", groups=((0, 1, 2, 3),))
    outer = one("all-reduce", groups=((1, 5, 9, 13),))
    assert math.isclose(end_s(graph, outer) - 2e-6, (end_s(graph, inner) - 2e-6) * 10, rel_tol=1e-6)


def test_groups_that_are_no_product_of_dimensions_are_routed_through_all():
    graph = network_graph((dimension("x", "switch", 4), dimension("y", "switch", 4, bandwidth=1e10)))
    assert end_s(graph, one("all-reduce", groups=((0, 5, 10),))) >= 2 * 2 / 3 * PAYLOAD_BYTES / 1e10


def test_a_straggler_delays_only_what_waits_for_it():
    graph = network_graph((dimension("x", "switch", 2), dimension("y", "switch", 2)))
    slowdown = np.array([2.0, 1.0, 1.0, 1.0])
    tasks = (
        Compute(name="work", duration_s=1e-3),
        Collective(name="a", collective="all-reduce", payload_bytes=1e3, groups=((2, 3),), after=("work",)),
        Collective(name="b", collective="all-reduce", payload_bytes=1e3, groups=((0, 1),), after=("work",)),
    )
    spans = simulate(graph, Program(tasks=tasks, devices=Devices(slowdown=slowdown))).spans_s
    assert 2e-3 < spans["b"][1] < 2.1e-3


def test_compute_and_communication_overlap_and_wait():
    graph = network_graph((dimension("x", "ring", 4),))
    tasks = (
        Compute(name="a", duration_s=1e-3),
        Collective(name="k", collective="all-reduce", payload_bytes=PAYLOAD_BYTES, after=("a",)),
        Compute(name="b", duration_s=1e-3, after=("a",)),
        Compute(name="c", duration_s=1e-3, after=("b", "k")),
    )
    assert simulate(graph, Program(tasks=tasks)).end_s == pytest.approx(3e-3)


def test_priority_overtakes_and_lifo_takes_the_newest():
    graph = network_graph((dimension("x", "switch", 4),))
    tasks = tuple(
        Collective(name=f"k{i}", collective="all-reduce", payload_bytes=PAYLOAD_BYTES, priority=-i, sequence=i)
        for i in range(3)
    )
    ends = {}
    for policy in ("fifo", "priority"):
        spans = simulate(graph, Program(tasks=tasks, queueing=Queueing(policy=policy))).spans_s
        ends[policy] = sorted(spans, key=lambda name: spans[name][1])
    assert ends["priority"] == ["k2", "k1", "k0"]


@pytest.mark.parametrize("engine", ["auto", "one rank", "all ranks", "messages"])
def test_nothing_to_do_takes_no_time_by_any_engine(engine):
    assert simulate(network_graph((dimension("x", "ring", 4),)), Program(tasks=()), engine).end_s == 0.0
