"""A program and the order its chunks were admitted in -> one graph of messages, work and gates."""

from __future__ import annotations

import numpy as np

from dovetail.comm.events.all_ranks import AllRanks, Flights
from dovetail.comm.events.engine import Simulation, Visit
from dovetail.comm.events.messages import Floats, Ints, MessageGraph
from dovetail.comm.events.network_graph import LinkGraph
from dovetail.comm.events.phases import Phase
from dovetail.comm.events.program import Collective, Compute, Receive, Send, waits
from dovetail.comm.events.recording import Now, Recorder
from dovetail.comm.events.routing import routes


class Lowering:
    """Collects nodes and edges column by column; node numbers follow the order of tasks."""

    def __init__(self, graph: LinkGraph, simulation: Simulation) -> None:
        self.graph, self.simulation = graph, simulation
        self.ranks = AllRanks(graph, simulation.program.devices)  # routes and device speeds only
        self.num_nodes = 0
        self.edges: list[tuple[Ints, Ints]] = []
        self.hops: list[tuple[Ints, Ints, Floats, Floats]] = []  # node, resource, taken, latency: in order of hops
        self.extra: list[tuple[Ints, Floats]] = []
        self.left: list[tuple[Ints, Ints]] = []
        self.orders: list[tuple[int, int]] = []  # (first node, order) of runs of nodes
        self.names: list[tuple[int, str]] = []
        self.receives: dict[str, list[str]] = {}
        for task in simulation.tasks:
            if isinstance(task, Receive):
                self.receives.setdefault(task.send, []).append(task.name)
        self.streams: dict[str, int] = {}
        self.now: Now = (0, 0, 0, 0, 0)
        self.sent: list[tuple[Now, Ints, Ints]] = []  # what for, nodes, and who sends each
        self.ran: list[tuple[Compute, Ints]] = []  # task, and its nodes
        self.entries: dict[str, Ints] = {}
        self.exits: dict[str, Ints] = {}
        self.visit_entries: dict[Visit, Ints] = {}
        self.visit_exits: dict[Visit, Ints] = {}

    def gates(self, count: int) -> Ints:
        self.num_nodes += count
        return np.arange(self.num_nodes - count, self.num_nodes)

    def lower(self) -> MessageGraph:
        width = self.graph.num_vertices
        for number, task in enumerate(self.simulation.tasks):
            self.orders.append((self.num_nodes, self.simulation.first_order[number]))
            self.names.append((self.num_nodes, task.name))
            self.entries[task.name], self.exits[task.name] = self.gates(width), self.gates(width)
            if isinstance(task, Collective):
                self._collective(number, task)
            elif isinstance(task, Compute):
                self._compute(task)
            elif isinstance(task, Receive):
                self.edges.append((self.entries[task.name], self.exits[task.name]))
        for number, task in enumerate(self.simulation.tasks):
            if isinstance(task, Send):
                self.orders.append((self.num_nodes, self.simulation.first_order[number]))
                self.names.append((self.num_nodes, task.name))
                self.now = (number, 0, 0, 0, 0)
                self._send(task)
            for name in set(waits(task)):
                if not (isinstance(task, Receive) and task.send == name and name not in task.after):
                    self.edges.append((self.exits[name], self.entries[task.name]))
        for visit, before in self.simulation.visits:
            if before is not None:
                self.edges.append((self.visit_exits[before], self.visit_entries[visit]))
        return self._columns()

    def _compute(self, task: Compute) -> None:
        entry, leave = self.entries[task.name], self.exits[task.name]
        first = self.streams.setdefault(task.stream, len(self.streams)) * self.graph.num_devices
        where = np.array(task.devices) if task.devices else np.arange(self.graph.num_devices)
        work = self.gates(len(where))
        self.ran.append((task, work))
        taken_s = task.duration_s * self.ranks.slowdown[where]
        streams = len(self.graph.source) + first + where
        self.hops.append((work, streams, taken_s, np.zeros(len(where))))
        self.edges += [(entry[where], work), (work, leave[where]), (entry, leave)]

    def _send(self, task: Send) -> None:
        pairs = np.array(task.pairs)
        source, target = pairs[:, 0], pairs[:, 1]
        flights = self.ranks.routed(source, source, target, routes(self.graph, source, target))
        entry, leave = self.entries[task.name], self.exits[task.name]
        sent = self._messages(flights, task.payload_bytes, self.ranks.overhead_s[target])
        self.edges += [(entry[source], sent), (entry, leave)]
        self.left.append((sent, leave[source]))
        for receive in self.receives.get(task.name, ()):
            self.edges.append((sent, self.entries[receive][target]))

    def _collective(self, index: int, task: Collective) -> None:
        for chunk, phases in enumerate(self.simulation.phases[task.name]):
            at = self.entries[task.name]
            self.orders.append((self.num_nodes, self.orders[-1][1] + (chunk > 0)))
            for number, phase in enumerate(phases):
                visit = (task.name, chunk, number)
                entry, leave = self.gates(len(at)), self.gates(len(at))
                self.visit_entries[visit], self.visit_exits[visit] = entry, leave
                self.edges.append((at, entry))
                self.now = (index, chunk, number, 0, 0)
                self._lanes(phase, entry, leave)
                at = leave
            self.edges.append((at, self.exits[task.name]))

    def _lanes(self, phase: Phase, entry: Ints, leave: Ints) -> None:
        for number, lane in enumerate(phase.schedule):
            at, step = entry, 0
            for level in lane:
                for _ in range(level.repeat):
                    self.now, step = (*self.now[:3], number, step), step + 1
                    flown = [self.ranks.flights_of(phase, round_) for round_ in level.rounds]
                    is_plain = len(flown) == 1 and level.rounds[0].place == "ranks" and not flown[0].has_meeting
                    later = at.copy() if is_plain else self._later(at, flown)
                    for round_, flights in zip(level.rounds, flown, strict=True):
                        extra_s = self.ranks.extra_s(flights, round_)
                        sizes_bytes = round_.num_bytes
                        if not isinstance(sizes_bytes, float):
                            sizes_bytes = sizes_bytes[flights.senders]
                        sent = self._messages(flights, sizes_bytes, extra_s)
                        self.edges.append((at[flights.source], sent))
                        if is_plain:  # a message opens what waits for it: no gate between them
                            later[flights.target] = sent
                        else:
                            self.edges.append((sent, later[flights.target]))
                        if round_.place == "ranks":
                            self.edges.append((at[flights.target], sent))
                        else:  # which does not wait for its receiver
                            self.edges.append((at[flights.target], later[flights.target]))
                    at = later
            self.edges.append((at, leave))

    def _later(self, at: Ints, flown: list[Flights]) -> Ints:
        """The gates after a level: new ones for those who receive in it."""
        is_target = np.zeros(len(at), bool)
        for flights in flown:
            is_target[flights.target] = True
        later = at.copy()
        later[is_target] = self.gates(int(is_target.sum()))
        return later

    def _messages(self, flights: Flights, sizes_bytes: float | Floats, extra_s: Floats) -> Ints:
        sent = self.gates(len(flights.source))
        self.sent.append((self.now, sent, flights.source))
        sizes_bytes = np.broadcast_to(np.asarray(sizes_bytes, float), sent.shape)
        for hop in flights.hops:
            nodes = sent if hop.index is None else sent[hop.index]
            sizes = sizes_bytes if hop.index is None else sizes_bytes[hop.index]
            self.hops.append((nodes, hop.links, hop.s_per_byte * sizes, hop.latency_s))
        self.extra.append((sent, np.broadcast_to(extra_s, sent.shape)))
        return sent

    def _columns(self) -> MessageGraph:
        source, target = (np.concatenate(part) for part in zip(*self.edges, strict=True))
        num_waits = np.bincount(target, minlength=self.num_nodes)
        left = np.full(self.num_nodes, -1, np.int64)
        for sent, gate in self.left:
            left[sent] = gate
            np.add.at(num_waits, gate, 1)
        extra_s = np.zeros(self.num_nodes)
        for nodes, values in self.extra:
            extra_s[nodes] = values
        first_next, by_source = _csr(source, self.num_nodes)
        hops = [np.concatenate(part) for part in zip(*self.hops, strict=True)] if self.hops else [np.empty(0, int)] * 4
        first_hop, by_node = _csr(hops[0], self.num_nodes)
        starts, orders = zip(*self.orders, strict=True)
        order = np.repeat(np.array(orders), np.diff([*starts, self.num_nodes]))
        nodes = hops[0][by_node]
        return MessageGraph(
            num_resources=len(self.graph.source) + len(self.streams) * self.graph.num_devices, num_waits=num_waits,
            first_next=first_next, next_node=target[by_source], first_hop=first_hop, resource=hops[1][by_node],
            taken_s=hops[2][by_node], latency_s=hops[3][by_node], extra_s=extra_s, left=left,
            node=nodes, turn=np.argsort(np.lexsort((by_node, order[nodes]))), label=self._label,
        )  # fmt: skip

    def _label(self, node: int) -> str:
        first, name = max(pair for pair in self.names if pair[0] <= node)
        return f"{name} at rank {(node - first) % self.graph.num_vertices}"


