"""What a simulation runs: tasks over sets of devices, joined by dependencies at each device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dovetail.errors import InvalidInput

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Policy = Literal["fifo", "lifo", "priority"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Compute:
    """`duration_s` of work on one stream of every device of `devices` (all, when empty), at each device's own speed."""

    name: str
    duration_s: float
    devices: tuple[int, ...] = ()
    stream: str = "compute"
    after: tuple[str, ...] = ()
    priority: int = 0
    sequence: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Collective:
    """One collective in each of `groups` (rows of devices) at the same time.

    Without groups all devices take part: as one group, or as groups along `dimensions` where these are named.

    `algorithms` names one per dimension; a dimension not named takes what suits its kind. `orders` gives the
    dimensions each chunk visits, in turn; none: innermost first.
    """

    name: str
    collective: str
    payload_bytes: float
    groups: tuple[tuple[int, ...], ...] = ()
    dimensions: tuple[str, ...] = ()
    algorithms: tuple[tuple[str, str], ...] = ()
    num_chunks: int = 1
    orders: tuple[tuple[str, ...], ...] = ()
    root: int = 0
    after: tuple[str, ...] = ()
    priority: int = 0
    sequence: int = 0

    def __post_init__(self) -> None:
        if self.num_chunks < 1:
            raise InvalidInput(f"a collective has at least 1 chunk; got {self.num_chunks}", self.name)
        if not self.payload_bytes >= 0:
            raise InvalidInput(f"payload must not be negative; got {self.payload_bytes:g} bytes", self.name)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Send:
    """A message from each (source, target) pair's source; it leaves when the source is ready."""

    name: str
    pairs: tuple[tuple[int, int], ...]
    payload_bytes: float
    after: tuple[str, ...] = ()
    priority: int = 0
    sequence: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Receive:
    """Ends at each target when what the send named `send` sent there has come."""

    name: str
    send: str
    after: tuple[str, ...] = ()
    priority: int = 0
    sequence: int = 0


Task = Compute | Collective | Send | Receive


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Devices:
    """What each device adds: `overhead_s` a message received, `reduce_s_per_byte`, and `slowdown` of its compute.

    A number stands for all devices.
    """

    overhead_s: float | Floats = 0.0
    reduce_s_per_byte: float | Floats = 0.0
    slowdown: float | Floats = 1.0

    @property
    def are_identical(self) -> bool:
        return all(isinstance(v, (int, float)) for v in (self.overhead_s, self.reduce_s_per_byte, self.slowdown))


@dataclass(frozen=True, slots=True, kw_only=True)
class Queueing:
    """How chunks wait for a dimension: who is next, and how many may be under way at once."""

    policy: Policy = "fifo"
    num_active_chunks: int = 1

    def __post_init__(self) -> None:
        if self.num_active_chunks < 1:
            raise InvalidInput(f"num_active_chunks must be at least 1; got {self.num_active_chunks}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Program:
    """Tasks with distinct names. Their order in `tasks` means nothing: ties go by priority, sequence, then name."""

    tasks: tuple[Task, ...]
    queueing: Queueing = field(default_factory=Queueing)
    devices: Devices = field(default_factory=Devices)

    def __post_init__(self) -> None:
        names = [task.name for task in self.tasks]
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidInput(f"task names must differ; {twice!r} is given twice")


def waits(task: Task) -> tuple[str, ...]:
    """Names of the tasks that must end, at each device both run on, before `task` begins."""
    return (*task.after, task.send) if isinstance(task, Receive) else task.after


def ordered(tasks: Sequence[Task]) -> list[Task]:
    return sorted(tasks, key=lambda task: (task.priority, task.sequence, task.name))
