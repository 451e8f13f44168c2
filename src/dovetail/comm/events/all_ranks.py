"""Every rank's clock at once: one level of a schedule is a few array operations over all messages.

A message's head enters a link when both have come, max(head, link free); the link is then taken for bytes/bandwidth;
the tail follows over the slowest link of the way (cut-through). A link serves messages in the order they reach it:
levels are worked through in time order, and `num_out_of_order` counts the messages that reached a link before one
already served there. Messages that come at once go by task, chunk, phase, lane, level, round, hop and rank, so that
what was sent earlier goes first. While the count is 0 the answer is exactly that of a message-by-message simulation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dovetail.comm.events.network_graph import Floats, LinkGraph, switch_of
from dovetail.comm.events.phases import Phase
from dovetail.comm.events.program import Compute, Devices, Send
from dovetail.comm.events.ranks import TOLERANCE_S
from dovetail.comm.events.recording import Recorder
from dovetail.comm.events.routing import routes, switch_links
from dovetail.comm.events.schedules import Ints, Level, Round

_MOST_CACHED = 1 << 21  # link numbers kept in all; all-to-alls beyond that are routed again each time


@dataclass(frozen=True, slots=True, eq=False)
class Hop:
    """One link of each message in `index` (all, when None); `order` sorts messages that share links."""

    index: Ints | None
    links: Ints
    s_per_byte: Floats
    latency_s: Floats
    is_shared: bool


@dataclass(frozen=True, slots=True, eq=False)
class Flights:
    """The messages of one round: who sends, who receives, over which hops."""

    senders: Ints
    source: Ints
    target: Ints
    hops: tuple[Hop, ...]
    has_meeting: bool  # two messages for one vertex
    fastest_s_per_byte: float


class AllRanks:
    """Clocks are arrays over vertices: devices first, then switches."""

    def __init__(self, graph: LinkGraph, devices: Devices) -> None:
        self.graph = graph
        self.recorder: Recorder | None = None
        self.free_s = np.zeros(len(graph.source))
        self.busy_s = np.zeros(len(graph.source))
        self._last_s = np.full(len(graph.source), -1.0)
        self._last_order = np.full(len(graph.source), -1)
        self._order = 0  # of the lane being moved: among messages that come at once, the lowest goes first
        self.num_out_of_order = 0
        self.num_messages = 0
        self.overhead_s = self._per_device(devices.overhead_s, 0.0)
        self._reduce_s_per_byte = self._per_device(devices.reduce_s_per_byte, 0.0)
        self.slowdown = self._per_device(devices.slowdown, 1.0)
        self._has_extra = bool(self.overhead_s.any() or self._reduce_s_per_byte.any())
        self._streams: dict[str, Floats] = {}
        self._stream_last: dict[str, Floats] = {}
        self._flights: dict[tuple[object, ...], tuple[Flights, Phase, Round]] = {}
        self._num_cached = 0
        self._scratch = np.empty(max(len(graph.source), graph.num_vertices), np.int64)

    def _per_device(self, value: float | Floats, at_switches: float) -> Floats:
        column = np.full(self.graph.num_vertices, at_switches)
        column[: self.graph.num_devices] = value
        return column

    def begin(self) -> Floats:
        return np.zeros(self.graph.num_vertices)

    @staticmethod
    def copy(clocks: Floats) -> Floats:
        return clocks.copy()

    @staticmethod
    def later(a: Floats, b: Floats) -> Floats:
        return np.maximum(a, b)

    def first_s(self, clocks: Floats, phase: Phase | None, level: Level | None = None) -> float:
        """When the earliest rank concerned is there: of those who send in `level`, where one is given."""
        if phase is not None and level is not None and level.rounds[0].kind == "listed":
            return min(float(clocks[self.flights_of(phase, round_).source].min()) for round_ in level.rounds)
        if phase is None or phase.groups.size == self.graph.num_devices:
            return float(clocks[: self.graph.num_devices].min())
        return float(clocks[phase.groups].min())

    def last_s(self, clocks: Floats, phase: Phase | None = None) -> float:
        """When the last rank concerned is there."""
        if phase is None or phase.groups.size == self.graph.num_devices:
            return float(clocks[: self.graph.num_devices].max())
        return float(clocks[phase.groups].max())

    def earliest_s(self, clocks: Floats, devices: tuple[int, ...]) -> float:
        return float(clocks[list(devices)].min()) if devices else self.first_s(clocks, None)

    def after_compute(self, clocks: Floats, task: Compute) -> Floats:
        """Clocks once every device named has done the task, one task after the other on its stream."""
        free_s = self._streams.setdefault(task.stream, self.begin())
        where: Ints | slice = np.array(task.devices) if task.devices else slice(0, self.graph.num_devices)
        last_s = self._stream_last.setdefault(task.stream, self.begin())
        self.num_out_of_order += int((clocks[where] + TOLERANCE_S < last_s[where]).sum())
        last_s[where] = clocks[where]
        done = clocks.copy()
        begin_s = np.maximum(clocks[where], free_s[where])
        done[where] = begin_s + task.duration_s * self.slowdown[where]
        free_s[where] = done[where]
        if self.recorder is not None:
            devices = np.arange(self.graph.num_devices)[where]
            self.recorder.ran(task.name, task.stream, devices, clocks[where], begin_s, done[where])
        return done

    def after_send(self, clocks: Floats, task: Send, order: int) -> tuple[Floats, Floats]:
        """Clocks at the senders once the messages have left, and at the receivers once they have come."""
        self._order = order
        pairs = np.array(task.pairs)
        flights = self.routed(pairs[:, 0], pairs[:, 0], pairs[:, 1], routes(self.graph, pairs[:, 0], pairs[:, 1]))
        left, come = clocks.copy(), self.begin()
        sizes_bytes = np.full(len(pairs), task.payload_bytes)
        left_s = np.full(len(pairs), np.nan)
        tail_s = self._fly(flights, clocks[pairs[:, 0]], sizes_bytes, left_s)
        np.maximum.at(left, pairs[:, 0], left_s)
        np.maximum.at(come, pairs[:, 1], tail_s + self.overhead_s[pairs[:, 1]])
        return left, come

    def run_level(self, ready: Floats, phase: Phase, level: Level, order: int) -> Floats:
        """`ready`, moved on in place by one level: every rank has then received all the level sends to it."""
        self._order = order
        base = ready if len(level.rounds) == 1 else ready.copy()
        for round_ in level.rounds:
            flights = self.flights_of(phase, round_)
            sizes_bytes = round_.num_bytes
            sizes_bytes = sizes_bytes if isinstance(sizes_bytes, float) else sizes_bytes[flights.senders]
            head_s = base[flights.source]
            if round_.place == "ranks":  # a message waits for its receiver to be at this level, too
                head_s = np.maximum(head_s, base[flights.target])
            come_s = self._fly(flights, head_s, sizes_bytes)
            if round_.place == "up" or self._has_extra:
                come_s = come_s + self.extra_s(flights, round_)
            if flights.has_meeting:
                np.maximum.at(ready, flights.target, come_s)
            else:
                ready[flights.target] = np.maximum(ready[flights.target], come_s)
        return ready

    def extra_s(self, flights: Flights, round_: Round) -> Floats:
        """What comes between the tail of each message and its use: the device's overhead and its sum.

        A switch sends on while it still receives, so there it is negative: the least time that sending on takes of
        what it sends on.
        """
        if round_.place == "up":
            return np.full(flights.target.shape, -round_.sent_on_bytes * flights.fastest_s_per_byte)
        sizes_bytes = round_.num_bytes if isinstance(round_.num_bytes, float) else round_.num_bytes[flights.senders]
        added_s = self.overhead_s[flights.target]
        return added_s + sizes_bytes * self._reduce_s_per_byte[flights.target] if round_.is_reduced else added_s

    def _fly(
        self, flights: Flights, head_s: Floats, sizes_bytes: float | Floats, left_s: Floats | None = None
    ) -> Floats:
        """When the tail of each message arrives; takes the links it passes, and notes in `left_s` when it has left."""
        self.num_messages += len(head_s)
        tail_s = head_s
        for hop in flights.hops:
            here = slice(None) if hop.index is None else hop.index
            taken_s = hop.s_per_byte * (sizes_bytes if isinstance(sizes_bytes, float) else sizes_bytes[here])
            arrive_s = head_s[here]
            if hop.is_shared:
                start_s = self._in_turn(hop.links, arrive_s, taken_s)
            else:
                start_s = np.maximum(arrive_s, self.free_s[hop.links])
                self._note_order(hop.links, arrive_s)
                self.free_s[hop.links] = start_s + taken_s
                self.busy_s[hop.links] += taken_s
            if self.recorder is not None:
                self.recorder.carried(hop.links, flights.source[here], start_s, taken_s)
            if left_s is not None:
                left_s[here] = np.where(np.isnan(left_s[here]), start_s + taken_s, left_s[here])
            end_s = np.maximum(start_s + taken_s, tail_s[here]) + hop.latency_s
            if hop.index is None:
                head_s, tail_s = start_s + hop.latency_s, end_s
            else:
                head_s, tail_s = head_s.copy(), tail_s.copy()
                head_s[here], tail_s[here] = start_s + hop.latency_s, end_s
        return tail_s

    def _note_order(self, links: Ints, arrive_s: Floats) -> None:
        """Counts messages that come before one already served, or with one that should have gone after them."""
        ahead_s = arrive_s - self._last_s[links]
        if ahead_s.min() <= TOLERANCE_S:
            is_tie = abs(ahead_s) <= TOLERANCE_S
            is_wrong = np.where(is_tie, self._last_order[links] > self._order, ahead_s < 0)
            self.num_out_of_order += int(is_wrong.sum())
        self._last_s[links] = arrive_s
        self._last_order[links] = self._order

    def _in_turn(self, links: Ints, arrive_s: Floats, taken_s: Floats) -> Floats:
        """Starts of messages of which several want one link at once: first come, first served, then by number."""
        order = np.lexsort((np.arange(len(links)), arrive_s, links))
        sorted_links = links[order]
        is_first = np.r_[True, sorted_links[1:] != sorted_links[:-1]]
        place = np.arange(len(links)) - np.maximum.accumulate(np.where(is_first, np.arange(len(links)), 0))
        start_s = np.empty(len(links))
        for turn in range(int(place.max()) + 1):
            now = order[place == turn]
            start_s[now] = np.maximum(arrive_s[now], self.free_s[links[now]])
            self._note_order(links[now], arrive_s[now])
            self.free_s[links[now]] = start_s[now] + taken_s[now]
            self.busy_s[links[now]] += taken_s[now]
        return start_s

    def flights_of(self, phase: Phase, round_: Round) -> Flights:
        pattern = round_.offset if round_.kind != "listed" else id(round_.listed)
        key = (id(phase.groups), round_.kind, pattern, round_.place)
        if key not in self._flights:
            flights = self._new_flights(phase, round_)
            size = sum(len(hop.links) for hop in flights.hops)
            if self._num_cached + size > _MOST_CACHED:
                return flights
            self._num_cached += size
            self._flights[key] = (flights, phase, round_)  # phase and round are kept so that ids stay theirs
        return self._flights[key][0]

    def _new_flights(self, phase: Phase, round_: Round) -> Flights:
        groups = phase.groups
        peers = round_.peers(groups.shape[1])
        active = np.flatnonzero(peers >= 0)
        senders = np.tile(active, len(groups))
        source, target = groups[:, active].ravel(), groups[:, peers[active]].ravel()
        if round_.place == "ranks":
            return self.routed(senders, source, target, routes(self.graph, source, target))
        assert phase.block is not None, phase
        links = switch_links(phase.block, source, round_.place == "up")
        switch = switch_of(phase.block, source)
        if round_.place == "up":
            flights = self.routed(senders, source, switch, links)
            rates = self.graph.bandwidth_bytes_per_s[np.concatenate([links, switch_links(phase.block, source, False)])]
            return replace(flights, fastest_s_per_byte=1 / float(rates.max()))
        return self.routed(senders, switch, source, links)

    def routed(self, senders: Ints, source: Ints, target: Ints, links: Ints) -> Flights:
        hops = []
        for row in links:
            index = None if (row >= 0).all() else np.flatnonzero(row >= 0)
            used = row if index is None else row[index]
            s_per_byte = 1 / self.graph.bandwidth_bytes_per_s[used]
            is_shared = self._has_twice(used)
            hops.append(Hop(index, used, s_per_byte, self.graph.latency_s[used], is_shared))
        has_meeting = self._has_twice(target)
        fastest = min((float(hop.s_per_byte.min()) for hop in hops), default=0.0)
        return Flights(senders, source, target, tuple(hops), has_meeting, fastest)

    def _has_twice(self, numbers: Ints) -> bool:
        places = np.arange(len(numbers))
        self._scratch[numbers] = places
        return bool((self._scratch[numbers] != places).any())
