"""What each link carried and what each device's streams ran, when: kept only on request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.comm.events.network_graph import Floats, LinkGraph
from dovetail.comm.events.program import Collective, Compute, Receive, Send, Task
from dovetail.comm.events.unit_graphs import Ints
from dovetail.errors import InvalidInput

MOST_SLICES = 200_000  # style: a count; some 20 MB of Perfetto trace
COMMUNICATION = "communication"
Now = tuple[int, int, int, int, int]  # number of the task, chunk, phase, lane, step of the lane
Clock = Floats | float


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """A wish for a record: of `devices` and their links (all, when none is named), of at most `most_slices`."""

    devices: tuple[int, ...] = ()
    most_slices: int = MOST_SLICES


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinkSlices:
    """Columns, one row for each message on each link it passes: from when the link was taken until it was free."""

    link: Ints
    sender: Ints
    task: Ints
    chunk: Ints
    phase: Ints
    lane: Ints
    step: Ints
    begin_s: Floats
    taken_s: Floats

    @property
    def end_s(self) -> Floats:
        return self.begin_s + self.taken_s


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSlice:
    """One task on one stream of one device; `ready_s` is since when it could have run."""

    device: int
    stream: str
    task: str
    ready_s: float
    begin_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Record:
    """What was carried and run at `devices`; each stands for `num_identical` devices, itself included.

    `tasks` are names by number; `phases` says in words what a (task, chunk, phase) does.
    """

    devices: tuple[int, ...]
    num_identical: int
    tasks: tuple[str, ...]
    phases: Mapping[tuple[int, int, int], str]
    links: LinkSlices
    streams: tuple[StreamSlice, ...]


NO_LINKS = LinkSlices(
    **{name: np.empty(0, np.int64) for name in ("link", "sender", "task", "chunk", "phase", "lane", "step")},
    begin_s=np.empty(0), taken_s=np.empty(0),
)  # fmt: skip


def check_devices(watch: Watch, num_devices: int) -> None:
    for device in watch.devices:
        if not 0 <= device < num_devices:
            raise InvalidInput(f"the network has devices 0 to {num_devices - 1}; got {device}", "--ranks")


def check_slices(num_slices: int, watch: Watch) -> None:
    if num_slices > watch.most_slices:
        rule = f"the timeline has {num_slices:,} slices, and at most {watch.most_slices:,} are written"
        raise InvalidInput(f"{rule}; take fewer devices or chunks, or some of the ranks, as in --ranks 0-3")


def link_owners(graph: LinkGraph) -> Ints:
    """The device each link belongs to: where it starts, or where it ends if a switch is at its start."""
    is_down = (graph.source >= graph.num_devices) & (graph.target < graph.num_devices)
    return np.where(is_down, graph.target, graph.source)


class Recorder:
    """Collects a record while a program runs; counts on, but keeps nothing more, beyond what is allowed."""

    def __init__(self, graph: LinkGraph, tasks: Sequence[Task], watch: Watch, *, is_one: bool) -> None:
        check_devices(watch, graph.num_devices)
        self._tasks, self._watch, self._num_devices = tuple(tasks), watch, graph.num_devices
        self.devices = np.array([0] if is_one else sorted(set(watch.devices)) or range(graph.num_devices))
        self._num_identical = graph.num_devices if is_one else 1
        is_seen = np.ones(graph.num_vertices, bool)
        if not is_one and watch.devices:
            is_seen[:] = False
            is_seen[self.devices] = True
        self._is_seen, self._is_seen_link = is_seen, is_seen[link_owners(graph)]
        self.now: Now = (0, 0, 0, 0, 0)
        self.num_slices = 0
        self._carried: list[tuple[Now, int, Ints, Ints, Floats, Floats]] = []
        self._ran: list[StreamSlice] = []
        self._began: dict[str, Floats] = {}
        self._ended: dict[str, Floats] = {}

    @property
    def _has_room(self) -> bool:
        return self.num_slices <= self._watch.most_slices

    def carried(self, links: Ints, senders: Ints, begin_s: Floats, taken_s: Floats) -> None:
        """Messages of what is under way `now`, one on each of `links`."""
        is_seen = self._is_seen_link[links]
        count = int(is_seen.sum())
        self.num_slices += count
        if count and self._has_room:
            columns = (links[is_seen], senders[is_seen], begin_s[is_seen], taken_s[is_seen])
            self._carried.append((self.now, count, *columns))

    def ran(self, task: str, stream: str, devices: Ints, ready_s: Floats, begin_s: Floats, end_s: Floats) -> None:
        """A task on a stream of each of `devices`."""
        is_seen = self._is_seen[devices]
        self.num_slices += int(is_seen.sum())
        if self._has_room:
            columns = (column[is_seen].tolist() for column in (devices, ready_s, begin_s, end_s))
            for device, ready, begin, end in zip(*columns, strict=True):
                self._ran.append(
                    StreamSlice(device=device, stream=stream, task=task, ready_s=ready, begin_s=begin, end_s=end)
                )

    def began(self, task: str, clocks: Clock) -> None:
        self._began[task] = self._of_devices(clocks)

    def ended(self, task: str, clocks: Clock) -> None:
        self._ended[task] = self._of_devices(clocks)

    def _of_devices(self, clocks: Clock) -> Floats:
        return np.array([clocks]) if isinstance(clocks, float) else clocks[self.devices]

    def record(self, phase_label: Callable[[int, int, int], str]) -> Record:
        """All that was seen; raises where that is too much. `phase_label` says what a phase does."""
        streams = [*self._ran, *self._communication()]
        check_slices(self.num_slices, self._watch)
        links = self._links()
        places = {*zip(links.task.tolist(), links.chunk.tolist(), links.phase.tolist(), strict=True)}
        return Record(
            devices=tuple(self.devices.tolist()), num_identical=self._num_identical,
            tasks=tuple(task.name for task in self._tasks), phases={place: phase_label(*place) for place in places},
            links=links, streams=tuple(sorted(streams, key=lambda one: (one.device, one.begin_s, one.end_s))),
        )  # fmt: skip

    def _links(self) -> LinkSlices:
        counts = [count for _, count, *_ in self._carried]
        now = np.repeat(np.array([row[0] for row in self._carried], np.int64).reshape(-1, 5), counts, axis=0)
        columns = [np.concatenate([row[k] for row in self._carried]) if counts else np.empty(0) for k in range(2, 6)]
        task, chunk, phase, lane, step = now.T
        order = np.lexsort((columns[2] + columns[3], columns[2], columns[0]))
        link, sender = (column[order].astype(np.int64) for column in columns[:2])
        return LinkSlices(
            link=link, sender=sender, task=task[order], chunk=chunk[order], phase=phase[order], lane=lane[order],
            step=step[order], begin_s=columns[2][order], taken_s=columns[3][order],
        )  # fmt: skip

    def _communication(self) -> list[StreamSlice]:
        """Collectives, sends and receives at each device that takes part, from when it is ready to when it is done."""
        by_name = {task.name: task for task in self._tasks}
        found: list[StreamSlice] = []
        for task in self._tasks:
            if isinstance(task, Compute):
                continue
            places = np.flatnonzero(np.isin(self.devices, self._members(task, by_name)))
            self.num_slices += len(places)
            if not self._has_room:
                continue
            begin_s = self._posted_s(task) if isinstance(task, Receive) else self._began[task.name]
            for place in places.tolist():
                begin, end = float(begin_s[place]), float(self._ended[task.name][place])
                one = StreamSlice(
                    device=int(self.devices[place]), stream=COMMUNICATION, task=task.name, ready_s=begin,
                    begin_s=begin, end_s=end,
                )  # fmt: skip
                found.append(one)
        return found

    def _posted_s(self, task: Receive) -> Floats:
        """Since when a receive waits: all it comes after, but its message, is there."""
        found = np.zeros(len(self.devices))
        for name in task.after:
            found = np.maximum(found, self._ended[name])
        return np.minimum(found, self._ended[task.name])

    def _members(self, task: Task, by_name: Mapping[str, Task]) -> Ints:
        if isinstance(task, Receive):
            send = by_name[task.send]
            assert isinstance(send, Send), send
            return np.array([target for _, target in send.pairs])
        if isinstance(task, Send):
            return np.array([source for source, _ in task.pairs])
        assert isinstance(task, Collective), task
        return np.array(task.groups).ravel() if task.groups else np.arange(self._num_devices)
