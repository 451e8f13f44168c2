"""What is recorded of a run adds up to what the run answers, by every engine."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.comm.events.program import Collective, Compute, Devices, Program, Receive, Send
from dovetail.comm.events.recording import COMMUNICATION, Watch, link_owners
from dovetail.comm.events.simulate import simulate
from dovetail.errors import InvalidInput
from dovetail.files.network import load_networks
from tests.unit.comm.events.networks import one

WATCH = Watch()
ALIKE = {
    "ring": ("ring:6@50GB/s,500ns", "all-reduce", ""),
    "one-way ring": ("uniring:5@50GB/s,500ns", "all-to-all", ""),
    "hops over a ring": ("ring:7@50GB/s,500ns", "all-gather", "halving-doubling"),
    "halving": ("switch:8@50GB/s,500ns", "reduce-scatter", "halving-doubling"),
    "shifts through a switch": ("switch:6@50GB/s,500ns", "all-to-all", "direct"),
    "in the switch": ("switch:6@50GB/s,500ns", "all-reduce", "in-switch"),
    "all joined": ("fully-connected:5@50GB/s,500ns", "all-gather", ""),
    "two dimensions": ("ring:4@50GB/s,500ns x switch:4@25GB/s,1us", "all-reduce", ""),
    "two rings": ("ring:3@50GB/s,500ns x ring:5@25GB/s,1us", "all-to-all", "halving-doubling"),
}


def graph_of(topology):
    return load_networks(topology)[0].graph


def rows(record, links):
    """Slices on `links` as sorted tuples, times in picoseconds."""
    slices = record.links
    keep = np.isin(slices.link, links)
    columns = (slices.link, slices.task, slices.chunk, slices.phase, slices.lane, slices.step, slices.sender)
    times = (np.round(slices.begin_s * 1e12), np.round(slices.taken_s * 1e12))
    return sorted(zip(*(column[keep].tolist() for column in (*columns, *times)), strict=True))


def check_adds_up(timeline, graph):
    [record] = timeline.record
    slices = record.links
    carried_s = np.bincount(slices.link, slices.taken_s, minlength=len(graph.source))
    seen = np.isin(link_owners(graph), record.devices)
    assert carried_s[seen] == pytest.approx(timeline.link_busy_s[seen], rel=1e-9)
    assert not carried_s[~seen].any()
    is_next = slices.link[1:] == slices.link[:-1]
    assert (slices.begin_s[1:][is_next] >= slices.end_s[:-1][is_next] - 1e-15).all(), "a link carries two at once"
    assert max(one.end_s for one in record.streams) == pytest.approx(timeline.end_s, rel=1e-12)
    assert slices.end_s.max() <= timeline.end_s * (1 + 1e-9)


@pytest.mark.parametrize("case", ALIKE)
def test_one_device_records_what_all_of_them_and_single_messages_record_of_its_links(case):
    topology, collective, algorithm = ALIKE[case]
    graph = graph_of(topology)
    program = Program(tasks=(one(collective, algorithm=algorithm, num_chunks=3),))
    quick, full, single = (simulate(graph, program, engine, WATCH) for engine in ("auto", "all ranks", "messages"))
    assert quick.engine == "one rank"
    assert quick.record[0].num_identical == graph.num_devices
    for timeline in (quick, full, single):
        check_adds_up(timeline, graph)
    own = np.unique(quick.record[0].links.link)
    assert set(link_owners(graph)[own]) == {0}
    assert rows(quick.record[0], own) == rows(full.record[0], own)
    everything = np.arange(len(graph.source))
    assert rows(full.record[0], everything) == rows(single.record[0], everything)


def test_ranks_that_meet_at_links_in_different_orders_are_recorded_message_by_message():
    graph = graph_of("ring:6@50GB/s,500ns").with_link_scaled(0, 1, 0.3)
    tasks = (
        Compute(name="late", duration_s=3e-5, devices=(2, 3)),
        Collective(name="a", collective="all-reduce", payload_bytes=4e6, after=("late",)),
        Collective(name="b", collective="all-to-all", payload_bytes=3e6, groups=((0, 2, 4), (1, 3, 5))),
        Send(name="s", pairs=((0, 3), (1, 4)), payload_bytes=1e6),
        Receive(name="r", send="s", after=("late",)),
    )
    timeline = simulate(graph, Program(tasks=tasks), watch=WATCH)
    assert timeline.engine == "messages"
    check_adds_up(timeline, graph)
    [record] = timeline.record
    assert {one.device for one in record.streams if one.task == "s"} == {0, 1}
    received = {one.device: one for one in record.streams if one.task == "r"}
    assert set(received) == {3, 4}
    assert received[3].begin_s == pytest.approx(3e-5)
    assert received[4].begin_s == 0.0


@pytest.mark.parametrize("engine", ["all ranks", "messages"])
def test_streams_run_one_task_after_the_other_and_say_how_long_each_waited(engine):
    graph = graph_of("ring:4@50GB/s,500ns")
    slowdown = np.array([1.0, 2.0, 1.0, 1.0])
    tasks = (
        Compute(name="a", duration_s=1e-3),
        Compute(name="b", duration_s=2e-3),
        Collective(name="c", collective="all-reduce", payload_bytes=1e6, after=("a",)),
    )
    timeline = simulate(graph, Program(tasks=tasks, devices=Devices(slowdown=slowdown)), engine, WATCH)
    [record] = timeline.record
    ran = {(one.device, one.task): one for one in record.streams}
    assert len(record.streams) == 12
    assert ran[1, "a"].begin_s == 0.0
    assert ran[1, "a"].end_s == pytest.approx(2e-3)
    second = ran[1, "b"]
    assert second.ready_s == 0.0
    assert second.begin_s == pytest.approx(2e-3)
    assert second.end_s == pytest.approx(6e-3)
    assert ran[0, "c"].stream == COMMUNICATION
    assert ran[0, "c"].begin_s == pytest.approx(1e-3)
    assert ran[1, "c"].begin_s == pytest.approx(2e-3)


def test_only_the_devices_named_are_recorded():
    graph = graph_of("ring:8@50GB/s,500ns").with_link_scaled(5, 6, 0.5)
    program = Program(tasks=(one("all-reduce"),))
    watched = simulate(graph, program, watch=Watch(devices=(6, 2, 2)))
    full = simulate(graph, program, watch=WATCH)
    check_adds_up(watched, graph)
    [record] = watched.record
    assert record.devices == (2, 6)
    own = np.flatnonzero(np.isin(link_owners(graph), [2, 6]))
    assert rows(record, own) == rows(full.record[0], own)
    assert {one.device for one in record.streams} == {2, 6}


def test_too_many_slices_are_refused_with_their_number_and_the_way_out():
    graph = graph_of("ring:8@50GB/s,500ns").with_link_scaled(5, 6, 0.5)
    program = Program(tasks=(one("all-reduce"),))
    num_slices = 8 * 2 * 14 + 8  # two ways round, 2(n-1) steps, and the collective at each device
    for engine in ("auto", "messages"):
        with pytest.raises(InvalidInput, match=rf"has {num_slices} slices, and at most 100 .*--ranks"):
            simulate(graph, program, engine, Watch(most_slices=100))
        timeline = simulate(graph, program, engine, Watch(most_slices=num_slices))
        [record] = timeline.record
        assert len(record.links.link) + len(record.streams) == num_slices


def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(InvalidInput, match="devices 0 to 3; got 4"):
        simulate(graph_of("mesh:4@50GB/s,500ns"), Program(tasks=(one("all-reduce"),)), watch=Watch(devices=(4,)))


def test_nothing_is_recorded_unasked():
    assert simulate(graph_of("ring:4@50GB/s,500ns"), Program(tasks=(one("all-reduce"),))).record == ()
