"""Work of one microbatch on a stage: compute, communication that overlaps it, and the clock under the power limit.

The power limit sets the clock in `sustained`. `Work` is one direction (a forward or a backward pass) and `StageWork`
both. Every amount may be an array: then one value is the work of many blocks, stages or plans. `stage_work` makes such
a value from the rows of one array, in which many of them are summed at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Protocol

import numpy as np

from dovetail.comm.jitter import latest
from dovetail.cost.columns import ChipColumns
from dovetail.cost.cost import Cost
from dovetail.cost.op_cost import LIMITS
from dovetail.cost.power import Powered, at_clock, energy_at_j, mean_w, sustained_clock_frac
from dovetail.hardware.chip import Calibration, Chip
from dovetail.hardware.endpoints import SM_HELD_FRAC, Endpoint
from dovetail.units import Amount
from dovetail.workload.graph import FloatArray, IntArray

COMM_AXES = ("tp", "cp", "ep", "dp", "pp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comm:
    """Seconds of communication of one axis: what compute waits for, and what runs beside it."""

    exposed_s: Amount = 0.0
    hidden_s: Amount = 0.0

    def __add__(self, other: Comm) -> Comm:
        return Comm(exposed_s=self.exposed_s + other.exposed_s, hidden_s=self.hidden_s + other.hidden_s)

    def __mul__(self, num_repeats: Amount) -> Comm:
        return Comm(exposed_s=num_repeats * self.exposed_s, hidden_s=num_repeats * self.hidden_s)

    __rmul__ = __mul__


HELD_FRAC = SM_HELD_FRAC  # share of compute that a collective beside it takes, unless a chip has another endpoint
_ADDING = ("tp", "dp")  # axes whose collectives reduce, with the gathers that go with them; others only move bytes
NOTHING = Cost()
NO_WAITS: tuple[Amount, ...] = (0.0,) * len(COMM_AXES)
_CP = COMM_AXES.index("cp")
_OTHERS = tuple(index for index in range(len(COMM_AXES)) if index != _CP)


def compute_slowdown_fracs(endpoint: Endpoint) -> tuple[float, ...]:
    """Share of compute that is lost to communication that overlaps it, by axis."""
    adding, moving = endpoint.adding_slowdown_frac, endpoint.moving_held_frac
    return tuple(adding if axis in _ADDING else moving for axis in COMM_AXES)


def held_s(fracs: Sequence[Amount], times_s: Sequence[Amount]) -> Amount:
    """The sum of `fracs` times `times_s`; equal shares are applied to the sum, so that the last digit agrees."""
    first = fracs[0]
    if all(frac is first or (isinstance(frac, float) and frac == first) for frac in fracs):
        return first * sum(times_s)
    return sum(frac * time_s for frac, time_s in zip(fracs, times_s, strict=True))


def _mean_frac(fracs: Sequence[Amount], times_s: Sequence[Amount]) -> Amount:
    """The mean of `fracs` weighted by `times_s`; the first where there is no time."""
    first = fracs[0]
    if all(isinstance(frac, float) and frac == first for frac in fracs):
        return first
    total_s = np.asarray(sum(times_s))
    is_any = total_s > 0
    return np.where(is_any, held_s(fracs, times_s) / np.where(is_any, total_s, 1.0), first)[()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """All that the seconds of one direction depend on, besides the clock; see `Work`."""

    compute_s: Amount
    clocked_s: Amount
    queued_s: Amount  # of the host, beyond communication that is waited for
    comm_s: Amount  # all communication
    context_s: Amount  # of it context parallelism's, which hides behind attention alone
    core_s: Amount  # the attention's own seconds
    core_clocked_s: Amount
    rest_s: Amount  # communication that hides behind anything
    context_held_frac: Amount = HELD_FRAC
    rest_held_frac: Amount = HELD_FRAC

    def time_s(self, clock_frac: Amount, slowest_frac: float = 1.0) -> Amount:
        """Seconds of the direction at a share of full clock: compute and waits for the host, and exposed communication.

        The device waits for the host and for communication no longer than a device whose clock is `slowest_frac` of
        its own does.
        """
        compute_s = self.compute_s + self.clocked_s * (1 / clock_frac - 1)
        behind_s = self.clocked_s * (1 / slowest_frac - 1) / clock_frac
        passing_s = np.maximum(compute_s, self.queued_s - behind_s)
        host_wait_s, longer = passing_s - compute_s, 1 / (clock_frac * slowest_frac) - 1
        context_s = np.minimum(self.context_s, self.core_s + self.core_clocked_s * longer + host_wait_s)
        rest_s = np.minimum(self.rest_s, np.maximum(0.0, passing_s + behind_s - context_s))
        hidden_s = context_s + rest_s
        compute_slowdown_frac = _mean_frac((self.context_held_frac, self.rest_held_frac), (context_s, rest_s))
        return passing_s + self.comm_s - hidden_s + compute_slowdown_frac * np.maximum(0.0, hidden_s - host_wait_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """Power of a stage in its passes of one direction, or of both where amounts have them as first axis; with links."""

    timing: Timing
    energy_j: Amount
    core_j: Amount
    slowest_frac: float = 1.0  # clock of the device that sets the pace against this one's

    def power_w(self, chip: Powered, clock_frac: Amount) -> Amount:
        """Mean power of a pass at a share of full clock."""
        time_s = self.timing.time_s(clock_frac, self.slowest_frac)
        return mean_w(chip, energy_at_j(self.energy_j, self.core_j, clock_frac), time_s)


def _are_one(first: Amount, second: Amount) -> bool:
    return isinstance(first, float) and isinstance(second, float) and first == second


def both(forward: Draw, backward: Draw) -> Draw:
    """Draws of the two directions as one, with them as first axis."""
    pairs = {
        field.name: (getattr(forward.timing, field.name), getattr(backward.timing, field.name))
        for field in fields(Timing)
    }
    energy_j, core_j = (forward.energy_j, backward.energy_j), (forward.core_j, backward.core_j)
    shape = np.broadcast_shapes(*(np.shape(one) for pair in (*pairs.values(), energy_j, core_j) for one in pair))

    def joined(pair: tuple[Amount, Amount]) -> FloatArray:
        found = np.empty((DIRECTIONS, *shape))
        found[0], found[1] = pair
        return found

    timing = Timing(**{name: pair[0] if _are_one(*pair) else joined(pair) for name, pair in pairs.items()})
    return Draw(timing=timing, energy_j=joined(energy_j), core_j=joined(core_j), slowest_frac=forward.slowest_frac)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One direction of one microbatch: compute, communication by axis (in COMM_AXES order), bytes sent."""

    cost: Cost = NOTHING
    core: Cost = NOTHING  # of it the attention core, behind which context-parallel communication hides
    blocking_s: tuple[Amount, ...] = NO_WAITS  # communication that compute waits for
    overlappable_s: tuple[Amount, ...] = NO_WAITS  # communication that may run beside it
    sent_bytes: Amount = 0.0
    recompute_s: Amount = 0.0  # part of the compute that is recompute
    weight_flop: Amount = 0.0  # of the FLOP, those that only gradients of weights need
    limits_s: tuple[Amount, ...] = (0.0,) * len(LIMITS)  # compute time by what it waits for
    compute_slowdown_frac: tuple[float, ...] = (HELD_FRAC,) * len(
        COMM_AXES
    )  # of compute, by what runs beside it, by axis
    clock_frac: Amount = 1.0  # share of full clock that the power limit leaves it

    @property
    def time_s(self) -> Amount:
        """Seconds of the direction: the device's, or the host's where that queues more slowly than it runs."""
        return self.time_at_s(1.0)

    @property
    def host_wait_s(self) -> Amount:
        """Seconds the device waits for the host's queue."""
        return np.maximum(0.0, self.cost.host_s - self.cost.compute_s - sum(self.blocking_s))

    @property
    def weight_frac(self) -> Amount:
        """Weight gradients' share of the direction, by FLOP: the same on every chip.

        By seconds it would be larger where only the rest of a pass is faster, and later passes would take longer.
        """
        flop = np.asarray(self.cost.flop)
        is_work = flop > 0
        return np.where(is_work, self.weight_flop / np.where(is_work, flop, 1.0), 0.0)[()]

    def time_at_s(self, clock_frac: Amount) -> Amount:
        """Seconds of the direction at a share of full clock."""
        return self.timing.time_s(clock_frac)

    @property
    def timing(self) -> Timing:
        waited_s = sum(self.blocking_s)
        return Timing(
            compute_s=self.cost.compute_s,
            clocked_s=self.cost.clocked_s,
            queued_s=self.cost.host_s - waited_s,
            comm_s=waited_s + sum(self.overlappable_s),
            context_s=self.overlappable_s[_CP],
            core_s=self.core.compute_s,
            core_clocked_s=self.core.clocked_s,
            rest_s=sum(self.overlappable_s[index] for index in _OTHERS),
            context_held_frac=self.compute_slowdown_frac[_CP],
            rest_held_frac=_mean_frac(
                *([part[index] for index in _OTHERS] for part in (self.compute_slowdown_frac, self.overlappable_s))
            ),
        )

    @property
    def comm(self) -> tuple[Comm, ...]:
        """Communication by axis, exposed and hidden."""
        axes = zip(self.blocking_s, self.overlappable_s, self._hidden_s(1.0), strict=True)
        return tuple(Comm(exposed_s=w + b - h, hidden_s=h) for w, b, h in axes)

    def _hidden_s(self, clock_frac: Amount) -> list[Amount]:
        """How much of the overlappable communication is hidden by compute, or by waits for the host, by axis.

        Context-parallel communication hides behind attention, the rest behind the compute that is then left. Expert
        all-to-alls hide behind the compute of another microbatch (Megatron's --overlap-moe-expert-parallel-comm,
        DualPipe). Behind compute, communication takes a share of the device; behind waits for the host, which are used
        first, it takes none.
        """
        compute_s = _slowed_s(self.cost, clock_frac)
        left_s = np.maximum(compute_s, self.cost.host_s - sum(self.blocking_s))
        host_wait_s = left_s - compute_s
        hidden_s: list[Amount] = [0.0] * len(COMM_AXES)
        hidden_s[_CP] = np.minimum(self.overlappable_s[_CP], _slowed_s(self.core, clock_frac) + host_wait_s)
        left_s = left_s - hidden_s[_CP]
        rest_s = np.asarray(sum(self.overlappable_s[index] for index in _OTHERS))
        is_rest = rest_s > 0
        frac = np.where(is_rest, np.minimum(1.0, np.maximum(0.0, left_s) / np.where(is_rest, rest_s, 1.0)), 0.0)[()]
        for index in _OTHERS:
            hidden_s[index] = frac * self.overlappable_s[index]
        total_s = np.asarray(sum(hidden_s))
        is_any = total_s > 0
        behind = np.where(is_any, np.maximum(0.0, total_s - host_wait_s) / np.where(is_any, total_s, 1.0), 0.0)[()]
        return [(1 - frac * behind) * hidden for frac, hidden in zip(self.compute_slowdown_frac, hidden_s, strict=True)]

    def at_clock(self, clock_frac: Amount) -> Work:
        """The same work at a share of full clock; its parts by limit all take longer by the same factor."""
        cost = at_clock(self.cost, clock_frac)
        is_work = np.asarray(self.cost.compute_s) > 0
        longer = np.where(is_work, cost.compute_s / np.where(is_work, self.cost.compute_s, 1.0), 1.0)[()]
        return replace(
            self,
            cost=cost,
            core=at_clock(self.core, clock_frac),
            recompute_s=longer * self.recompute_s,
            limits_s=tuple(longer * limit_s for limit_s in self.limits_s),
        )

    def draw(self, chip: Powered, slowest_frac: float = 1.0) -> Draw:
        """The direction's power; a device whose clock is `slowest_frac` of its own sets the pace."""
        return Draw(
            timing=self.timing,
            energy_j=self.cost.energy_j + self.sent_bytes * chip.energy.link_j_per_byte,
            core_j=self.cost.core_j,
            slowest_frac=slowest_frac,
        )

    def at(self, *index: IntArray) -> Work:
        """The entries at `index`, of amounts that are arrays; plain numbers stay."""
        return Work(
            cost=_cost_at(self.cost, index),
            core=_cost_at(self.core, index),
            blocking_s=tuple(_at(wait_s, index) for wait_s in self.blocking_s),
            overlappable_s=tuple(_at(overlappable_s, index) for overlappable_s in self.overlappable_s),
            sent_bytes=_at(self.sent_bytes, index),
            recompute_s=_at(self.recompute_s, index),
            weight_flop=_at(self.weight_flop, index),
            limits_s=tuple(_at(limit_s, index) for limit_s in self.limits_s),
            compute_slowdown_frac=tuple(_at(frac, index) for frac in self.compute_slowdown_frac),
            clock_frac=_at(self.clock_frac, index),
        )


