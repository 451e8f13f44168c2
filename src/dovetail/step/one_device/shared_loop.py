"""A training loop in which compute and collectives share one chip: iteration time and what of it is exposed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from dovetail.errors import InvalidInput, did_you_mean
from dovetail.step.one_device.shared_chip import (
    ARBITERS,
    STATIC,
    Ahead,
    Cores,
    Due,
    Load,
    Outlook,
    Step,
    ahead,
    due,
    hbm_left_frac,
    static_share,
)

NUM_ITERATIONS = 3  # the last is measured; the second already repeats
DONE_TOLERANCE = 1e-15  # seconds of link time that are rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedIteration:
    """One iteration in steady state: alone_s is compute with the whole chip to itself."""

    iteration_s: float
    alone_s: float
    blocking_s: float  # compute stands still for a collective

    @property
    def slowed_s(self) -> float:
        """What compute lost to collectives that ran beside it."""
        return self.iteration_s - self.alone_s - self.blocking_s


@dataclass(slots=True)
class _Transfer:
    name: str
    load: Load
    deadline: int
    left_s: float
    alone_rate_frac: float  # of full link rate, while compute stands still


@dataclass(slots=True)
class _Chip:
    """The running simulation: one row of compute at most, and collectives by nearest deadline, one at a time."""

    loads: dict[str, Load]
    arbitration: str
    due: Due
    coming: Callable[[], Ahead]  # asked by arbiters that look ahead alone
    alone_rates_frac: dict[str, float]  # of every load, while compute stands still
    now_s: float = 0.0
    blocking_s: float = 0.0
    position: int = 0
    queue: list[_Transfer] = field(default_factory=list)
    arriving: dict[str, float] = field(default_factory=dict)

    def run(self, step: Step, alone_speed_frac: float) -> None:
        """Waits, computes and issues; `alone_speed_frac` is the step's where no collective is under way."""
        for name in step.waits:
            self._wait(name)
        if step.compute_s > 0:
            self._compute(step, alone_speed_frac)
        for name in step.issues:
            load = self.loads[name]
            deadline = self.due.deadline(name, self.position)
            self.queue.append(_Transfer(name, load, deadline, load.link_s, self.alone_rates_frac[name]))
        if step.issues:
            self.queue.sort(key=lambda transfer: transfer.deadline)
        self.position += 1

    def _wait(self, name: str) -> None:
        """Lets collectives have the chip until `name` has arrived."""
        start_s = self.now_s
        while any(transfer.name == name for transfer in self.queue):
            first = self.queue[0]
            self._send(first.left_s / first.alone_rate_frac, first.alone_rate_frac)
        gap_s = self.arriving.get(name, 0.0) - self.now_s
        while gap_s > 0 and self.queue:
            first = self.queue[0]
            self._send(min(gap_s, first.left_s / first.alone_rate_frac), first.alone_rate_frac)
            gap_s = self.arriving[name] - self.now_s
        self.now_s += max(0.0, gap_s)
        self.blocking_s += self.now_s - start_s

    def _compute(self, step: Step, alone_speed_frac: float) -> None:
        """Until the row ends, from the end of one collective to that of the next."""
        left_s, queue, is_static = step.compute_s, self.queue, self.arbitration == STATIC
        while left_s > 0 and queue:
            first = queue[0]
            # compute has the same share whether or not a collective uses its own
            rate_frac, speed = (first.alone_rate_frac, alone_speed_frac) if is_static else self._rates_frac(step)
            span_s = left_s / speed
            if rate_frac > 0:
                sent_s = first.left_s / rate_frac
                if sent_s < span_s:
                    span_s = sent_s
            left_s -= span_s * speed
            if left_s < DONE_TOLERANCE:
                left_s = 0.0
            self._send(span_s, rate_frac)
        if left_s > 0:
            self.now_s += left_s / alone_speed_frac

    def _rates_frac(self, step: Step) -> tuple[float, float]:
        """(share of full link rate, share of full compute speed) of the collective in front and of `step`."""
        load = self.queue[0].load
        outlook = Outlook(step=step, load=load, worth=self._worth)
        rate_frac = ARBITERS[self.arbitration](outlook)
        left_frac = hbm_left_frac(step, load, rate_frac)
        had_frac = min(rate_frac, (1 - left_frac) / load.hbm_frac) if load.hbm_frac else rate_frac
        return had_frac, step.speed_frac(left_frac, load.cores)

    def _send(self, span_s: float, rate_frac: float) -> None:
        first = self.queue[0]
        self.now_s += span_s
        first.left_s -= span_s * rate_frac
        if first.left_s < DONE_TOLERANCE:
            self.queue.pop(0)
            self.arriving[first.name] = self.now_s + first.load.latency_s

    def _worth(self) -> float:
        """Compute time saved by a second of link time now: all of it if late, or else what it costs until due."""
        if self._is_late():
            return 1.0
        coming, position, due_at = self.coming(), self.position, self.queue[0].deadline
        span_s = coming.compute_s[due_at] - coming.compute_s[position]
        return (coming.lost_s[due_at] - coming.lost_s[position]) / span_s if span_s > 0 else 1.0

    def _is_late(self) -> bool:
        """Whether some collective misses its deadline if all goes only at rates that slow no compute."""
        coming, position = self.coming(), self.position
        before_s = 0.0
        for transfer in self.queue:
            before_s += transfer.left_s
            deadline = transfer.deadline
            coming_s = coming.issued_s[deadline] - coming.issued_s[position]
            free_s = coming.free_s[deadline] - coming.free_s[position]
            if before_s + coming_s + transfer.load.latency_s > free_s:
                return True
        return False


def _alone_rate_frac(load: Load, arbitration: str, share: tuple[float, Cores]) -> float:
    if arbitration != STATIC:
        return load.most_rate_frac
    hbm, cores = share
    needs = ((hbm, load.hbm_frac), (cores.frac, load.core_frac))
    return min((1.0, *(share / need for share, need in needs if need > 0)))


def shared_iteration(
    steps: tuple[Step, ...], loads: dict[str, Load], arbitration: str, feed_frac: float = 1.0
) -> SharedIteration:
    """An iteration of `steps` in steady state, run again and again; a row may wait for the iteration before.

    A static split keeps what feeds `feed_frac` of the links' rate; other arbitrations do not ask for it.
    """
    if arbitration != STATIC and arbitration not in ARBITERS:
        names = (STATIC, *ARBITERS)
        raise InvalidInput(f"no arbitration is named {arbitration!r}{did_you_mean(arbitration, names)}", "arbitration")
    alone_s = sum(step.compute_s for step in steps)
    if not loads:
        return SharedIteration(iteration_s=alone_s, alone_s=alone_s, blocking_s=0.0)
    share = static_share(loads, feed_frac) if arbitration == STATIC else (0.0, Cores())
    coming = cache(lambda: ahead(steps, loads, NUM_ITERATIONS))
    chip = _Chip(
        loads=loads,
        arbitration=arbitration,
        due=due(steps * NUM_ITERATIONS),
        coming=coming,
        alone_rates_frac={name: _alone_rate_frac(load, arbitration, share) for name, load in loads.items()},
    )
    timed = [(step, step.speed_frac(1 - share[0], share[1])) for step in steps]
    start_s = start_waiting_s = 0.0
    for _ in range(NUM_ITERATIONS):
        start_s, start_waiting_s = chip.now_s, chip.blocking_s
        for step, alone_speed_frac in timed:
            chip.run(step, alone_speed_frac)
    return SharedIteration(
        iteration_s=chip.now_s - start_s, alone_s=alone_s, blocking_s=chip.blocking_s - start_waiting_s
    )