def record_messages(
    recorder: Recorder, lowering: Lowering, graph: MessageGraph, ready_s: Floats, start_s: Floats
) -> None:
    """Tells `recorder` what a run of `graph` carried and ran: hops began at `start_s`, nodes ready at `ready_s`."""
    num_links, num_devices = len(lowering.graph.source), lowering.graph.num_devices
    for now, nodes, senders in lowering.sent:
        recorder.now = now
        counts = graph.first_hop[nodes + 1] - graph.first_hop[nodes]
        for hop in range(int(counts.max(initial=0))):
            is_on = counts > hop
            at = graph.first_hop[nodes[is_on]] + hop
            recorder.carried(graph.resource[at], senders[is_on], start_s[at], graph.taken_s[at])
    for task, nodes in lowering.ran:
        at = graph.first_hop[nodes]
        devices = (graph.resource[at] - num_links) % num_devices
        recorder.ran(task.name, task.stream, devices, ready_s[nodes], start_s[at], start_s[at] + graph.taken_s[at])
    for name, gates in lowering.entries.items():
        recorder.began(name, ready_s[gates])
        recorder.ended(name, ready_s[lowering.exits[name]])


def _csr(keys: Ints, num_rows: int) -> tuple[Ints, Ints]:
    order = np.argsort(keys, kind="stable")
    first = np.zeros(num_rows + 1, np.int64)
    np.cumsum(np.bincount(keys, minlength=num_rows), out=first[1:])
    return first, order