def _at(amount: Amount, index: tuple[IntArray, ...]) -> Amount:
    return amount[index] if isinstance(amount, np.ndarray) else amount


def _cost_at(cost: Cost, index: tuple[IntArray, ...]) -> Cost:
    return Cost(**{field.name: _at(getattr(cost, field.name), index) for field in fields(Cost)})


def _slowed_s(cost: Cost, clock_frac: Amount) -> Amount:
    """Seconds of `cost` at a share of full clock."""
    return cost.compute_s + cost.clocked_s * (1 / clock_frac - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageWork:
    """One microbatch through one stage."""

    forward: Work
    backward: Work

    @property
    def clock_frac(self) -> Amount:
        """Share of full clock that the power limit leaves it, both ways: the mean over what waits for the clock."""
        ways = self.forward, self.backward
        taken_s = np.asarray(sum(way.cost.clocked_s for way in ways))
        is_work = taken_s > 0
        full_s = sum(way.cost.clocked_s * way.clock_frac for way in ways)
        least = np.minimum(self.forward.clock_frac, self.backward.clock_frac)
        return np.where(is_work, full_s / np.where(is_work, taken_s, 1.0), least)[()]

    def at(self, *index: int | IntArray) -> StageWork:
        """The entries at `index`."""
        places = tuple(np.array(place) for place in index)
        return StageWork(
            forward=self.forward.at(*places),
            backward=self.backward.at(*places),
        )

    @property
    def host_wait_s(self) -> Amount:
        """Seconds a microbatch waits for the host's queue, both ways."""
        return self.forward.host_wait_s + self.backward.host_wait_s

    @property
    def comm(self) -> tuple[Comm, ...]:
        """Communication by axis, both ways."""
        return tuple(f + b for f, b in zip(self.forward.comm, self.backward.comm, strict=True))

    @property
    def deferrable_wgrad_s(self) -> Amount:
        """Seconds of the backward pass that could be a later pass: the weight gradients' share of it."""
        return self.backward.time_s * self.backward.weight_frac


COSTS = tuple(field.name for field in fields(Cost))
# Rows that time and energy of a step follow from come first, then those that only tell where the time goes.
_TIMED_ROWS = (
    *(("cost", COSTS.index(name)) for name in ("compute_s", "clocked_s", "energy_j", "core_j", "host_s", "flop")),
    *(("core", COSTS.index(name)) for name in ("compute_s", "clocked_s")),
    *((name, axis) for name in ("blocking_s", "overlappable_s") for axis in range(len(COMM_AXES))),
    ("sent_bytes", 0),
    ("weight_flop", 0),
    ("recompute_s", 0),
)
_ALL_ROWS = (
    *((part, index) for part in ("cost", "core") for index in range(len(COSTS))),
    *((name, axis) for name in ("blocking_s", "overlappable_s") for axis in range(len(COMM_AXES))),
    *((name, 0) for name in ("sent_bytes", "weight_flop", "recompute_s")),
    *(("limits_s", limit) for limit in range(len(LIMITS))),
)
_ORDER = tuple(dict.fromkeys((*_TIMED_ROWS, *_ALL_ROWS)))
ROWS = {
    part: tuple(_ORDER.index(row) for row in sorted(_ALL_ROWS) if row[0] == part)
    for part in dict.fromkeys(part for part, _ in _ALL_ROWS)
}
NUM_TIMED, NUM_ROWS = len(_TIMED_ROWS), len(_ORDER)
COMPUTE, HOST = (ROWS["cost"][COSTS.index(name)] for name in ("compute_s", "host_s"))
DIRECTIONS = 2  # forward and backward, the first axis of such arrays; the second are these rows


def cost_of(rows: Sequence[Amount] | FloatArray) -> Cost:
    """Rows in the order of COSTS as a value."""
    return Cost(**dict(zip(COSTS, rows, strict=True)))


def stage_work(columns: FloatArray, endpoint: Endpoint) -> StageWork:
    """`columns` (directions by rows by any further axes) as a `StageWork` of arrays; rows left out are zero."""
    compute_slowdown_frac = compute_slowdown_fracs(endpoint)
    forward, backward = (
        _work([*direction, *(0.0 for _ in range(NUM_ROWS - len(direction)))], compute_slowdown_frac)
        for direction in columns
    )
    return StageWork(forward=forward, backward=backward)


def _work(rows: Sequence[Amount], compute_slowdown_frac: tuple[float, ...]) -> Work:
    part = {name: tuple(rows[index] for index in places) for name, places in ROWS.items()}
    cost, core = (cost_of(part[name]) for name in ("cost", "core"))
    return Work(
        cost=cost,
        core=core,
        blocking_s=part["blocking_s"],
        overlappable_s=part["overlappable_s"],
        sent_bytes=part["sent_bytes"][0],
        recompute_s=part["recompute_s"][0],
        weight_flop=part["weight_flop"][0],
        limits_s=part["limits_s"],
        compute_slowdown_frac=compute_slowdown_frac,
    )


class Running(Powered, Protocol):
    """A chip, or many that are calibrated alike."""

    @property
    def calibration(self) -> Calibration: ...

    @property
    def endpoint_kind(self) -> Endpoint: ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EnergyRows:
    """Idle power of many chips, and the energy of a byte sent, which is the same for all of them."""

    idle_w: FloatArray
    link_j_per_byte: Amount


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChipRows:
    """Many chips that are calibrated alike, with one kind of endpoint: an entry each."""

    tdp_w: FloatArray
    energy: EnergyRows
    calibration: Calibration
    endpoint_kind: Endpoint

    def at(self, rows: IntArray) -> ChipRows:
        """Of `rows`, in whatever shape these have."""
        energy = EnergyRows(idle_w=self.energy.idle_w[rows], link_j_per_byte=self.energy.link_j_per_byte)
        return replace(self, tdp_w=self.tdp_w[rows], energy=energy)


def chip_rows(chips: ChipColumns, base: Chip) -> ChipRows:
    """`chips`, which are calibrated as `base` and have its endpoint."""
    energy = EnergyRows(idle_w=chips.idle_w, link_j_per_byte=base.energy.link_j_per_byte)
    return ChipRows(tdp_w=chips.tdp_w, energy=energy, calibration=base.calibration, endpoint_kind=base.endpoint_kind)


def slowest_frac(num_devices: int, clock_spread_frac: float) -> float:
    """Clock of the slowest of `num_devices` against the mean: what all wait for (Blom's expectation of the extreme)."""
    return 1.0 / (1.0 + clock_spread_frac * latest(num_devices))


def entered(work: StageWork, chip: Running) -> StageWork:
    """The stage with the host's time to enter each of its passes."""
    calibration = chip.calibration
    calls_s = (calibration.host_call_s, calibration.host_backward_s)
    forward, backward = (
        replace(direction, cost=replace(direction.cost, host_s=direction.cost.host_s + call_s))
        for direction, call_s in zip((work.forward, work.backward), calls_s, strict=True)
    )
    return replace(work, forward=forward, backward=backward)


def sustained(work: StageWork, chip: Running, num_devices: int) -> StageWork:
    """The stage at its sustained clocks: the power limit sets one for each direction, the slowest device the pace.

    A regulator averages over milliseconds, and a pass of a stage takes as long. With one clock for both, a backward
    pass that took less time, and so drew more, would slow the forward pass.

    Energy is that of the mean device, which waits for the slowest. Only waits for the host and for communication that
    the slowest device has too let it cool: else a faster host would lower the clock of a device that never waited for
    it, and ranks that come later to collectives raise it, and shorten the step.
    """
    behind_frac = slowest_frac(num_devices, chip.calibration.clock_spread_frac)
    drawn = both(work.forward.draw(chip, behind_frac), work.backward.draw(chip, behind_frac))
    limit_fracs = sustained_clock_frac(drawn, chip)
    forward, backward = (
        _at_two_clocks(direction, behind_frac * limit_frac, limit_frac)
        for direction, limit_frac in zip((work.forward, work.backward), limit_fracs, strict=True)
    )
    return StageWork(forward=forward, backward=backward)


def _at_two_clocks(work: Work, clock_frac: Amount, limit_frac: Amount) -> Work:
    """`work` with its time at `clock_frac` and its energy at `limit_frac`."""
    slow, drawn = work.at_clock(clock_frac), at_clock(work.cost, limit_frac)
    cost = replace(slow.cost, energy_j=drawn.energy_j, core_j=drawn.core_j)
    return replace(slow, cost=cost, clock_frac=clock_frac)
