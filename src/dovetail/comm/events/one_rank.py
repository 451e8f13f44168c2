"""One device stands for all: where every rank does the same at the same time, its clock is theirs.

Links become kinds of links: what rank 0 sends over its port k is what it receives over the same kind of port.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.comm.events.network_graph import Block, Floats, LinkGraph
from dovetail.comm.events.phases import Phase
from dovetail.comm.events.program import Collective, Compute, Devices, Program, Send
from dovetail.comm.events.ranks import TOLERANCE_S
from dovetail.comm.events.recording import Recorder
from dovetail.comm.events.schedules import Level, Round

_SYMMETRIC = ("ring", "bidirectional-ring", "switch", "fat-tree", "fully-connected")
_SWITCHED = ("switch", "fat-tree")
Way = tuple[tuple[int, float, float], ...]  # of each hop: link kind, seconds a byte, latency


@dataclass(slots=True, eq=False)
class Port:
    """Links of one kind, as one: when free again, how long taken so far, and the last message that came to it."""

    kind: int
    free_s: float = 0.0
    busy_s: float = 0.0
    last_s: float = 0.0
    last_order: int = 0


Flight = tuple[tuple[tuple[Port, float, float], ...], float]  # of each hop: port, taken, latency; and what follows


class OneRank:
    """The clock of one device as a plain number; the same interface as `AllRanks`."""

    def __init__(self, graph: LinkGraph, devices: Devices) -> None:
        assert devices.are_identical, "devices differ"
        self.graph = graph
        self.recorder: Recorder | None = None
        self.num_messages = 0
        self.num_out_of_order = 0
        self._ports: dict[int, Port] = {}
        self._xor_blocks: set[str] = set()
        self._streams: dict[str, float] = {}
        self._flights: dict[tuple[int, int], list[Flight]] = {}
        self._kept: list[Level] = []
        self._overhead_s = float(devices.overhead_s)
        self._reduce_s_per_byte = float(devices.reduce_s_per_byte)
        self._slowdown = float(devices.slowdown)

    @staticmethod
    def begin() -> float:
        return 0.0

    @staticmethod
    def copy(clock_s: float) -> float:
        return clock_s

    @staticmethod
    def later(a: float, b: float) -> float:
        return a if a > b else b

    @staticmethod
    def first_s(clock_s: float, phase: Phase | None, level: Level | None = None) -> float:
        del phase, level
        return clock_s

    @staticmethod
    def last_s(clock_s: float, phase: Phase | None = None) -> float:
        del phase
        return clock_s

    @staticmethod
    def earliest_s(clock_s: float, devices: tuple[int, ...]) -> float:
        del devices
        return clock_s

    def after_compute(self, clock_s: float, task: Compute) -> float:
        begin_s = max(clock_s, self._streams.get(task.stream, 0.0))
        done = begin_s + task.duration_s * self._slowdown
        self._streams[task.stream] = done
        if self.recorder is not None:
            times_s = (np.array([time_s]) for time_s in (clock_s, begin_s, done))
            self.recorder.ran(task.name, task.stream, np.array([0]), *times_s)
        return done

    def after_send(self, clock_s: float, task: Send, order: int) -> tuple[float, float]:
        del order
        raise AssertionError(f"one device cannot stand for all where {task.name} goes to single others at {clock_s}")

    def run_level(self, ready: float, phase: Phase, level: Level, order: int) -> float:
        assert phase.block is not None, phase
        key = (phase.block.first_link, id(level))
        flights = self._flights.get(key)
        if flights is None:
            flights = [self._flight(phase.block, round_) for round_ in level.rounds]
            self._flights[key] = flights
            self._kept.append(level)  # so that its id stays its own
        clock_s = ready
        self.num_messages += len(flights)
        if self.recorder is not None:
            self._record(phase.block, level, flights, ready)
        for way, extra_s in flights:
            head = tail = ready
            for port, taken_s, latency_s in way:
                ahead_s = head - port.last_s
                if ahead_s <= TOLERANCE_S and (ahead_s < -TOLERANCE_S or port.last_order > order):
                    self.num_out_of_order += 1
                port.last_s, port.last_order = head, order
                start = head if head > port.free_s else port.free_s
                end = port.free_s = start + taken_s
                port.busy_s += taken_s
                head = start + latency_s
                tail = (end if end > tail else tail) + latency_s
            if tail + extra_s > clock_s:
                clock_s = tail + extra_s
        return clock_s

    def _record(self, block: Block, level: Level, flights: list[Flight], ready_s: float) -> None:
        """Notes what rank 0's links are about to carry; a later hop is on them for another rank, at the same time."""
        assert self.recorder is not None
        free_s = {kind: port.free_s for kind, port in self._ports.items()}
        rows: list[tuple[int, int, float, float]] = []
        for (way, _), round_ in zip(flights, level.rounds, strict=True):
            head_s = ready_s
            for hop, (port, taken_s, latency_s) in enumerate(way):
                begin_s = max(head_s, free_s[port.kind])
                free_s[port.kind] = begin_s + taken_s
                head_s = begin_s + latency_s
                rows.append((_own_link(block, port.kind), _sender(block, round_, port.kind, hop), begin_s, taken_s))
        links, senders, begins_s, takens_s = (np.array(column) for column in zip(*rows, strict=True))
        self.recorder.carried(links, senders, begins_s, takens_s)

    def _flight(self, block: Block, round_: Round) -> Flight:
        """The way of a message with the time it takes of each link, and what follows its tail at the receiver."""
        size_bytes = round_.num_bytes
        assert isinstance(size_bytes, (int, float)), "ranks send different amounts"
        if round_.kind == "xor":
            self._xor_blocks.add(block.name)
        way = tuple(
            (self._ports.setdefault(kind, Port(kind)), size_bytes * s_per_byte, latency_s)
            for kind, s_per_byte, latency_s in _way(self.graph, block, round_)
        )
        if round_.place == "up":
            extra_s = -way[0][1] * round_.sent_on_bytes / size_bytes if size_bytes else 0.0
        else:
            extra_s = self._overhead_s
        if round_.is_reduced and round_.place != "up":
            extra_s += size_bytes * self._reduce_s_per_byte
        return way, extra_s

    @property
    def busy_s(self) -> Floats:
        """How long each link was taken, in all: the same for those of a kind."""
        busy_s = np.zeros(len(self.graph.source))
        for block in self.graph.blocks:
            kinds = _kinds(block, block.name in self._xor_blocks)
            ports = [self._ports.get(block.first_link + kind) for kind in kinds]
            unit_s = np.array([0.0 if port is None else port.busy_s for port in ports])
            copies = self.graph.num_devices // block.num_devices
            busy_s[block.first_link : block.first_link + copies * block.num_links] = np.tile(unit_s, copies)
        return busy_s


