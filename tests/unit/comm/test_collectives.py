from __future__ import annotations

import pytest

from dovetail.comm.alphabeta import all_to_all_s, gather_s
from dovetail.comm.collectives import collectives
from dovetail.comm.volume import sent_bytes
from dovetail.errors import NotModelled
from dovetail.hardware.link import Link
from dovetail.hardware.topology import Dimension, Span
from dovetail.units import GIGA, MICRO


def span(
    kind: str, size: int, part: int = 0, stride: int = 1, latency_s: float = 0.0, oversubscription: float = 1.0
) -> Span:
    link = Link(bandwidth_bytes_per_s=GIGA, latency_s=latency_s)
    dimension = Dimension(name="d", kind=kind, num_devices=size, link=link, oversubscription=oversubscription)
    return Span(dimension=dimension, num_ranks=part or size, stride=stride)


def test_a_gather_moves_all_but_its_own_part():
    assert gather_s(GIGA, span("switch", 8), 1.0) == pytest.approx(7 / 8)


def test_an_all_reduce_moves_twice_that():
    assert collectives["all-reduce"](GIGA, (span("ring", 8),), 1.0) == pytest.approx(2 * 7 / 8)


def test_a_ring_pays_a_latency_a_neighbour_and_a_switch_a_latency_a_halving():
    assert gather_s(0.0, span("ring", 8, latency_s=MICRO), 1.0) == pytest.approx(7 * MICRO)
    assert gather_s(0.0, span("switch", 8, latency_s=MICRO), 1.0) == pytest.approx(3 * MICRO)
    assert gather_s(0.0, span("fully-connected", 8, latency_s=MICRO), 1.0) == pytest.approx(MICRO)


def test_the_outer_dimension_carries_only_what_the_inner_one_left():
    group = (span("switch", 8), span("switch", 4))
    assert collectives["all-gather"](GIGA, group, 1.0) == pytest.approx(7 / 8 + 3 / 4 / 8)


def test_part_of_a_ring_is_a_line_at_half_its_ports():
    assert gather_s(GIGA, span("bidirectional-ring", 8, part=4), 1.0) == pytest.approx(2 * 3 / 4)


def test_interleaved_groups_that_go_round_a_ring_share_its_links():
    # 4 groups of 4 on a ring of 16: each direction of each link carries 4 x 3/4 / 2 of the payload at half the ports
    assert gather_s(GIGA, span("bidirectional-ring", 16, part=4, stride=4), 1.0) == pytest.approx(4 * 3 / 4)


def test_interleaved_groups_on_a_line_share_its_links():
    alone_s = gather_s(GIGA, span("mesh", 8, part=4), 1.0)
    assert gather_s(GIGA, span("mesh", 8, part=4, stride=2), 1.0) == pytest.approx(2 * alone_s)


def test_part_of_a_one_way_ring_goes_all_the_way_round():
    assert gather_s(GIGA, span("ring", 8, part=2), 1.0) == pytest.approx(1 / 2 * 4)


def test_a_line_of_two_has_one_port_each():
    assert gather_s(GIGA, span("mesh", 2), 1.0) == pytest.approx(1 / 2)
    assert collectives["point-to-point"](GIGA, (span("mesh", 2),), 1.0) == pytest.approx(1.0)


def test_a_message_over_several_links_shares_each_with_as_many_groups():
    one = collectives["point-to-point"](GIGA, (span("bidirectional-ring", 16, part=4),), 1.0)
    far = collectives["point-to-point"](GIGA, (span("bidirectional-ring", 16, part=4, stride=4),), 1.0)
    assert far == pytest.approx(4 * one)


def test_oversubscription_divides_the_bandwidth():
    assert gather_s(GIGA, span("fat-tree", 8, oversubscription=7.0), 1.0) == pytest.approx(7 * 7 / 8)


def test_few_ranks_of_a_full_mesh_use_few_of_its_links():
    assert gather_s(GIGA, span("fully-connected", 8, part=2), 1.0) == pytest.approx(1 / 2 * 7)


def test_an_all_to_all_on_a_ring_pays_for_its_hops():
    assert all_to_all_s(GIGA, span("bidirectional-ring", 4), 1.0) == pytest.approx(1.0)  # 1+2+1 hops over 4 ranks
    assert all_to_all_s(GIGA, span("ring", 4), 1.0) == pytest.approx(1.5)  # 1+2+3 hops over 4 ranks
    assert all_to_all_s(GIGA, span("switch", 4), 1.0) == pytest.approx(0.75)


def test_an_all_to_all_pays_a_latency_a_hop_of_its_farthest_part():
    assert all_to_all_s(0.0, span("switch", 64, latency_s=MICRO), 1.0) == pytest.approx(MICRO)
    assert all_to_all_s(0.0, span("fully-connected", 8, latency_s=MICRO), 1.0) == pytest.approx(MICRO)
    assert all_to_all_s(0.0, span("bidirectional-ring", 5, latency_s=MICRO), 1.0) == pytest.approx(2 * MICRO)
    assert all_to_all_s(0.0, span("ring", 5, latency_s=MICRO), 1.0) == pytest.approx(4 * MICRO)
    assert all_to_all_s(0.0, span("mesh", 8, latency_s=MICRO), 1.0) == pytest.approx(7 * MICRO)
    # 16 parts of 1/8 cross the middle at half the ports, and the last has the middle link and three more to go
    assert all_to_all_s(GIGA, span("mesh", 8, latency_s=MICRO), 1.0) == pytest.approx(16 / 8 * 2 + 4 * MICRO)


def test_opposite_devices_of_a_ring_send_whole_messages_either_way():
    assert gather_s(GIGA, span("bidirectional-ring", 8, part=2, stride=4), 1.0) == pytest.approx(4 / 2)
    assert gather_s(GIGA, span("bidirectional-ring", 6, part=2, stride=3), 1.0) == pytest.approx(4 / 2)


def test_links_run_at_their_achievable_share():
    assert gather_s(GIGA, span("switch", 8), 0.5) == pytest.approx(2 * gather_s(GIGA, span("switch", 8), 1.0))


def test_a_message_to_a_neighbour_takes_one_link():
    assert collectives["point-to-point"](GIGA, (span("switch", 8, latency_s=MICRO),), 1.0) == pytest.approx(1 + MICRO)
    assert collectives["point-to-point"](GIGA, (span("bidirectional-ring", 8),), 1.0) == pytest.approx(2.0)
    assert collectives["point-to-point"](GIGA, (), 1.0) == 0.0


@pytest.mark.parametrize("name", ["all-gather", "reduce-scatter", "all-reduce", "all-to-all"])
def test_a_group_of_one_sends_nothing(name: str):
    assert collectives[name](GIGA, (), 1.0) == 0.0


def test_volumes_are_those_of_the_leanest_algorithm():
    assert sent_bytes("all-reduce", 8.0, 4) == 12.0
    assert sent_bytes("all-gather", 8.0, 4) == 6.0
    assert sent_bytes("point-to-point", 8.0, 2) == 8.0
    with pytest.raises(NotModelled):
        sent_bytes("gossip", 8.0, 4)
