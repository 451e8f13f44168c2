"""Whichever engine answers, the answer is that of the message loop; and no message skips what it must pass."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.comm.events.program import Program, Queueing, Receive, Send
from dovetail.comm.events.simulate import simulate
from dovetail.comm.events.unit_graphs import clos, dragonfly
from dovetail.comm.one_collective import CollectiveJob, Network, network_answer
from dovetail.errors import InvalidInput
from dovetail.hardware.link import Link
from dovetail.units import GIGA, KILO, MEGA, MICRO, NANO
from tests.unit.comm.events.networks import dimension, dimensions, network_graph, one

SOON = settings(max_examples=20, deadline=None)
ALGORITHMS = ("", "ring", "direct", "halving-doubling")


def answer(collective, payload_bytes, parts, **options):
    graph = options.pop("graph", None) or network_graph(parts)
    network = Network(name="it", parts=tuple(parts), graph=graph)
    return network_answer(CollectiveJob(collective=collective, payload_bytes=payload_bytes, network=network, **options))


def ends_s(graph, task, num_active=1):
    """By the engine chosen, and message by message."""
    program = Program(tasks=(task,), queueing=Queueing(num_active_chunks=num_active))
    return simulate(graph, program).end_s, simulate(graph, program, "messages").end_s


def test_an_in_switch_reduce_scatter_sends_its_whole_payload_up():
    switch = dimension("x", "switch", 8, 50 * GIGA, MICRO)
    found = answer("reduce-scatter", 64 * MEGA, (switch,), algorithms=(("*", "in-switch"),))
    assert found.time_s == pytest.approx(64 * MEGA / (50 * GIGA) + MICRO)
    assert found.bound_frac <= 1


def test_an_in_switch_all_reduce_over_two_switches_pays_for_three_passes():
    parts = (dimension("x", "switch", 8, 400 * GIGA, MICRO), dimension("y", "switch", 4, 50 * GIGA, 2 * MICRO))
    found = answer("all-reduce", 64 * MEGA, parts, algorithms=(("*", "in-switch"),))
    assert found.time_s == pytest.approx((160 + 160 + 160 + 1 + 2 + 1) * MICRO)  # up in x, both ways in y, down in x
    assert found.time_s == pytest.approx(
        answer("all-reduce", 64 * MEGA, parts, algorithms=(("*", "in-switch"),), graph=slowed(parts)).time_s, rel=0.01
    )


def slowed(parts):
    """The same network a little uneven, so that no device stands for all."""
    graph = network_graph(parts)
    return graph.with_link_scaled(int(graph.source[0]), int(graph.target[0]), 0.999)


@pytest.mark.parametrize("kind", ["ring", "bidirectional-ring"])
@pytest.mark.parametrize(("collective", "algorithm"), [("all-gather", "direct"), ("all-reduce", "halving-doubling")])
@pytest.mark.parametrize("num_devices", [3, 6, 7, 32])
@pytest.mark.parametrize("num_active", [1, 4])
@pytest.mark.parametrize("payload_bytes", [KILO, 64 * MEGA])
def test_far_messages_on_a_ring_are_served_in_the_order_they_come(
    kind, collective, algorithm, num_devices, num_active, payload_bytes
):
    graph = network_graph((dimension("x", kind, num_devices, 50 * GIGA, MICRO),))
    got, want = ends_s(graph, one(collective, payload_bytes, algorithm, num_chunks=num_active), num_active)
    assert got == pytest.approx(want, rel=1e-9)


def test_a_hair_of_unevenness_changes_next_to_nothing():
    ring = (dimension("x", "bidirectional-ring", 32, 50 * GIGA, MICRO),)
    direct = {"algorithms": (("*", "direct"),)}
    even = answer("all-gather", KILO, ring, **direct)
    uneven = answer("all-gather", KILO, ring, graph=slowed(ring), **direct)
    assert even.time_s == pytest.approx(uneven.time_s, rel=0.01)


@SOON
@given(
    dimensions(max_dimensions=2), st.sampled_from(("all-reduce", "all-gather", "reduce-scatter", "all-to-all")),
    st.sampled_from(ALGORITHMS), st.integers(1, 4), st.integers(1, 4),
)  # fmt: skip
def test_the_engine_chosen_agrees_with_the_message_loop(parts, collective, algorithm, num_chunks, num_active):
    task = one(collective, algorithm=algorithm, num_chunks=num_chunks)
    got, want = ends_s(network_graph(parts), task, num_active)
    assert math.isclose(got, want, rel_tol=1e-9)


def graphs():
    quick, slow = (Link(bandwidth_bytes_per_s=rate * GIGA, latency_s=0.0) for rate in (25, 25))
    far = Link(bandwidth_bytes_per_s=100 * GIGA, latency_s=2 * MICRO)
    ring = dimension("y", "bidirectional-ring", 5, 25 * GIGA, 100 * NANO)
    return {
        "dragonfly": (dragonfly("x", 3, 2, 1, quick, slow), ring),
        "small dragonfly": (dragonfly("x", 2, 2, 2, quick, slow),),
        "clos": (clos("x", 8, 4, 4, far, 1.0),),
        "clos without latency": (clos("x", 8, 4, 2, quick, 2.0),),
    }


@pytest.mark.parametrize("name", list(graphs()))
@pytest.mark.parametrize("collective", ["all-reduce", "all-gather", "all-to-all", "broadcast"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_messages_that_come_at_once_go_in_one_order_in_every_engine(name, collective, algorithm):
    got, want = ends_s(network_graph(graphs()[name]), one(collective, 64 * MEGA, algorithm))
    assert got == pytest.approx(want, rel=1e-9)


def test_a_latency_is_that_from_device_to_device_through_one_switch():
    link = Link(bandwidth_bytes_per_s=50 * GIGA, latency_s=MICRO)
    parts = {
        "switch": dimension("x", "switch", 8, 50 * GIGA, MICRO),
        "fat tree": dimension("x", "fat-tree", 8, 50 * GIGA, MICRO),
        "leaves": clos("x", 8, 4, 2, link, 1.0),
        "routers": dragonfly("x", 2, 2, 2, link, link),
    }
    for name, part in parts.items():
        assert answer("point-to-point", 1.0, (part,), groups=((0, 1),)).time_s == pytest.approx(MICRO, rel=1e-3), name
    apart = answer("point-to-point", 1.0, (parts["leaves"],), groups=((0, 4),))
    assert apart.time_s == pytest.approx(2 * MICRO, rel=1e-3)


def test_messages_that_skip_the_first_dimension_leave_too():
    parts = tuple(dimension(name, "bidirectional-ring", 4, 50 * GIGA, MICRO) for name in ("x", "y"))
    found = answer("point-to-point", MEGA, parts, groups=((0, 1), (2, 3), (4, 8)))
    assert found.time_s == pytest.approx(MEGA / (25 * GIGA) + MICRO)
    pairs = ((0, 1), (4, 8), (4, 5))
    tasks = (Send(name="s", pairs=pairs, payload_bytes=MEGA), Receive(name="r", send="s"))
    spans = [simulate(network_graph(parts), Program(tasks=tasks), e).spans_s for e in ("all ranks", "messages")]
    assert spans[0] == spans[1]


def test_a_way_round_may_be_shorter_than_the_rows_of_others():
    parts = tuple(dimension(name, "bidirectional-ring", n, 50 * GIGA, MICRO) for name, n in (("x", 4), ("y", 6)))
    graph = network_graph(parts).with_link_scaled(0, 4, 0.0)
    found = answer("point-to-point", MEGA, parts, graph=graph, groups=((1, 2), (0, 12)))
    assert found.time_s == pytest.approx(MEGA / (25 * GIGA) + 3 * MICRO)


def test_no_device_stands_for_all_where_joined_devices_are_paired_off_in_two_ways():
    graph = network_graph((dimension("x", "fully-connected", 4),))
    tasks = tuple(
        replace(one(what, algorithm=algorithm), name=what)
        for what, algorithm in (("all-reduce", "halving-doubling"), ("all-to-all", "direct"))
    )
    program = Program(tasks=tasks, queueing=Queueing(num_active_chunks=2))
    found = simulate(graph, program)
    assert found.engine != "one rank"
    assert found.end_s == pytest.approx(simulate(graph, program, "messages").end_s, rel=1e-9)


def test_a_device_cut_off_is_named():
    graph = network_graph(parts := (dimension("x", "mesh", 2, 400 * GIGA, 0.0),)).with_link_scaled(0, 1, 0.0)
    with pytest.raises(InvalidInput, match="no way leads from device 0"):
        answer("broadcast", MEGA, parts, graph=graph)


def test_in_switch_needs_groups_that_lie_along_switches():
    parts = (dimension("x", "switch", 6), dimension("y", "switch", 4))
    with pytest.raises(InvalidInput, match=r"in-switch .* along"):
        answer("all-reduce", MEGA, parts, groups=((0, 1, 2, 3, 4, 7),), algorithms=(("*", "in-switch"),))


def test_a_way_round_through_another_dimension_counts_in_the_bound():
    parts = tuple(dimension(name, "mesh", 2, 50 * GIGA, 0.0) for name in ("x", "y"))
    graph = network_graph(parts).with_link_scaled(0, 1, 0.0)
    found = answer("all-gather", MEGA, parts, graph=graph, dimensions=("x",))
    assert 0 < found.bound_s <= found.time_s < math.inf
