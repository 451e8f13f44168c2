"""What cannot end is an error that names rank and node; broken links are gone round."""

import math

import pytest

from dovetail.comm.events.engine import Simulation
from dovetail.comm.events.lowering import Lowering
from dovetail.comm.events.messages import node_times_s
from dovetail.comm.events.pairing import Node, program_of
from dovetail.comm.events.program import Collective, Compute, Devices, Program, Queueing, Receive, Send
from dovetail.comm.events.simulate import simulate
from dovetail.errors import InvalidInput, NotModelled
from tests.unit.comm.events.networks import PAYLOAD_BYTES, dimension, end_s, network_graph, one

GRAPH = network_graph((dimension("x", "bidirectional-ring", 8),))


def _run(*nodes):
    return simulate(GRAPH, program_of(nodes, Queueing(), Devices()))


def test_a_send_meets_its_receive():
    timeline = _run(
        Node(rank=0, name="s", kind="send", peer=2, payload_bytes=1e6),
        Node(rank=2, name="r", kind="receive", peer=0, payload_bytes=1e6),
        Node(rank=2, name="w", kind="compute", duration_s=1e-3, after=("r",)),
    )
    assert timeline.end_s == pytest.approx(1e6 / 5e10 + 2 * 5e-7 + 1e-3)


def test_a_send_over_two_dimensions_pays_for_both():
    graph = network_graph((dimension("x", "switch", 4), dimension("y", "switch", 4, bandwidth=1e10, latency_s=1e-6)))
    tasks = (Send(name="s", pairs=((0, 5),), payload_bytes=1e6), Receive(name="r", send="s"))
    assert simulate(graph, Program(tasks=tasks)).end_s == pytest.approx(1e6 / 1e10 + 1.5e-6)


def test_two_ranks_may_send_before_they_receive():
    nodes = [
        node
        for rank, peer in ((0, 1), (1, 0))
        for node in (
            Node(rank=rank, name="s", kind="send", peer=peer, payload_bytes=1e6),
            Node(rank=rank, name="r", kind="receive", peer=peer, payload_bytes=1e6, after=("s",)),
        )
    ]
    assert _run(*nodes).end_s > 0


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ((Node(rank=3, name="s7", kind="send", peer=5),), "rank 3: node 's7' sends tag 0 to rank 5, which never"),
        ((Node(rank=5, name="r7", kind="receive", peer=3),), "rank 5: node 'r7' waits for tag 0 from rank 3, which"),
        (
            (Node(rank=1, name="ar", kind="collective", collective="all-reduce", group=(1, 2)),),
            "rank 1: node 'ar' waits for rank 2, which never joins",
        ),
        ((Node(rank=1, name="a", kind="compute", after=("gone",)),), "rank 1: node 'a' waits for 'gone'"),
        (
            tuple(Node(rank=4, name=a, kind="compute", after=(b,)) for a, b in ("pq", "qp")),
            "would never end: .*4:[pq] .rank 4.",
        ),
        ((Node(rank=9, name="a", kind="compute"),), "names rank 9, but the network has 8 devices"),
    ],
)
def test_what_never_ends_is_named(nodes, message):
    with pytest.raises(InvalidInput, match=message):
        _run(*nodes)


def test_ranks_that_join_two_collectives_in_different_orders_are_named():
    def node(rank, name, group, after=()):
        return Node(
            rank=rank,
            name=name,
            kind="collective",
            collective="all-reduce",
            group=group,
            payload_bytes=8.0,
            after=after,
        )

    nodes = (node(0, "a", (0, 1)), node(0, "b", (1, 0), ("a",)), node(1, "b", (1, 0)), node(1, "a", (0, 1), ("b",)))
    with pytest.raises(InvalidInput, match="wait for each other"):
        _run(*nodes)


def test_a_receive_that_waits_for_what_its_send_needs_is_a_cycle():
    nodes = (
        Node(rank=0, name="r", kind="receive", peer=1),
        Node(rank=0, name="s", kind="send", peer=1, after=("r",)),
        Node(rank=1, name="r", kind="receive", peer=0),
        Node(rank=1, name="s", kind="send", peer=0, after=("r",)),
    )
    with pytest.raises(InvalidInput, match=r"would never end.*rank"):
        _run(*nodes)


def test_the_message_loop_names_what_is_stuck_and_does_not_hang():
    simulation = Simulation(GRAPH, Program(tasks=(Compute(name="w", duration_s=1.0),)), "all ranks")
    simulation.run()
    graph = Lowering(GRAPH, simulation).lower()
    graph.num_waits[0] += 1
    with pytest.raises(InvalidInput, match="never end; the first is w at rank 0"):
        node_times_s(graph)


def test_a_broken_link_is_gone_round_and_costs():
    broken = GRAPH.with_link_scaled(2, 3, 0.0)
    whole, detour = end_s(GRAPH, one("all-reduce")), end_s(broken, one("all-reduce"))
    assert whole < detour < 20 * whole


def test_a_slow_link_slows_the_ring_by_as_much():
    no_latency = network_graph((dimension("x", "ring", 8, latency_s=0.0),))
    slow = no_latency.with_link_scaled(2, 3, 0.25)
    assert math.isclose(end_s(slow, one("all-reduce")), 4 * end_s(no_latency, one("all-reduce")), rel_tol=0.3)


def test_a_network_cut_in_two_is_an_error():
    cut = GRAPH
    for source, target in ((2, 3), (7, 6), (0, 7), (3, 2), (6, 7), (7, 0)):
        cut = cut.with_link_scaled(source, target, 0.0)
    with pytest.raises(InvalidInput, match="no way leads from device"):
        end_s(cut, one("all-reduce"))


def test_a_task_that_waits_for_nothing_known_is_an_error():
    with pytest.raises(InvalidInput, match="waits for 'b'"):
        simulate(GRAPH, Program(tasks=(Compute(name="a", duration_s=1.0, after=("b",)),)))


def test_what_is_not_modelled_is_never_free():
    with pytest.raises(NotModelled):
        end_s(GRAPH, one("all-to-all", algorithm="double-binary-tree"))
    with pytest.raises(InvalidInput):
        end_s(GRAPH, one("all-reduce", algorithm="in-switch"))
    with pytest.raises(InvalidInput, match="no collective is named"):
        end_s(GRAPH, Collective(name="k", collective="gossip", payload_bytes=PAYLOAD_BYTES))


def test_a_line_with_a_broken_link_has_no_way_round():
    line = network_graph((dimension("x", "mesh", 4),)).with_link_scaled(1, 2, 0.0)
    with pytest.raises(InvalidInput, match="no way leads from device"):
        end_s(line, one("all-reduce"))


def test_a_broken_link_of_one_row_of_a_torus_is_gone_round_through_another_row():
    torus = network_graph((dimension("x", "mesh", 3), dimension("y", "mesh", 3)))
    broken = torus.with_link_scaled(1, 2, 0.0)
    assert end_s(torus, one("all-reduce")) < end_s(broken, one("all-reduce"))
