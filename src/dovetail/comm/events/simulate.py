"""A program on a network -> its timeline, by the cheapest engine that gives the exact answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from dovetail.comm.events.engine import Simulation, Timeline
from dovetail.comm.events.limits import check_one_by_one
from dovetail.comm.events.lowering import Lowering, record_messages
from dovetail.comm.events.messages import node_times_s
from dovetail.comm.events.network_graph import LinkGraph
from dovetail.comm.events.program import Program
from dovetail.comm.events.recording import Record, Recorder, Watch

Engine = Literal["auto", "one rank", "all ranks", "messages"]


def simulate(graph: LinkGraph, program: Program, engine: Engine = "auto", watch: Watch | None = None) -> Timeline:
    """One device where it stands for all; else all at once; message by message where ranks differ in order.

    "all ranks" never falls back, and says in `is_exact` whether it should have. `watch` asks for a record of what was
    carried and run when, which an answer that is not exact does not have.
    """
    if not program.tasks:  # nothing is sent, whatever the engine
        return Simulation(graph, program, "all ranks", watch).run()
    if engine != "messages":
        timeline = Simulation(graph, program, engine, watch).run()
        if timeline.engine == "one rank" and engine == "auto" and not timeline.is_exact:
            timeline = Simulation(graph, program, "all ranks", watch).run()
        if timeline.is_exact or engine != "auto":
            return timeline
    return _by_message(graph, program, watch)


def _by_message(graph: LinkGraph, program: Program, watch: Watch | None) -> Timeline:
    simulation = Simulation(graph, program, "all ranks")
    timeline = simulation.run()
    check_one_by_one(timeline.num_messages)
    lowering = Lowering(graph, simulation)
    messages = lowering.lower()
    ready_s, start_s, num_events = node_times_s(messages)
    n = graph.num_devices
    spans_s = {
        name: (float(ready_s[lowering.entries[name][:n]].min()), float(ready_s[gates[:n]].max()))
        for name, gates in lowering.exits.items()
    }
    end_s = max((end for _, end in spans_s.values()), default=0.0)
    visits_s = {
        visit: (
            float(ready_s[lowering.visit_entries[visit][:n]].min()),
            float(ready_s[lowering.visit_exits[visit][:n]].max()),
        )
        for visit in timeline.visits_s
    }
    record: tuple[Record, ...] = ()
    if watch is not None:
        recorder = Recorder(graph, simulation.tasks, watch, is_one=False)
        record_messages(recorder, lowering, messages, ready_s, start_s)
        record = (recorder.record(simulation.phase_label),)
    timeline = replace(timeline, visits_s=visits_s, record=record)
    return replace(timeline, end_s=end_s, spans_s=spans_s, num_events=num_events, is_exact=True, engine="messages")
