"""Work of one direction of one microbatch, and of a stage: compute, communication beside it, the clock it runs at."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dovetail.cost.cost import Cost
from dovetail.cost.op_cost import LIMITS
from dovetail.cost.power import at_clock
from dovetail.hardware.chip import Chip

COMM_AXES = ("tp", "cp", "ep", "dp", "pp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comm:
    """Seconds of communication of one axis: what compute waits for, and what runs beside it."""

    exposed_s: float = 0.0
    hidden_s: float = 0.0

    def __add__(self, other: Comm) -> Comm:
        return Comm(exposed_s=self.exposed_s + other.exposed_s, hidden_s=self.hidden_s + other.hidden_s)

    def __mul__(self, num_repeats: float) -> Comm:
        return Comm(exposed_s=num_repeats * self.exposed_s, hidden_s=num_repeats * self.hidden_s)

    __rmul__ = __mul__


NOTHING = Cost()
NO_WAITS = (0.0,) * len(COMM_AXES)
_OWN_WINDOW = {"cp": COMM_AXES.index("cp"), "ep": COMM_AXES.index("ep")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One direction of one microbatch: compute, communication by axis (in COMM_AXES order), bytes sent."""

    cost: Cost = NOTHING
    core: Cost = NOTHING  # of it the attention core, behind which context exchange hides
    experts: Cost = NOTHING  # and the experts, behind which expert exchange does
    waiting_s: tuple[float, ...] = NO_WAITS  # communication that compute waits for
    beside_s: tuple[float, ...] = NO_WAITS  # communication that may run beside it
    sent_bytes: float = 0.0
    recompute_s: float = 0.0  # part of the compute that is recompute
    weight_s: float = 0.0  # part of the compute that only gradients of weights need
    limits_s: tuple[float, ...] = (0.0,) * len(LIMITS)  # compute time by what it waits for

    @property
    def time_s(self) -> float:
        """Seconds of the direction: the device's, or the host's where that queues more slowly than it runs."""
        return self.time_at_s(1.0)

    @property
    def host_wait_s(self) -> float:
        """Seconds the device waits for the host's queue."""
        return max(0.0, self.cost.host_s - self.cost.compute_s)

    def time_at_s(self, clock_frac: float) -> float:
        """Seconds of the direction at a share of full clock: what passes, and communication it does not hide."""
        passing_s = max(_slowed_s(self.cost, clock_frac), self.cost.host_s)
        return passing_s + sum(self.waiting_s) + sum(self.beside_s) - sum(self._hidden_s(clock_frac))

    @property
    def comm(self) -> tuple[Comm, ...]:
        """Communication by axis, exposed and hidden."""
        axes = zip(self.waiting_s, self.beside_s, self._hidden_s(1.0), strict=True)
        return tuple(Comm(exposed_s=w + b - h, hidden_s=h) for w, b, h in axes)

    def _hidden_s(self, clock_frac: float) -> list[float]:
        """What compute, or waiting for the host, covers of the communication beside it.

        Context exchange hides behind attention, expert exchange behind experts, and the rest behind what is then left.
        """
        compute_s = _slowed_s(self.cost, clock_frac)
        left_s = max(compute_s, self.cost.host_s)
        idle_s = left_s - compute_s
        hidden_s = [0.0] * len(COMM_AXES)
        for axis, part in (("cp", self.core), ("ep", self.experts)):
            index, window_s = _OWN_WINDOW[axis], _slowed_s(part, clock_frac)
            hidden_s[index] = min(self.beside_s[index], window_s + idle_s)
            idle_s -= max(0.0, hidden_s[index] - window_s)
            left_s -= hidden_s[index]
        others = [index for index in range(len(COMM_AXES)) if index not in _OWN_WINDOW.values()]
        rest_s = sum(self.beside_s[index] for index in others)
        frac = min(1.0, max(0.0, left_s) / rest_s) if rest_s > 0 else 0.0
        for index in others:
            hidden_s[index] = frac * self.beside_s[index]
        return hidden_s

    def at_clock(self, clock_frac: float) -> Work:
        """The same work at a share of full clock; its parts by limit stretch alike."""
        cost = at_clock(self.cost, clock_frac)
        longer = cost.compute_s / self.cost.compute_s if self.cost.compute_s > 0 else 1.0
        return replace(
            self,
            cost=cost,
            core=at_clock(self.core, clock_frac),
            experts=at_clock(self.experts, clock_frac),
            recompute_s=longer * self.recompute_s,
            weight_s=longer * self.weight_s,
            limits_s=tuple(longer * limit_s for limit_s in self.limits_s),
        )

    def __add__(self, other: Work) -> Work:
        return Work(
            cost=self.cost + other.cost,
            core=self.core + other.core,
            experts=self.experts + other.experts,
            waiting_s=_sums(self.waiting_s, other.waiting_s),
            beside_s=_sums(self.beside_s, other.beside_s),
            sent_bytes=self.sent_bytes + other.sent_bytes,
            recompute_s=self.recompute_s + other.recompute_s,
            weight_s=self.weight_s + other.weight_s,
            limits_s=_sums(self.limits_s, other.limits_s),
        )

    def __mul__(self, num_repeats: float) -> Work:
        return Work(
            cost=num_repeats * self.cost,
            core=num_repeats * self.core,
            experts=num_repeats * self.experts,
            waiting_s=tuple(num_repeats * wait_s for wait_s in self.waiting_s),
            beside_s=tuple(num_repeats * beside_s for beside_s in self.beside_s),
            sent_bytes=num_repeats * self.sent_bytes,
            recompute_s=num_repeats * self.recompute_s,
            weight_s=num_repeats * self.weight_s,
            limits_s=tuple(num_repeats * limit for limit in self.limits_s),
        )

    __rmul__ = __mul__


def _slowed_s(cost: Cost, clock_frac: float) -> float:
    """Seconds of `cost` at a share of full clock."""
    return cost.compute_s + cost.clocked_s * (1 / clock_frac - 1)


def _sums(a: tuple[float, ...], b: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(x + y for x, y in zip(a, b, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class StageWork:
    """One microbatch through one stage, and the update at the end of the step."""

    forward: Work
    backward: Work
    update: Cost
    clock_frac: float = 1.0  # share of full clock that the power limit leaves it

    @property
    def host_wait_s(self) -> float:
        """Seconds a microbatch waits for the host's queue, both ways."""
        return self.forward.host_wait_s + self.backward.host_wait_s

    @property
    def comm(self) -> tuple[Comm, ...]:
        """Communication by axis, both ways."""
        return tuple(f + b for f, b in zip(self.forward.comm, self.backward.comm, strict=True))

    @property
    def put_off_s(self) -> float:
        """Seconds of the backward pass that could be a later pass: the weight gradients' share of its compute."""
        compute_s = self.backward.cost.compute_s
        return self.backward.time_s * self.backward.weight_s / compute_s if compute_s > 0 else 0.0

    def power_w(self, chip: Chip, clock_frac: float) -> float:
        """Mean power of microbatch after microbatch at a share of full clock, links included."""
        time_s = self.forward.time_at_s(clock_frac) + self.backward.time_at_s(clock_frac)
        if time_s <= 0:
            return chip.energy.idle_w
        dynamic_j = (self.forward.sent_bytes + self.backward.sent_bytes) * chip.energy.link_j_per_byte
        for work in (self.forward, self.backward):
            dynamic_j += at_clock(work.cost, clock_frac).energy_j
        return chip.energy.idle_w + dynamic_j / time_s
