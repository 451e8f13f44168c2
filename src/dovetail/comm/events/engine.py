"""The event loop: tasks, chunks, phases and levels in the order of (time, stage, priority, sequence, name).

Between two events nothing is decided; what happens at an event is worked out for all ranks at once by `AllRanks`, or
for the one that stands for all by `OneRank`. Every event stands at the time its earliest rank is there.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal

from dovetail.comm.events.all_ranks import AllRanks
from dovetail.comm.events.deadlock import check_program
from dovetail.comm.events.limits import check_chunks, check_steps
from dovetail.comm.events.network_graph import Floats, LinkGraph
from dovetail.comm.events.one_rank import OneRank, is_symmetric
from dovetail.comm.events.phases import Phase, Phases
from dovetail.comm.events.program import Collective, Compute, Program, Receive, Send, Task, ordered, waits
from dovetail.comm.events.ranks import Clocks, Ranks, lane_order
from dovetail.comm.events.recording import Record, Recorder, Watch

_READY, _ADMIT, _MOVE = 0, 1, 2  # at one moment: all that becomes ready, then who goes next, then messages
Key = tuple[float, int, int, int, int, int]
Visit = tuple[str, int, int]  # (task, chunk, phase)
Choice = Literal["auto", "one rank", "all ranks"]


@dataclass(slots=True, eq=False)
class Flow:
    """One phase of one chunk, from its queue to its end."""

    task: int
    chunk: int
    number: int
    phase: Phase
    ready: Clocks
    num_lanes_left: int = 0
    done: Clocks = None


@dataclass(slots=True)
class Queue:
    """Chunks waiting for one dimension, and its free places: when each was given back, and by whom."""

    waiting: list[tuple[tuple[int, ...], Flow]] = field(default_factory=list)
    places: list[tuple[Clocks, Visit | None]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Timeline:
    """When each task began and ended (first rank, last rank), and what the links did.

    `is_exact` is false where chunks of several collectives met at a link in another order at different ranks, so that
    a message-by-message simulation would serve them differently.
    """

    end_s: float
    spans_s: dict[str, tuple[float, float]]
    num_events: int
    num_messages: int
    is_exact: bool
    engine: Literal["one rank", "all ranks", "messages"]
    link_busy_s: Floats
    visits: tuple[tuple[Visit, Visit | None], ...]  # as admitted, each with the one whose place it took
    visits_s: dict[Visit, tuple[float, float]]
    phases: dict[str, tuple[tuple[Phase, ...], ...]]  # of each collective, by chunk
    record: tuple[Record, ...] = ()  # where one was requested


class Simulation:
    """One run of a program; holds the heap and the queues."""

    def __init__(self, graph: LinkGraph, program: Program, engine: Choice, watch: Watch | None = None) -> None:
        check_program(program, graph.num_devices)
        self.tasks: list[Task] = ordered(program.tasks)
        counts = [task.num_chunks if isinstance(task, Collective) else 1 for task in self.tasks]
        self.first_order = list(accumulate(counts, initial=0))  # number of a task's first chunk among all
        self.program = program
        check_chunks(self.tasks)
        phases = Phases(graph)
        self.phases = {
            t.name: tuple(phases.of_chunk(t, chunk) for chunk in range(t.num_chunks))
            for t in self.tasks if isinstance(t, Collective)
        }  # fmt: skip
        use_one = engine == "one rank" or (engine == "auto" and is_symmetric(program, graph, self.phases))
        check_steps(self.phases, is_one=use_one)
        self.clocks: Ranks = (OneRank if use_one else AllRanks)(graph, program.devices)
        self.recorder = None if watch is None else Recorder(graph, self.tasks, watch, is_one=use_one)
        self.clocks.recorder = self.recorder
        self.heap: list[tuple[Key, Callable[[], None]]] = []
        self.queues: dict[tuple[str, int], Queue] = {}
        self.num_events = 0
        self._left = [len(set(waits(task))) for task in self.tasks]
        self._next = _following(self.tasks)
        self._ready: list[Clocks] = [self.clocks.begin() for _ in self.tasks] if use_one else [None] * len(self.tasks)
        self._chunks_left = [0] * len(self.tasks)
        self._ends: list[Clocks] = [None] * len(self.tasks)
        self.spans_s: dict[str, tuple[float, float]] = {}
        self.visits: list[tuple[Visit, Visit | None]] = []
        self.visits_s: dict[Visit, tuple[float, float]] = {}
        self._sequence = 0

    def run(self) -> Timeline:
        for i, left in enumerate(self._left):
            if not left:
                self._task_ready(i, self.clocks.begin())
        while self.heap:
            _, act = heapq.heappop(self.heap)
            self.num_events += 1
            act()
        assert len(self.spans_s) == len(self.tasks), "tasks never ended: " + ", ".join(
            t.name for t in self.tasks if t.name not in self.spans_s
        )
        is_one, is_exact = isinstance(self.clocks, OneRank), self.clocks.num_out_of_order == 0
        return Timeline(
            end_s=max((end for _, end in self.spans_s.values()), default=0.0), spans_s=self.spans_s,
            num_events=self.num_events, num_messages=self.clocks.num_messages,
            is_exact=is_exact, engine="one rank" if is_one else "all ranks",
            link_busy_s=self.clocks.busy_s, visits=tuple(self.visits), visits_s=self.visits_s,
            phases=self.phases,
            record=(self.recorder.record(self.phase_label),) if self.recorder is not None and is_exact else (),
        )  # fmt: skip

    def phase_label(self, task: int, chunk: int, number: int) -> str:
        """What a phase does; nothing where the task has none."""
        phases = self.phases.get(self.tasks[task].name)
        return f"{phases[chunk][number].collective} in {phases[chunk][number].dimension}" if phases else ""

    def _at(self, time_s: float, stage: int, task: int, act: Callable[[], None], chunk: int = 0) -> None:
        self._sequence += 1  # last resort: only lanes of one chunk get this far
        heapq.heappush(self.heap, ((time_s, stage, self.tasks[task].priority, task, chunk, self._sequence), act))

    def _task_ready(self, index: int, ready: Clocks) -> None:
        task = self.tasks[index]
        devices = task.devices if isinstance(task, Compute) else ()
        if isinstance(task, Send):
            devices = tuple(source for source, _ in task.pairs)
        time_s = self.clocks.earliest_s(ready, devices)
        self._at(time_s, _READY, index, lambda: self._begin(index, task, ready, time_s))

    def _begin(self, index: int, task: Task, ready: Clocks, time_s: float) -> None:
        self.spans_s[task.name] = (time_s, time_s)
        if self.recorder is not None:
            self.recorder.began(task.name, ready)
        if isinstance(task, Compute):
            # a step later, so that of all that is ready now the first by priority goes first
            self._at(time_s, _MOVE, index, lambda: self._end(index, self.clocks.after_compute(ready, task)))
        elif isinstance(task, Send):
            self._at(time_s, _MOVE, index, lambda: self._send(index, task, ready))
        elif isinstance(task, Receive) or not any(self.phases[task.name]):
            self._end(index, ready)
        else:
            self._chunks_left[index] = task.num_chunks
            for chunk in range(task.num_chunks):
                self._enqueue(Flow(index, chunk, 0, self.phases[task.name][chunk][0], ready))

    def _send(self, index: int, task: Send, ready: Clocks) -> None:
        if self.recorder is not None:
            self.recorder.now = (index, 0, 0, 0, 0)
        left, come = self.clocks.after_send(ready, task, lane_order(self.first_order[index], 0, 0))
        for later in self._next[index]:
            if isinstance(self.tasks[later], Receive) and self.tasks[later].send == task.name:  # type: ignore[union-attr]
                before = self._ready[later]
                self._ready[later] = come if before is None else self.clocks.later(before, come)
        self._end(index, left)

    def _end(self, index: int, done: Clocks) -> None:
        name = self.tasks[index].name
        self.spans_s[name] = (self.spans_s[name][0], self.clocks.last_s(done))
        if self.recorder is not None:
            self.recorder.ended(name, done)
        for later in self._next[index]:
            task = self.tasks[later]
            is_message = isinstance(task, Receive) and task.send == name and name not in task.after
            before = self._ready[later]
            if not is_message:
                self._ready[later] = done if before is None else self.clocks.later(before, done)
            self._left[later] -= 1
            if not self._left[later]:
                ready = self._ready[later]
                self._ready[later] = None
                self._task_ready(later, ready)

    def _seen_s(self, clocks: Clocks, phase: Phase) -> float:
        """When a queue learns of it. First come: from the earliest rank. Choosing takes until all ranks are there."""
        is_fifo = self.program.queueing.policy == "fifo"
        return self.clocks.first_s(clocks, phase) if is_fifo else self.clocks.last_s(clocks, phase)

    def _enqueue(self, flow: Flow) -> None:
        """Books the place in the queue for when the queue learns of the chunk."""
        time_s = self._seen_s(flow.ready, flow.phase)
        self._at(time_s, _READY, flow.task, lambda: self._wait(flow, time_s), flow.chunk)

    def _wait(self, flow: Flow, time_s: float) -> None:
        queue = self._queue(flow)
        task = self.tasks[flow.task]
        by = {"fifo": (), "lifo": (-flow.task,), "priority": (task.priority,)}[self.program.queueing.policy]
        self._sequence += 1
        heapq.heappush(queue.waiting, ((*by, self._sequence), flow))
        self._at(time_s, _ADMIT, flow.task, lambda: self._admit(queue), flow.chunk)

    def _queue(self, flow: Flow) -> Queue:
        key = (flow.phase.dimension, id(flow.phase.groups))
        if key not in self.queues:
            num_visits = sum(len(phases) for chunks in self.phases.values() for phases in chunks)
            num_places = min(self.program.queueing.num_active_chunks, num_visits)
            self.queues[key] = Queue(places=[(self.clocks.begin(), None) for _ in range(num_places)])
        return self.queues[key]

    def _visit(self, flow: Flow) -> Visit:
        return self.tasks[flow.task].name, flow.chunk, flow.number

    def _admit(self, queue: Queue) -> None:
        while queue.waiting and queue.places:
            _, flow = heapq.heappop(queue.waiting)
            free, before = queue.places.pop(0)
            start = self.clocks.later(flow.ready, free)
            self.visits.append((self._visit(flow), before))
            begin_s = self.clocks.first_s(start, flow.phase)
            self.visits_s[self._visit(flow)] = (begin_s, begin_s)
            flow.num_lanes_left = len(flow.phase.schedule)
            for lane in range(flow.num_lanes_left):
                self._move(flow, lane, 0, 0, self.clocks.copy(start))

    def _move(self, flow: Flow, lane: int, level: int, turn: int, clock: Clocks) -> None:
        """Books the next level of a lane at the time its earliest rank is there."""
        time_s = self.clocks.first_s(clock, flow.phase, flow.phase.schedule[lane][level])
        self._at(time_s, _MOVE, flow.task, lambda: self._step(flow, lane, level, turn, clock), flow.chunk)

    def _step(self, flow: Flow, lane: int, level: int, turn: int, clock: Clocks) -> None:
        """Levels of a lane, one after the other, until something else comes first."""
        levels, phase = flow.phase.schedule[lane], flow.phase
        order = lane_order(self.first_order[flow.task] + flow.chunk, flow.number, lane)
        run_level, first_s = self.clocks.run_level, self.clocks.first_s
        others_s = self.heap[0][0][0] if self.heap else math.inf  # nothing is booked while levels run
        while True:
            if self.recorder is not None:
                step = sum(one.repeat for one in levels[:level]) + turn
                self.recorder.now = (flow.task, flow.chunk, flow.number, lane, step)
            clock = run_level(clock, phase, levels[level], order)
            turn += 1
            if turn == levels[level].repeat:
                level, turn = level + 1, 0
                if level == len(levels):
                    break
            if others_s <= first_s(clock, phase, levels[level]):
                self._move(flow, lane, level, turn, clock)
                return
            self.num_events += 1
        flow.done = clock if flow.done is None else self.clocks.later(flow.done, clock)
        flow.num_lanes_left -= 1
        if not flow.num_lanes_left:
            time_s = self._seen_s(flow.done, flow.phase)
            self._at(time_s, _READY, flow.task, lambda: self._leave(flow, time_s), flow.chunk)

    def _leave(self, flow: Flow, time_s: float) -> None:
        queue, visit = self._queue(flow), self._visit(flow)
        queue.places.append((flow.done, visit))
        self.visits_s[visit] = (self.visits_s[visit][0], self.clocks.last_s(flow.done, flow.phase))
        phases = self.phases[self.tasks[flow.task].name][flow.chunk]
        if flow.number + 1 < len(phases):
            self._enqueue(Flow(flow.task, flow.chunk, flow.number + 1, phases[flow.number + 1], flow.done))
        else:
            ends = self._ends[flow.task]
            self._ends[flow.task] = flow.done if ends is None else self.clocks.later(ends, flow.done)
            self._chunks_left[flow.task] -= 1
            if not self._chunks_left[flow.task]:
                done, self._ends[flow.task] = self._ends[flow.task], None
                self._end(flow.task, done)
        self._at(time_s, _ADMIT, flow.task, lambda: self._admit(queue), flow.chunk)


def _following(tasks: Sequence[Task]) -> list[list[int]]:
    """For each task, the numbers of those that wait for it."""
    index = {task.name: number for number, task in enumerate(tasks)}
    found: list[list[int]] = [[] for _ in tasks]
    for number, task in enumerate(tasks):
        for name in set(waits(task)):
            found[index[name]].append(number)
    return found
