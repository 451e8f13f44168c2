"""Message schedules as counts and fractions: what the literature says of each algorithm, and what events send."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dovetail.comm.collectives import collectives
from dovetail.comm.events.schedules import Ask, Repeated, Shape, algorithms
from dovetail.comm.library.on_group import group_times, is_timed_by_library, library_s
from dovetail.comm.messages import compiled, messages_of
from dovetail.comm.volume import sent_bytes
from dovetail.errors import NotModelled
from dovetail.hardware.clusters import clusters
from dovetail.hardware.link import Link
from dovetail.hardware.topology import Dimension, Span
from dovetail.units import GIBI, GIGA, MICRO

LINK = Link(bandwidth_bytes_per_s=100 * GIGA, latency_s=2 * MICRO)
RANKS = (2, 3, 4, 6, 7, 8, 12, 64)
GATHERS: list[tuple[str, Shape]] = [
    ("ring", "one-way"),
    ("ring", "two-way"),
    ("ring", "line"),
    ("halving-doubling", "any"),
    ("direct", "any"),
]


def switch(num_devices: int, *, is_reducing: bool = True) -> Span:
    part = Dimension(name="x", kind="switch", num_devices=num_devices, link=LINK, is_reducing=is_reducing)
    return Span(dimension=part, num_ranks=num_devices)


@pytest.mark.parametrize("num_ranks", RANKS)
@pytest.mark.parametrize(("algorithm", "shape"), GATHERS)
def test_a_gather_moves_all_but_a_ranks_own_part_in_the_steps_of_its_algorithm(algorithm, shape, num_ranks):
    found = compiled(algorithm, "all-gather", num_ranks, shape)
    assert Fraction(*found.moved) == Fraction(num_ranks - 1, num_ranks)
    steps = {"halving-doubling": math.ceil(math.log2(num_ranks)), "direct": 1}
    assert found.num_steps == steps.get(algorithm, num_ranks - 1)


@pytest.mark.parametrize("num_ranks", RANKS)
def test_an_all_to_all_on_a_ring_hands_parts_on_by_the_shorter_way(num_ranks):
    one_way, two_way = (compiled("ring", "all-to-all", num_ranks, shape) for shape in ("one-way", "two-way"))
    assert Fraction(*one_way.moved) == Fraction(num_ranks - 1, 2)
    shorter = sum(min(d, num_ranks - d) for d in range(num_ranks))
    if num_ranks > 2:
        assert Fraction(*two_way.moved) == Fraction(shorter, num_ranks)
    assert two_way.num_steps == num_ranks // 2


@pytest.mark.parametrize("collective", ["all-reduce", "reduce-scatter", "all-gather"])
@pytest.mark.parametrize("num_ranks", RANKS)
def test_where_switches_add_a_payload_passes_a_port_once(collective, num_ranks):
    found = messages_of(collective, switch(num_ranks))
    assert (found.moved, found.num_steps) == ((1, 1), 1)
    expected_s = GIBI / LINK.bandwidth_bytes_per_s + LINK.latency_s
    assert collectives[collective](GIBI, (switch(num_ranks),), 1.0) == pytest.approx(expected_s, rel=1e-12)


def test_messages_of_very_many_ranks_are_counted_and_not_listed():
    num_ranks = 1 << 20
    assert compiled("direct", "all-to-all", num_ranks, "any").moved == (num_ranks - 1, num_ranks)
    everyone = Repeated(num_bytes=2.0, num_rounds=5)
    assert [one.offset for one in everyone] == [1, 2, 3, 4, 5]
    assert [one.offset for one in everyone[1:3]] == [2, 3]
    with pytest.raises(IndexError):
        everyone[5]


def test_pieces_of_a_round_are_whole():
    for algorithm, shape in GATHERS:
        for num_ranks in RANKS:
            ask = Ask(collective="all-gather", num_ranks=num_ranks, payload_bytes=4.0 * num_ranks, shape=shape)
            for lane in algorithms[algorithm](ask):
                sizes = [np.asarray(one.num_bytes) for level in lane for one in level.rounds]
                assert all(np.array_equal(size, np.round(size)) for size in sizes)


def test_only_switches_can_add():
    with pytest.raises(NotModelled, match="without switches that add"):
        Dimension(name="x", kind="ring", num_devices=8, link=LINK, is_reducing=True)


def test_a_rank_sends_a_payload_once_where_switches_add():
    assert sent_bytes("all-reduce", 8.0, 4) == 12.0
    assert sent_bytes("all-reduce", 8.0, 4, is_in_switch=True) == 8.0
    assert sent_bytes("all-gather", 8.0, 4, is_in_switch=True) == 2.0
    assert sent_bytes("all-to-all", 8.0, 4, is_in_switch=True) == 6.0


def test_on_an_h100_switches_that_add_are_nvls_and_on_an_a100_links_alone_decide():
    hopper, ampere = (clusters[name].build(8).topology for name in ("dgx-h100", "dgx-a100"))
    [h100] = (Span(dimension=one, num_ranks=8) for one in hopper.with_reducing(True).dimensions if one.num_devices == 8)
    [a100] = (Span(dimension=one, num_ranks=8) for one in ampere.with_reducing(True).dimensions if one.num_devices == 8)
    small = np.array([4096.0])
    assert group_times("all-reduce", small, (h100,)).algorithms == ("NVLS",)
    plain = (Span(dimension=hopper.dimensions[0], num_ranks=8),)
    assert group_times("all-reduce", small, plain).algorithms == ("ring",)
    assert library_s("all-gather", small, (h100,)) == library_s("all-gather", small, plain)
    assert not is_timed_by_library("all-reduce", (a100,))
