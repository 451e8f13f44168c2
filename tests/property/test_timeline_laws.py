"""Timelines over random networks: nothing is lost, nothing overlaps, and counters add up to what links were busy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.comm.events.network_graph import network_graph
from dovetail.comm.events.program import Compute, Program, Queueing
from dovetail.comm.events.recording import Watch, link_owners
from dovetail.comm.events.simulate import simulate
from dovetail.report.tracks import device_processes
from tests.unit.comm.events.networks import dimensions, one
from tests.unit.comm.events.test_recording import check_adds_up

COLLECTIVES = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast")


@st.composite
def runs(draw):
    graph = network_graph(draw(dimensions(max_dimensions=2, max_devices=4)))
    if draw(st.booleans()):
        link = draw(st.sampled_from(np.flatnonzero(graph.is_alive).tolist()))
        graph = graph.with_link_scaled(int(graph.source[link]), int(graph.target[link]), 0.5)
    first = one(draw(st.sampled_from(COLLECTIVES)), num_chunks=draw(st.integers(1, 3)))
    work = Compute(name="work", duration_s=draw(st.sampled_from((0.0, 1e-4))), devices=(0,))
    tasks = (first, work) if draw(st.booleans()) else (first,)
    queueing = Queueing(num_active_chunks=draw(st.integers(1, 2)))
    return graph, Program(tasks=tasks, queueing=queueing)


@settings(max_examples=20, deadline=None)
@given(run=runs())
def test_slices_add_up_and_counters_with_them(run):
    graph, program = run
    timeline = simulate(graph, program, watch=Watch())
    check_adds_up(timeline, graph)
    [record] = timeline.record
    processes = device_processes(record, graph, {})
    shown = sum(len(track.slices) for process in processes for track in process.tracks)
    assert shown == len(record.links.link) + len(record.streams)
    for process in processes:
        for track in process.tracks:
            ends_s = [0.0, *(one.end_s for one in track.slices)]
            assert all(one.begin_s >= end_s - 1e-15 for one, end_s in zip(track.slices, ends_s, strict=False))
    seen = np.isin(link_owners(graph), record.devices)
    first = 0
    for block in graph.blocks:
        last = first + block.num_links * (graph.num_devices // block.num_devices)
        own = np.zeros(len(seen), bool)
        own[first:last] = (seen & graph.is_alive)[first:last]
        if record.num_identical > 1:
            own &= np.isin(np.arange(len(own)), record.links.link)
        points = [c.points for c in processes[-1].counters if c.name == f"{block.name}: links busy"]
        for mean in [np.mean([value for _, value in own_points[:-1]]) / 100 for own_points in points]:
            assert mean == pytest.approx(timeline.link_busy_s[own].mean() / timeline.end_s, rel=1e-6)
        first = last
