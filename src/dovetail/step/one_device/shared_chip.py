"""Compute and collectives that share one chip as rates, and slow each other: what shares, and who gets how much.

Both are fluids between events. A row of compute takes a share of HBM and of the cores, a collective takes links, HBM
and, where SMs drive it, cores that it holds from its first byte to its last (no pre-emption). What held cores cost a
row is what `contention.beside` says of its kernel, on chips whose kernels were measured so; on others their share.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import accumulate

from dovetail.errors import InvalidInput

FAIR_FRAC = 0.5  # of HBM, which compute keeps even beside a collective that could use all of it


Slowdowns = tuple[tuple[int, float], ...]  # style: (units held, time beside them over time alone), by units


@dataclass(frozen=True, slots=True, kw_only=True)
class Cores:
    """Cores that are held: of all that products can use, and in number."""

    frac: float = 0.0
    num_units: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A row of compute in program order, with the collectives it waits for and sets off."""

    compute_s: float
    hbm_frac: float
    core_frac: float
    waits: tuple[str, ...] = ()
    issues: tuple[str, ...] = ()
    slowdowns: Slowdowns = ()  # of its kernel by units held, on a chip whose contention is measured

    def speed_frac(self, hbm_left_frac: float, held: Cores) -> float:
        """Share of its full speed with so much of HBM, beside so many cores held; 1 when they suffice."""
        by_hbm = hbm_left_frac / self.hbm_frac if self.hbm_frac > hbm_left_frac else 1.0
        return min(by_hbm, 1 / self._slowdown(held))

    def _slowdown(self, held: Cores) -> float:
        if not self.slowdowns:
            return 1 + self.core_frac * (1 / (1 - held.frac) - 1)
        if not held.num_units:
            return 1.0
        index = bisect.bisect_left(self.slowdowns, (held.num_units, 0.0))
        assert index < len(self.slowdowns), f"no slow-down beside {held.num_units} units in {self.slowdowns}"
        return self.slowdowns[index][1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A collective on an otherwise idle chip: seconds on the links, and what it takes of the chip meanwhile."""

    link_s: float
    latency_s: float
    hbm_frac: float  # of HBM bandwidth at full link rate
    core_frac: float  # of cores, held while it runs
    num_units: int = 0  # the same in number

    @property
    def cores(self) -> Cores:
        return Cores(frac=self.core_frac, num_units=self.num_units)

    def __post_init__(self) -> None:
        if not self.link_s > 0 or not 0 <= self.core_frac < 1 or self.hbm_frac < 0:
            raise InvalidInput(f"a collective needs time on its links and must leave cores to compute; got {self}")

    @property
    def most_rate_frac(self) -> float:
        """Of full link rate, where the whole of HBM is its own."""
        return min(1.0, 1 / self.hbm_frac) if self.hbm_frac else 1.0

    def free_rate_frac(self, step: Step) -> float:
        """Of full link rate, without taking any HBM bandwidth from `step`."""
        if not self.hbm_frac:
            return 1.0
        return min(self.most_rate_frac, (1 - step.hbm_frac) / self.hbm_frac)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What an arbiter may know: the row that runs, the collective that goes first, and what sending now is worth."""

    step: Step
    load: Load
    worth: Callable[[], float]  # compute time saved later per link time sent now


Arbiter = Callable[[Outlook], float]  # rate of the collective, as a share of full link rate


def hbm_left_frac(step: Step, load: Load, rate_frac: float) -> float:
    """What a collective at that rate leaves of HBM to `step`: at least its need or half of all, if that is less."""
    return max(1 - rate_frac * load.hbm_frac, min(step.hbm_frac, FAIR_FRAC))


def speed_beside_frac(step: Step, load: Load, rate_frac: float) -> float:
    """Share of its full speed that `step` has beside a collective at that share of full link rate."""
    return step.speed_frac(hbm_left_frac(step, load, rate_frac), load.cores)


def priority(outlook: Outlook) -> float:
    """Communication first: it takes what its links can use, and compute has the rest."""
    return outlook.load.most_rate_frac


def dynamic(outlook: Outlook) -> float:
    """The rate that saves most marginal exposed time: what compute leaves of HBM free, or all the links can use.

    Speeds are linear in the rate, so one of the two ends is best: the greater of what link time sent now is worth minus
    the compute it costs now. It is worth a second a second where something is late, for compute will wait for it;
    where all is in time it is worth what it costs later, which is nothing if rows ahead leave HBM free.
    """
    most, free = outlook.load.most_rate_frac, outlook.load.free_rate_frac(outlook.step)
    worth = outlook.worth()
    return max((most, free), key=lambda rate: rate * worth - lost_frac(outlook.step, outlook.load, rate))


def lost_frac(step: Step, load: Load, rate_frac: float) -> float:
    """Share of its speed that `step` loses beside a collective at that share of full link rate."""
    return 1 - speed_beside_frac(step, load, rate_frac)


def least_price_ratio(step: Step, load: Load) -> float:
    """Compute lost per link time sent beside `step`, at the better of the two rates that `dynamic` takes."""
    rates = (load.most_rate_frac, load.free_rate_frac(step))
    return min(lost_frac(step, load, rate) / rate for rate in rates if rate > 0)


ARBITERS: dict[str, Arbiter] = {"priority": priority, "dynamic": dynamic}
STATIC = "static"  # a share of HBM and cores is the collectives' own, busy or not


def static_share(loads: dict[str, Load], feed_frac: float) -> tuple[float, Cores]:
    """(share of HBM, cores) that feed the links at `feed_frac` of their rate, at most half of either."""
    hbm = max((load.hbm_frac for load in loads.values()), default=0.0)
    cores = max((load.core_frac for load in loads.values()), default=0.0)
    num_units = max((load.num_units for load in loads.values()), default=0)
    held = Cores(frac=min(feed_frac * cores, FAIR_FRAC), num_units=math.ceil(feed_frac * num_units))
    return min(feed_frac * hbm, FAIR_FRAC), held


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """Where the rows of a program wait for each name."""

    num_rows: int
    waits_at: dict[str, tuple[int, ...]]

    def deadline(self, name: str, position: int) -> int:
        """The first row after `position` that waits for `name`, or the end."""
        places = self.waits_at.get(name, ())
        index = bisect.bisect_right(places, position)
        return places[index] if index < len(places) else self.num_rows


def due(steps: tuple[Step, ...]) -> Due:
    waits: dict[str, list[int]] = {}
    for position, step in enumerate(steps):
        for name in step.waits:
            waits.setdefault(name, []).append(position)
    return Due(num_rows=len(steps), waits_at={name: tuple(at) for name, at in waits.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """Prefix sums over a program: compute, link time free and issued, and what sending costs."""

    compute_s: tuple[float, ...]
    lost_s: tuple[float, ...]  # compute lost if the links were busy throughout
    free_s: tuple[float, ...]
    issued_s: tuple[float, ...]


def ahead(steps: tuple[Step, ...], loads: dict[str, Load], num_times: int) -> Ahead:
    """Over `steps` run so many times."""
    hungriest = max(loads.values(), key=lambda load: load.hbm_frac)
    return Ahead(
        compute_s=_sums([step.compute_s for step in steps] * num_times),
        lost_s=_sums([step.compute_s * least_price_ratio(step, hungriest) for step in steps] * num_times),
        free_s=_sums([step.compute_s * hungriest.free_rate_frac(step) for step in steps] * num_times),
        issued_s=_sums([sum(loads[name].link_s for name in step.issues) for step in steps] * num_times),
    )


def _sums(values: Iterable[float]) -> tuple[float, ...]:
    return tuple(accumulate(values, initial=0.0))
