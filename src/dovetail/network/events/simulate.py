"""A program on a network -> its timeline, by the cheapest engine that gives the exact answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from dovetail.network.events.engine import Simulation, Timeline
from dovetail.network.events.lowering import Lowering
from dovetail.network.events.messages import node_ready_s
from dovetail.network.events.network_graph import LinkGraph
from dovetail.network.events.program import Program

Engine = Literal["auto", "one rank", "all ranks", "messages"]


def simulate(graph: LinkGraph, program: Program, engine: Engine = "auto") -> Timeline:
    """One device where it stands for all; else all at once; message by message where ranks differ in order.

    "all ranks" never falls back, and says in `is_exact` whether it should have.
    """
    if engine != "messages":
        timeline = Simulation(graph, program, engine).run()
        if timeline.is_exact or engine != "auto":
            return timeline
    return _by_message(graph, program)


def _by_message(graph: LinkGraph, program: Program) -> Timeline:
    simulation = Simulation(graph, program, "all ranks")
    timeline = simulation.run()
    lowering = Lowering(graph, simulation)
    ready_s, num_events = node_ready_s(lowering.lower())
    n = graph.num_devices
    spans_s = {
        name: (float(ready_s[lowering.entries[name][:n]].min()), float(ready_s[gates[:n]].max()))
        for name, gates in lowering.exits.items()
    }
    end_s = max((end for _, end in spans_s.values()), default=0.0)
    return replace(timeline, end_s=end_s, spans_s=spans_s, num_events=num_events, is_exact=True, engine="messages")
