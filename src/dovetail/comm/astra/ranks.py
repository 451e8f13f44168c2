"""ASTRA-sim's workload layer for ranks that each have a trace of their own, in ticks.

Of each rank one kernel, one processor call and one collective or send are in flight; receives hold nothing. Of the
nodes whose dependencies are met the lowest id goes first. A collective takes its time from when its last member is
there. What never ends is an error that names the rank and the node, where ASTRA-sim stops without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from dovetail.comm.trace.nodes import Rank, TraceNode, at
from dovetail.errors import InvalidInput

KERNEL, COMMUNICATION, PROCESSOR, NOTHING = 0, 1, 2, 3
Place = tuple[int, int]  # rank, and index of the node in its trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long things take: kernels, collectives in their group, messages; and who is in a collective's group."""

    run_ticks: Callable[[TraceNode, int], int]
    collective_ticks: Callable[[TraceNode, int, tuple[int, ...]], int]
    message_ticks: Callable[[int, int, int], int]
    members: Callable[[TraceNode, int], tuple[int, ...]]


@dataclass(slots=True)
class _State:
    """One rank under way."""

    nodes: Rank
    missing: list[int]
    users: list[list[int]]
    ready: tuple[list[tuple[int, int]], ...] = field(default_factory=lambda: ([], [], [], []))
    is_free: list[bool] = field(default_factory=lambda: [True] * 4)
    num_done: int = 0
    end_ticks: int = 0
    run_ticks: int = 0