def _own_link(block: Block, kind: int) -> int:
    """The link of rank 0 that is of this kind."""
    place = kind - block.first_link
    return block.first_link + (place if block.kind == "fully-connected" else place * block.num_devices)


def _sender(block: Block, round_: Round, kind: int, hop: int) -> int:
    """Whose message rank 0's link of this kind carries when rank 0's own message is on its hop number `hop`."""
    n, offset = block.num_devices, round_.offset
    if round_.place == "down":
        return block.first_switch
    if block.kind in _SWITCHED and hop:
        return (offset if round_.kind == "xor" else -offset % n) * block.stride
    is_back = kind != block.first_link
    return (hop if is_back else -hop) % n * block.stride if block.kind != "fully-connected" else 0


def _kinds(block: Block, has_xor: bool) -> list[int]:
    """For each link of one copy, the kind `_way` counts it under."""
    n = block.num_devices
    if block.kind == "fully-connected":
        return [source ^ target if has_xor else (target - source) % n for source in range(n) for target in range(n)]
    return [0 if link < n else 1 for link in range(block.num_links)]


def _way(graph: LinkGraph, block: Block, round_: Round) -> Way:
    """Kinds of links from rank 0 to the rank `offset` away, with their figures."""
    n, first = block.num_devices, block.first_link
    s_per_byte, latency_s = 1 / float(graph.bandwidth_bytes_per_s[first]), float(graph.latency_s[first])
    if round_.place != "ranks":
        return ((first + (round_.place == "down"), s_per_byte, latency_s),)
    if block.kind in _SWITCHED:
        return ((first, s_per_byte, latency_s), (first + 1, s_per_byte, latency_s))
    offset = round_.offset % n
    if block.kind == "fully-connected":
        return ((first + offset, s_per_byte, latency_s),)
    if block.kind == "bidirectional-ring" and n > 2 and offset * 2 > n:
        return ((first + 1, s_per_byte, latency_s),) * (n - offset)
    return ((first, s_per_byte, latency_s),) * offset


def is_symmetric(program: Program, graph: LinkGraph, phases_of: dict[str, tuple[tuple[Phase, ...], ...]]) -> bool:
    """Whether one device can stand for all: equal devices and links, whole dimensions, the same sends at every rank."""
    if not (graph.is_uniform and program.devices.are_identical):
        return False
    for task in program.tasks:
        if isinstance(task, Compute):
            if task.devices:
                return False
        elif not isinstance(task, Collective):
            return False
    distinct = {id(phase): phase for chunks in phases_of.values() for chunk in chunks for phase in chunk}
    patterns: dict[str, str] = {}
    return all(_is_even(graph, phase, patterns) for phase in distinct.values())


def _is_even(graph: LinkGraph, phase: Phase, patterns: dict[str, str]) -> bool:
    """`patterns` keeps how fully connected devices are paired off: shifts and xors load links differently."""
    block = phase.block
    if block is None or block.kind not in _SYMMETRIC or phase.groups.size != graph.num_devices:
        return False
    if phase.groups.shape[1] != block.num_devices:
        return False
    rounds = [round_ for lane in phase.schedule for level in lane for round_ in level.rounds]
    if block.kind == "fully-connected" and any(patterns.setdefault(block.name, r.kind) != r.kind for r in rounds):
        return False
    return all(_is_even_round(block, round_) for round_ in rounds)


def _is_even_round(block: Block, round_: Round) -> bool:
    if not isinstance(round_.num_bytes, (int, float)):
        return False
    if round_.place != "ranks":
        return round_.listed is not None and bool((round_.listed >= 0).all())
    if block.kind == "bidirectional-ring" and block.num_devices > 2 and 2 * round_.offset % block.num_devices == 0:
        return False  # to the opposite device, where some go one way round and some the other
    return round_.kind == "shift" or (round_.kind == "xor" and block.kind in (*_SWITCHED, "fully-connected"))
