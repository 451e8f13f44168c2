"""Measured operators, as a profile has them: what each was, how often it ran and what a run took.

Kinds, phases and extents are those of a training graph, as words and numbers; nothing here knows what they mean.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from dovetail.errors import InvalidInput

FORWARD, BACKWARD, UPDATE = "forward", "backward", "update"
PHASES = (FORWARD, BACKWARD, UPDATE)
NUM_EXTENTS = 5
WHOLE = (1.0, 1.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredOp:
    """One operator on one stream, all its runs together; `time_s` is their mean.

    `extents` are b, m, n, k and v of a row of a graph. The backward pass of a convolution is one operator here, of its
    forward's extents: profilers see both gradients as one.
    """

    kind: str
    phase: str
    dtype: str
    extents: tuple[int, ...]
    time_s: float
    num_runs: int = 1
    num_kernels: int = 0  # of all runs; 0 where only the host was watched
    work_frac: float = 1.0  # share of the loop that is done; 0.5 for causal attention
    stride: int = 1
    distinct_frac: tuple[float, float, float] = WHOLE
    name: str = ""  # as the trace has it
    stream: str = ""

    def __post_init__(self) -> None:
        if self.phase not in PHASES:
            raise InvalidInput(f"phase must be {', '.join(PHASES)}; got {self.phase!r}", "phase")
        if len(self.extents) != NUM_EXTENTS or min(self.extents) < 1:
            raise InvalidInput(f"an operator has {NUM_EXTENTS} extents from 1 on; got {self.extents}", "extents")
        if not 0 < self.time_s < float("inf"):
            raise InvalidInput(f"a measured time must be above 0; got {self.time_s:g} s", "time")
        if self.num_runs < 1 or self.num_kernels < 0:
            raise InvalidInput(f"an operator runs at least once; got {self.num_runs} runs", "num_runs")

    @property
    def total_s(self) -> float:
        return self.num_runs * self.time_s


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredExchange:
    """A collective on one stream: bytes of its message, and how many ranks took part."""

    name: str
    message_bytes: float
    num_ranks: int
    time_s: float
    num_runs: int = 1
    stream: str = ""

    @property
    def total_s(self) -> float:
        return self.num_runs * self.time_s


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """What was measured and has no counterpart here, by name, and why."""

    name: str
    why: str
    total_s: float
    num_runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledStep:
    """One whole step of a trace: its seconds, and for how many of them kernels of each kind ran on the device.

    `exposed_s` of the collectives' seconds no other kernel ran beside; the rest of the step the device was idle.
    """

    number: int
    step_s: float
    compute_s: float
    collective_s: float
    exposed_s: float

    @property
    def idle_s(self) -> float:
        return max(0.0, self.step_s - self.compute_s - self.exposed_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Everything a trace measured; the parts add up to all the time it saw."""

    source: str
    device: str = ""  # as its driver calls it; empty where the trace does not say
    ops: tuple[MeasuredOp, ...] = ()
    collectives: tuple[MeasuredExchange, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    num_steps: int = 0
    num_ranks: int = 1
    is_host_time: bool = False  # no kernel of a device is in it: times are the host's
    steps: tuple[ProfiledStep, ...] = ()  # where the trace marks them, as torch.profiler's schedule does

    @property
    def busy_s(self) -> float:
        parts: tuple[MeasuredOp | MeasuredExchange | LeftOut, ...] = (*self.ops, *self.collectives, *self.left_out)
        return sum(one.total_s for one in parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Times that go before predictions on the chip that has them; empty for a chip without a profile."""

    source: str = ""
    ops: tuple[MeasuredOp, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.ops)


NOT_MEASURED = Measured()


def merged(ops: Iterable[MeasuredOp]) -> tuple[MeasuredOp, ...]:
    """Operators that differ in stream and name alone as one, with the mean over all their runs."""
    found: dict[MeasuredOp, list[MeasuredOp]] = {}
    for op in ops:
        kind = replace(op, time_s=1.0, num_runs=1, num_kernels=0, stream="", name="")
        found.setdefault(kind, []).append(op)
    return tuple(_mean(same) for same in found.values())


def _mean(same: list[MeasuredOp]) -> MeasuredOp:
    num_runs = sum(op.num_runs for op in same)
    return replace(
        same[0],
        time_s=sum(op.total_s for op in same) / num_runs,
        num_runs=num_runs,
        num_kernels=sum(op.num_kernels for op in same),
        stream=same[0].stream if len({op.stream for op in same}) == 1 else "",
    )