class AstraRanks:
    """One run of all ranks."""

    def __init__(self, ranks: Sequence[Rank], timing: Timing, *, is_recorded: bool = False) -> None:
        self._timing, self._now_ticks = timing, 0
        self._states = [_state(nodes) for nodes in ranks]
        self._events: list[tuple[int, int, Place]] = []
        self._num_events = 0
        self._joined: dict[tuple[tuple[int, ...], int], list[Place]] = {}
        self._turns: dict[tuple[tuple[int, ...], int], int] = {}
        self._sent: dict[tuple[int, int, int], list[tuple[int, Place]]] = {}  # arrivals not yet received
        self._receives: dict[tuple[int, int, int], list[Place]] = {}
        self._is_recorded = is_recorded
        self.begun_ticks: dict[Place, int] = {}  # of every node, where that is recorded; the same of ends
        self.ended_ticks: dict[Place, int] = {}
        self._awaited: dict[Place, tuple[int, int, int]] = {}  # what each receive under way is waiting for

    def run(self) -> list[tuple[int, int]]:
        """(end, ticks spent in kernels) of every rank."""
        for rank, state in enumerate(self._states):
            for index, count in enumerate(state.missing):
                if not count:
                    self._make_ready(state, index)
            self._start(rank)
        while self._events:
            self._now_ticks, _, (rank, index) = heappop(self._events)
            self._finish(rank, index)
            self._start(rank)
        self._check_finished()
        return [(state.end_ticks, state.run_ticks) for state in self._states]

    def _make_ready(self, state: _State, index: int) -> None:
        node = state.nodes[index]
        heappush(state.ready[_unit(node)], (node.id, index))

    def _start(self, rank: int) -> None:
        state = self._states[rank]
        for unit in (KERNEL, COMMUNICATION, PROCESSOR, NOTHING):
            while state.ready[unit] and state.is_free[unit]:
                _, index = heappop(state.ready[unit])
                state.is_free[unit] = unit == NOTHING
                self._begin(rank, index)

    def _begin(self, rank: int, index: int) -> None:
        node, state = self._states[rank].nodes[index], self._states[rank]
        if self._is_recorded:
            self.begun_ticks[rank, index] = self._now_ticks
        if node.kind == "collective":
            self._join(rank, index, node)
        elif node.kind == "send":
            travel_ticks = self._timing.message_ticks(rank, node.target, node.size_bytes)
            self._arrive((rank, node.target, node.tag), self._now_ticks + travel_ticks, (rank, index))
            self._at(self._now_ticks + travel_ticks, (rank, index))
        elif node.kind == "receive":
            self._ask((node.source, rank, node.tag), (rank, index))
        else:
            run_ticks = self._timing.run_ticks(node, rank)
            state.run_ticks += 0 if node.is_cpu else run_ticks
            self._at(self._now_ticks + run_ticks, (rank, index))

    def _join(self, rank: int, index: int, node: TraceNode) -> None:
        group = self._timing.members(node, rank)
        turn = self._turns.get((group, rank), 0)
        self._turns[group, rank] = turn + 1
        members = self._joined.setdefault((group, turn), [])
        if members:
            self._check_same(members[0], rank, node)
        members.append((rank, index))
        if len(members) < len(group):
            return
        end_ticks = self._now_ticks + self._timing.collective_ticks(node, rank, group)
        for place in self._joined.pop((group, turn)):
            self._at(end_ticks, place)

    def _check_same(self, first: Place, rank: int, node: TraceNode) -> None:
        other = self._states[first[0]].nodes[first[1]]
        if (other.collective, other.size_bytes) != (node.collective, node.size_bytes):
            wanted = f"asks for {node.collective} of {node.size_bytes} bytes"
            message = f"rank {first[0]}, {other.label}, for {other.collective} of {other.size_bytes}"
            raise InvalidInput(f"{wanted} where {message}", at(rank, node))

    def _arrive(self, key: tuple[int, int, int], tick: int, send: Place) -> None:
        if self._receives.get(key):
            place = self._receives[key].pop(0)
            self._awaited.pop(place, None)
            self._check_size(send, place)
            self._at(tick, place)
        else:
            self._sent.setdefault(key, []).append((tick, send))

    def _ask(self, key: tuple[int, int, int], place: Place) -> None:
        if self._sent.get(key):
            tick, send = self._sent[key].pop(0)
            self._check_size(send, place)
            self._at(max(self._now_ticks, tick), place)
        else:
            self._receives.setdefault(key, []).append(place)
            self._awaited[place] = key

    def _check_size(self, send: Place, receive: Place) -> None:
        sent, waited = (self._states[rank].nodes[index] for rank, index in (send, receive))
        if sent.size_bytes != waited.size_bytes:
            sends = f"rank {send[0]}, {sent.label}, sends {sent.size_bytes} bytes"
            raise InvalidInput(f"waits for {waited.size_bytes} bytes where {sends}", at(receive[0], waited))

    def _why_waits(self, source: int, target: int, tag: int) -> str:
        """Why a message never came: no rank sends it, or the send waits for something itself."""
        state = self._states[source] if source < len(self._states) else self._states[target]
        held = [node for node, missing in zip(state.nodes, state.missing, strict=True) if missing]
        sends = [node for node in held if (node.kind, node.target, node.tag) == ("send", target, tag)]
        if not sends:
            return f"waits for tag {tag} from rank {source}, which never sends it"
        return f"waits for tag {tag} from rank {source}, where {sends[0].label} waits too and would never send it"

    def _at(self, tick: int, place: Place) -> None:
        heappush(self._events, (tick, self._num_events, place))
        self._num_events += 1

    def _finish(self, rank: int, index: int) -> None:
        state = self._states[rank]
        state.is_free[_unit(state.nodes[index])] = True
        state.num_done += 1
        state.end_ticks = self._now_ticks
        if self._is_recorded:
            self.ended_ticks[rank, index] = self._now_ticks
        for user in state.users[index]:
            state.missing[user] -= 1
            if not state.missing[user]:
                self._make_ready(state, user)

    def _check_finished(self) -> None:
        self._check_joined()
        for (rank, index), key in sorted(self._awaited.items()):
            raise InvalidInput(self._why_waits(*key), at(rank, self._states[rank].nodes[index]))
        for rank, state in enumerate(self._states):
            if state.num_done < len(state.nodes):
                index = next(i for i, count in enumerate(state.missing) if count)
                raise InvalidInput("waits for a node that never ends", at(rank, state.nodes[index]))
        for (source, target, tag), ticks in sorted(self._sent.items()):
            if ticks:
                where = self._send_at(source, target, tag)
                raise InvalidInput(f"sends tag {tag} to rank {target}, which never receives it", where)

    def _check_joined(self) -> None:
        """Raises for a collective that lacks a member, one that has nothing left to do before others."""
        stuck = []
        for (group, _), members in sorted(self._joined.items()):
            joined_ranks = {member for member, _ in members}
            for member in group:
                if member not in joined_ranks:
                    has_more = self._states[member].num_done < len(self._states[member].nodes)
                    stuck.append((has_more, min(members), member))
        if stuck:
            _, (rank, index), member = min(stuck)
            where = at(rank, self._states[rank].nodes[index])
            held = min((place for place in self._waiting() if place[0] == member), default=None)
            if held is not None:
                label = self._states[member].nodes[held[1]].label
                raise InvalidInput(f"waits for rank {member}, which itself waits in {label} and never joins", where)
            raise InvalidInput(f"waits for rank {member}, which never joins this collective", where)

    def _waiting(self) -> list[Place]:
        """Where ranks stand still: in receives, and in collectives that lack a member."""
        return [*self._awaited, *(place for members in self._joined.values() for place in members)]

    def _send_at(self, source: int, target: int, tag: int) -> str:
        sends = [n for n in self._states[source].nodes if (n.kind, n.target, n.tag) == ("send", target, tag)]
        return at(source, sends[-1])


def _unit(node: TraceNode) -> int:
    if node.is_cpu:
        return PROCESSOR
    if node.kind in ("receive", "metadata"):
        return NOTHING
    return COMMUNICATION if node.kind in ("collective", "send") else KERNEL


def _state(nodes: Rank) -> _State:
    place = {node.id: index for index, node in enumerate(nodes)}
    users: list[list[int]] = [[] for _ in nodes]
    for index, node in enumerate(nodes):
        for before in node.after:
            users[place[before]].append(index)
    return _State(nodes=nodes, missing=[len(node.after) for node in nodes], users=users)
