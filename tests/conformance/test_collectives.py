"""Every collective gives times, and every collective algorithm a schedule by which all that must arrive does."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dovetail.comm.collectives import checked_times_s, collectives
from dovetail.comm.events.bounds import port_bound_s
from dovetail.comm.events.network_graph import network_graph
from dovetail.comm.events.schedules import ROOTED, Ask, Schedule, algorithms
from dovetail.comm.one_collective import COLLECTIVES
from dovetail.errors import NotModelled
from dovetail.hardware.link import Link
from dovetail.hardware.topology import DIMENSION_KINDS, Dimension, Group, Span
from dovetail.units import GIGA, MEBI, MICRO
from tests.unit.comm.events.networks import PAYLOAD_BYTES, dimension, end_s, one

NUM_RANKS = (2, 3, 4, 7, 8)
ASKS = [
    Ask(collective=collective, num_ranks=num_ranks, payload_bytes=MEBI, shape=shape, root=num_ranks // 2)
    for collective in dict.fromkeys((*COLLECTIVES, *collectives.names()))
    for num_ranks in NUM_RANKS
    for shape in ("one-way", "two-way", "line", "any")
]


def group_of(kind: str, num_ranks: int, rate: float = GIGA, latency_s: float = MICRO) -> Group:
    link = Link(bandwidth_bytes_per_s=rate, latency_s=latency_s)
    return (Span(dimension=Dimension(name="x", kind=kind, num_devices=num_ranks, link=link), num_ranks=num_ranks),)


def times_s(name: str, payload_bytes, kind: str, num_ranks: int, link_frac: float = 1.0, **link: float):
    """None where the collective does not model this."""
    try:
        return collectives[name](payload_bytes, group_of(kind, num_ranks, **link), link_frac)
    except NotModelled:
        return None


def networks_of(name: str) -> list[tuple[str, int]]:
    found = [(k, n) for k in DIMENSION_KINDS for n in NUM_RANKS if times_s(name, MEBI, k, n) is not None]
    assert found, f"{name} is modelled nowhere"
    return found


@pytest.mark.parametrize("name", collectives.names())
def test_many_payloads_at_once_take_what_they_take_one_by_one(name):
    payloads = np.array([0.0, 1.0, MEBI, GIGA])
    for kind, num_ranks in networks_of(name):
        together = checked_times_s(name, payloads, times_s(name, payloads, kind, num_ranks))
        assert together == pytest.approx([times_s(name, each, kind, num_ranks) for each in payloads.tolist()])


@pytest.mark.parametrize("name", collectives.names())
def test_more_payload_is_never_faster_and_more_bandwidth_or_less_latency_never_slower(name):
    for kind, num_ranks in networks_of(name):
        time_s = times_s(name, MEBI, kind, num_ranks)
        assert time_s > 0
        assert times_s(name, 2 * MEBI, kind, num_ranks) >= time_s
        assert times_s(name, MEBI, kind, num_ranks, rate=2 * GIGA) <= time_s
        assert times_s(name, MEBI, kind, num_ranks, latency_s=0.0) <= time_s
        assert times_s(name, MEBI, kind, num_ranks, link_frac=0.5) >= time_s


@pytest.mark.parametrize("name", collectives.names())
def test_a_group_of_one_exchanges_nothing(name):
    assert collectives[name](MEBI, (), 1.0) == 0.0


def schedules_of(name: str) -> list[tuple[Ask, Schedule]]:
    found = []
    for ask in ASKS:
        try:
            found.append((ask, algorithms[name](ask)))
        except NotModelled:
            continue
    assert found, f"{name} models no collective"
    return found


def adds_in_switches(schedule: Schedule) -> bool:
    return any(round_.place != "ranks" for lane in schedule for level in lane for round_ in level.rounds)


def sent(schedule: Schedule, num_ranks: int):
    """Sender, receiver and bytes of every message, lane by lane; a list of levels each, repeats written out."""
    for lane in schedule:
        levels = []
        for level in lane:
            messages = []
            for round_ in level.rounds:
                sizes = np.broadcast_to(np.asarray(round_.num_bytes, float), (num_ranks,)).tolist()
                peers = round_.peers(num_ranks).tolist()
                messages += [(r, peer, sizes[r]) for r, peer in enumerate(peers) if peer >= 0]
            levels += [messages] * level.repeat
        yield levels


@pytest.mark.parametrize("name", algorithms.names())
def test_messages_go_to_others_of_the_group_and_hold_something(name):
    for ask, schedule in schedules_of(name):
        is_switched = adds_in_switches(schedule)
        for levels in sent(schedule, ask.num_ranks):
            for sender, receiver, num_bytes in (message for messages in levels for message in messages):
                assert 0 <= receiver < ask.num_ranks, ask
                assert is_switched or sender != receiver, ask
                assert 0 < num_bytes < math.inf, ask


def heard_of(schedule: Schedule, num_ranks: int) -> list[set[int]]:
    """Whose data each rank may have in what it holds at the end, by any lane."""
    every: list[set[int]] = [{rank} for rank in range(num_ranks)]
    for levels in sent(schedule, num_ranks):
        held: list[set[int]] = [{rank} for rank in range(num_ranks)]
        for messages in levels:
            before = [set(of) for of in held]
            for sender, receiver, _ in messages:
                held[receiver] |= before[sender]
        every = [a | b for a, b in zip(every, held, strict=True)]
    return every


@pytest.mark.parametrize("name", algorithms.names())
def test_what_must_be_heard_of_arrives(name):
    for ask, schedule in schedules_of(name):
        if adds_in_switches(schedule):
            continue
        heard, ranks = heard_of(schedule, ask.num_ranks), set(range(ask.num_ranks))
        if ask.collective in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all"):
            assert all(of == ranks for of in heard), ask
        if ask.collective == "broadcast":
            assert all(ask.root in of for of in heard), ask
        if ask.collective == "reduce":
            assert heard[ask.root] == ranks, ask


def least_bytes(ask: Ask) -> tuple[float, float, float]:
    """What each rank must send and receive (each but the root, where there is one), and all together receive."""
    n, payload = ask.num_ranks, ask.payload_bytes
    part = payload * (n - 1) / n
    return {
        "all-gather": (payload / n, part, n * part),
        "reduce-scatter": (part, payload / n, n * part),
        "all-reduce": (part, part, 2 * n * part),
        "all-to-all": (part, part, n * part),
        "broadcast": (0.0, payload, (n - 1) * payload),
        "reduce": (payload, 0.0, (n - 1) * payload),
    }.get(ask.collective, (0.0, 0.0, 0.0))


@pytest.mark.parametrize("name", algorithms.names())
def test_no_fewer_bytes_are_moved_than_any_algorithm_must(name):
    for ask, schedule in schedules_of(name):
        if adds_in_switches(schedule):
            continue
        out, into = np.zeros(ask.num_ranks), np.zeros(ask.num_ranks)
        for levels in sent(schedule, ask.num_ranks):
            for sender, receiver, num_bytes in (message for messages in levels for message in messages):
                out[sender] += num_bytes
                into[receiver] += num_bytes
        others = (np.arange(ask.num_ranks) != ask.root) | (ask.collective not in ROOTED)
        less = 1 - 1e-9
        least = least_bytes(ask)
        assert (out[others] >= least[0] * less).all(), ask
        assert (into[others] >= least[1] * less).all(), ask
        assert into.sum() >= least[2] * less, ask


@pytest.mark.parametrize("name", algorithms.names())
def test_events_take_no_less_than_the_ports_need_and_twice_the_payload_no_less(name):
    graph = network_graph((dimension("x", "switch", 7),))
    groups = np.arange(7)[None, :]
    asked = {
        ask.collective: schedule for ask, schedule in schedules_of(name) if (ask.num_ranks, ask.shape) == (7, "any")
    }
    for collective in (each for each in COLLECTIVES if each in asked and each != "point-to-point"):
        reducing = ("x",) if adds_in_switches(asked[collective]) else ()
        took_s, twice_s = (
            end_s(graph, one(collective, size, name), engine="messages") for size in (PAYLOAD_BYTES, 2 * PAYLOAD_BYTES)
        )
        assert took_s >= port_bound_s(collective, PAYLOAD_BYTES, groups, graph, (), reducing) * (1 - 1e-9)
        assert twice_s >= took_s
