"""What no schedule can beat, worked out by hand where links differ."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.comm.events.bisection import bisection_bound_s
from dovetail.comm.events.bounds import port_bound_s
from dovetail.comm.events.program import Program, Receive, Send
from dovetail.comm.events.simulate import simulate
from dovetail.units import GIGA
from tests.unit.comm.events.networks import dimension, network_graph, one

PAYLOAD_BYTES = 1e8
SWITCH = 4  # its vertex, behind the four devices
STAR = network_graph((dimension("x", "switch", 4, 100 * GIGA, 0.0),))
EVERYBODY = np.array([[0, 1, 2, 3]])


def bound_s(collective: str, graph) -> float:
    return port_bound_s(collective, PAYLOAD_BYTES, EVERYBODY, graph)


def test_what_is_reduced_must_leave_every_other_device_and_come_to_the_first():
    assert bound_s("reduce", STAR) == pytest.approx(PAYLOAD_BYTES / (100 * GIGA))
    to_first = STAR.with_link_scaled(SWITCH, 0, 0.25)
    assert bound_s("reduce", to_first) == pytest.approx(PAYLOAD_BYTES / (25 * GIGA))
    from_another = STAR.with_link_scaled(2, SWITCH, 0.5)
    assert bound_s("reduce", from_another) == pytest.approx(PAYLOAD_BYTES / (50 * GIGA))


def test_what_is_broadcast_must_leave_the_first_device_and_come_to_every_other():
    assert bound_s("broadcast", STAR.with_link_scaled(0, SWITCH, 0.25)) == pytest.approx(PAYLOAD_BYTES / (25 * GIGA))
    assert bound_s("broadcast", STAR.with_link_scaled(SWITCH, 2, 0.5)) == pytest.approx(PAYLOAD_BYTES / (50 * GIGA))


@pytest.mark.parametrize(
    ("collective", "links"), [("reduce", [(0, SWITCH), (SWITCH, 2)]), ("broadcast", [(SWITCH, 0)])]
)
def test_links_that_carry_nothing_of_it_bound_nothing(collective, links):
    for source, target in links:
        assert bound_s(collective, STAR.with_link_scaled(source, target, 0.1)) == bound_s(collective, STAR)


def test_a_device_that_can_hardly_send_bounds_a_gathering_by_its_own_part_alone():
    """The other parts may be copied by those that received them; of a reduce-scatter all its own sums must leave."""
    slow = STAR.with_link_scaled(0, SWITCH, 0.1)
    assert bound_s("all-gather", slow) == pytest.approx(1 / 4 * PAYLOAD_BYTES / (10 * GIGA))
    assert bound_s("reduce-scatter", slow) == pytest.approx(3 / 4 * PAYLOAD_BYTES / (10 * GIGA))


@pytest.mark.parametrize(("reducing", "of_payload"), [((), 2 * 3 / 4), (("x",), 2 * 3 / 4), (("x", "y"), 1.0)], ids=str)
def test_a_node_must_pass_to_others_what_no_switch_between_them_adds(reducing, of_payload):
    """Four nodes of eight devices, 10 GB/s each to other nodes: 2 (m - 1) / m of the payload over eight of them."""
    graph = network_graph((dimension("x", "switch", 8, 900 * GIGA), dimension("y", "switch", 4, 10 * GIGA)))
    found_s = port_bound_s("all-reduce", PAYLOAD_BYTES, np.arange(32)[None], graph, (), reducing)
    assert found_s == pytest.approx(of_payload * PAYLOAD_BYTES / (80 * GIGA))


@pytest.mark.parametrize("num_devices", [1, 2, 3, 8])
def test_links_of_devices_joined_each_to_each_come_to_one_port_together(num_devices):
    graph = network_graph((dimension("x", "fully-connected", num_devices, 100 * GIGA),))
    source, target = graph.source[graph.is_alive], graph.target[graph.is_alive]
    assert len(source) == num_devices * (num_devices - 1)
    assert not (source == target).any()  # none leads back to its own device
    sent = np.bincount(source, graph.bandwidth_bytes_per_s[graph.is_alive], minlength=num_devices)
    assert sent == pytest.approx(100 * GIGA if num_devices > 1 else 0.0)


@pytest.mark.parametrize("engine", ["all ranks", "messages"])
def test_the_last_phase_ends_with_the_whole_and_none_before_it_begins(engine):
    """A slow link makes devices of one phase end at different times; it has ended when the last has."""
    parts = (dimension("x", "switch", 4, 100 * GIGA), dimension("y", "bidirectional-ring", 3, 50 * GIGA))
    graph = network_graph(parts).with_link_scaled(0, 4, 0.5)
    found = simulate(graph, Program(tasks=(one("all-reduce", PAYLOAD_BYTES),)), engine)
    assert all(begin_s <= end_s for begin_s, end_s in found.visits_s.values())
    assert max(end_s for _, end_s in found.visits_s.values()) == pytest.approx(found.end_s)


def test_an_all_to_all_must_cross_the_middle_of_every_dimension():
    """Of 2 x 4 devices half the parts, 4 x 4 of P / 8 each way, cross the rings of four over two cuts in two copies."""
    parts = (dimension("x", "switch", 2, 400 * GIGA), dimension("y", "bidirectional-ring", 4, 10 * GIGA))
    graph = network_graph(parts)
    everybody = np.arange(8)[None]
    cut_bytes_per_s = 2 * 2 * 10 * GIGA / 2  # two copies, two links each way, half of a port each
    assert bisection_bound_s(PAYLOAD_BYTES, everybody, graph) == pytest.approx(16 * PAYLOAD_BYTES / 8 / cut_bytes_per_s)
    rows = np.array([[0, 2, 4, 6], [1, 3, 5, 7]])  # along the ring only: 2 x 2 of P / 4 in each
    assert bisection_bound_s(PAYLOAD_BYTES, rows, graph) == pytest.approx(2 * 4 * PAYLOAD_BYTES / 4 / cut_bytes_per_s)


@pytest.mark.parametrize("engine", ["all ranks", "messages"])
@pytest.mark.parametrize("num_messages", [2, 3])
def test_messages_that_want_one_link_at_once_pass_it_one_after_another(engine, num_messages):
    """From device 0 of a one-way ring to the next ones: all of them take the first link, the last one its ways too."""
    graph = network_graph((dimension("x", "ring", 4, 100 * GIGA, 0.0),))
    pairs = tuple((0, target) for target in range(1, num_messages + 1))
    send = Send(name="out", pairs=pairs, payload_bytes=PAYLOAD_BYTES)
    found = simulate(graph, Program(tasks=(send, Receive(name="in", send="out"))), engine)
    assert found.end_s == pytest.approx(num_messages * PAYLOAD_BYTES / (100 * GIGA))
    [first] = graph.links_between(0, 1)
    assert found.link_busy_s[first] == pytest.approx(num_messages * PAYLOAD_BYTES / (100 * GIGA))
