"""The phases that decided a collective's end hang together, from its begin to its end."""

from __future__ import annotations

from itertools import pairwise

import pytest

from dovetail.comm.events.decided import critical_visits, visit_label
from dovetail.comm.events.program import Program, Queueing, Receive, Send
from dovetail.comm.events.simulate import simulate
from dovetail.files.network import load_networks
from tests.unit.comm.events.networks import one

GRAPH = load_networks("ring:4@50GB/s,500ns x switch:4@5GB/s,1us")[0].graph


@pytest.mark.parametrize("engine", ["one rank", "all ranks", "messages"])
@pytest.mark.parametrize("num_active_chunks", [1, 2])
def test_each_phase_begins_when_the_one_before_it_ends(engine, num_active_chunks):
    queueing = Queueing(num_active_chunks=num_active_chunks)
    timeline = simulate(GRAPH, Program(tasks=(one("all-reduce", num_chunks=5),), queueing=queueing), engine)
    path = critical_visits(timeline)
    spans_s = [timeline.visits_s[visit] for visit in path]
    assert spans_s[0][0] == 0.0
    assert spans_s[-1][1] == pytest.approx(timeline.end_s, rel=1e-12)
    for (_, end_s), (begin_s, _) in pairwise(spans_s):
        assert begin_s == pytest.approx(end_s, rel=1e-9)


def test_the_slow_dimension_is_on_the_path_and_is_named():
    timeline = simulate(GRAPH, Program(tasks=(one("all-reduce", num_chunks=5),)))
    words = [visit_label(timeline, visit) for visit in critical_visits(timeline)]
    assert words[0] == "chunk 0, reduce-scatter in x"
    assert [f"chunk {chunk}, all-reduce in y" for chunk in range(5)] == words[1:-1]
    assert words[-1] == "chunk 4, all-gather in x"


def test_a_program_without_collectives_has_no_such_path():
    tasks = (Send(name="s", pairs=((0, 1),), payload_bytes=1e6), Receive(name="r", send="s"))
    assert critical_visits(simulate(GRAPH, Program(tasks=tasks))) == ()
