"""The question of a joint search: models to train, a space of systems, what they may take, and what is best."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dovetail.errors import InvalidInput, NotModelled
from dovetail.hardware.chip import Chip
from dovetail.hardware.cluster import Cluster
from dovetail.search.codesign.networks import AS_GIVEN, Networks, can_be_joined, network_coded
from dovetail.search.codesign.systems import (
    KNOBS,
    LEAST,
    Built,
    built_systems,
    check_knobs,
    system_chip,
    system_of,
)
from dovetail.search.metrics import Metric
from dovetail.search.planners.plan_space import PlanSpace
from dovetail.search.space import Knob, Point, Space
from dovetail.workload.graph import BoolArray, FloatArray, IntArray
from dovetail.workload.workload import Workload

CLOSE_FRAC = 1e-9  # style: a tolerance, of what the base takes; sums in another order differ by less
NO_PRICE = "some part of this network has no published price; leave dollars out, or take another network"
Systems = dict[str, FloatArray]
Rule = Callable[[Systems], BoolArray]  # which systems of a space are part of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A model to train: by any plan of `plans`; of several, what they come to counts by weight.

    With `is_even_only` plans whose layers or recompute differ by stage are left out.
    """

    workload: Workload
    plans: PlanSpace
    weight: float = 1.0
    is_even_only: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.weight < math.inf:
            raise InvalidInput(f"the weight of {self.name} must be positive; got {self.weight:g}", "weight")

    @property
    def name(self) -> str:
        return self.workload.model.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a system may take at most: a chip of area and power, all devices together of area, power and money."""

    area_mm2: float = math.inf
    power_w: float = math.inf
    total_area_mm2: float = math.inf
    total_power_w: float = math.inf
    total_usd: float = math.inf

    def __post_init__(self) -> None:
        for label in ("area_mm2", "power_w", "total_area_mm2", "total_power_w", "total_usd"):
            if not getattr(self, label) > 0:
                raise InvalidInput(f"the limit {label} must be positive; got {getattr(self, label):g}", label)

    def shares(self, built: Built, num_devices: FloatArray) -> dict[str, FloatArray]:
        """Of each limit that is set, how much of it every system takes."""
        taken = {
            "area_mm2": built.area_mm2,
            "power_w": built.power_w,
            "total_area_mm2": num_devices * built.area_mm2,
            "total_power_w": num_devices * built.joined_w,
            "total_usd": num_devices * built.joined_usd,
        }
        limits = {name: getattr(self, name) for name in taken}
        if math.isfinite(self.total_usd) and np.isnan(built.network_usd).any():
            raise NotModelled(NO_PRICE, "network")
        return {name: taken[name] / limit for name, limit in limits.items() if math.isfinite(limit)}

    def excess_frac(self, built: Built, num_devices: FloatArray) -> FloatArray:
        """How far each system is beyond the limit it breaks most; 0 where it keeps all."""
        most = np.ones(len(built.area_mm2))
        for share in self.shares(built, num_devices).values():
            most = np.maximum(most, share)
        return most - 1.0


def everything(systems: Systems) -> BoolArray:
    """Every combination is part of the space."""
    return np.ones(len(systems["num_tensor"]), dtype=bool)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JointQuestion:
    """Which system of `space` trains `cases` best by `metric` within `budget`, each by its best plan.

    Of several cases the weighted geometric mean counts, each over `reference_losses`: what it comes to on a system to
    compare with. `rule` says which combinations of knobs are part of the space. `network` joins the devices of systems
    whose own knob names none.
    """

    cases: tuple[Case, ...]
    base: Chip
    network: Networks
    space: Space
    budget: Budget
    metric: Metric
    reference_losses: tuple[float, ...]
    rule: Rule = field(default=everything)

    def cluster(self, system: Mapping[str, float], chip: Chip | None = None) -> Cluster:
        """A system's devices joined by its network; of another chip where one is given."""
        code = system["network"]
        build = self.network if code == AS_GIVEN else network_coded(code).build
        return build(system_chip(self.base, system) if chip is None else chip, int(system["num_devices"]))

    def is_part(self, systems: Systems) -> BoolArray:
        """Which combinations of knobs are systems: of the rule, with switches that the endpoint needs, and a slice."""
        num_devices = int(systems["num_devices"].max())
        own = self.network(self.base, num_devices).topology.dimensions if AS_GIVEN in systems["network"] else ()
        has_own_switches = bool(own) and all(one.can_reduce for one in own)
        found = self.rule(systems) & can_be_joined(
            systems["endpoint"], systems["network"], has_own_switches=has_own_switches
        )
        for code, count in self._without_slice():
            found = found & ~((systems["network"] == code) & (systems["num_devices"] == count))
        return np.asarray(found)

    def _without_slice(self) -> list[tuple[float, float]]:
        """Networks and numbers of devices that they have no slice of, where another network of the space joins them.

        A number that none of them joins stays: it is refused where it is built, with the numbers that there are.
        """
        values = {knob.name: knob.values for knob in self.space.knobs}
        kinds = [code for code in values["network"] if code != AS_GIVEN]
        found = []
        for count in values["num_devices"] if len(values["network"]) > 1 else ():
            refused = [code for code in kinds if not _joins(network_coded(code).build, self.base, int(count))]
            found += [(code, count) for code in refused if len(refused) < len(values["network"])]
        return found

    @property
    def weights(self) -> FloatArray:
        weights = np.array([case.weight for case in self.cases])
        return np.asarray(weights / weights.sum())

    def combined(self, losses: FloatArray) -> FloatArray:
        """Cases by systems as one loss each."""
        ratios = losses / np.array(self.reference_losses)[:, None]
        return np.asarray(np.exp(self.weights @ np.log(ratios)))

    def mean(self, figures: FloatArray) -> FloatArray:
        """Cases by systems as their weighted geometric mean each."""
        return np.asarray(np.exp((self.weights[:, None] * np.log(figures)).sum(axis=0)))


def system_space(base: Chip, num_devices: int, values: Mapping[str, Sequence[float]]) -> Space:
    """A knob for everything a system is; those that `values` leaves out stay as the base has them.

    Dataflows and endpoints are by their codes.
    """
    unknown = sorted(set(values) - set(KNOBS))
    if unknown:
        raise InvalidInput(f"no knob is named {unknown[0]!r}; there are {', '.join(KNOBS)}", unknown[0])
    fixed, chosen = (
        system_of(base, num_devices),
        {name: tuple(values_of_knob) for name, values_of_knob in values.items()},
    )
    check_knobs(base, chosen)
    return Space(
        knobs=tuple(
            Knob(name=name, values=chosen.get(name, (fixed[name],)), least=LEAST.get(name, 1.0)) for name in KNOBS
        )
    )


def base_system(base: Chip, num_devices: int, space: Space) -> dict[str, float]:
    """The base chip as it is: what a space fixes for others is a choice, and none of the base's.

    But links of one speed are the network that all are compared on. Of several networks it has the first, in the order
    of their codes: a torus, where that is among them.
    """
    [links] = [knob.values for knob in space.knobs if knob.name == "link_gb_per_s"]
    [networks] = [knob.values for knob in space.knobs if knob.name == "network"]
    own = system_of(base, num_devices) | {"network": networks[0]}
    return own | ({"link_gb_per_s": links[0]} if len(links) == 1 else {})


def _joins(build: Networks, base: Chip, num_devices: int) -> bool:
    try:
        build(base, num_devices)
    except InvalidInput:
        return False
    return True


def base_budget(base: Chip, space: Space) -> Budget:
    """What the base chip itself takes of every limit, as many devices as the space has at the most.

    Without limit in dollars, where the price of a part of its network is not published.
    """
    [devices] = [knob.values for knob in space.knobs if knob.name == "num_devices"]
    system = base_system(base, int(devices[-1]), space)
    built = built_systems(base, {name: np.array([value]) for name, value in system.items()})
    one = {"area_mm2": built.area_mm2, "power_w": built.power_w}
    joined = {"area_mm2": built.area_mm2, "power_w": built.joined_w, "usd": built.joined_usd}
    total = {f"total_{name}": devices[-1] * column for name, column in joined.items()}
    limits = {name: float(column[0]) * (1 + CLOSE_FRAC) for name, column in (one | total).items()}
    return Budget(**{name: math.inf if math.isnan(limit) else limit for name, limit in limits.items()})


def places_of(points: Sequence[Point]) -> dict[str, IntArray]:
    """Points by knob: which of its values each has."""
    columns = np.array(points, dtype=np.int64).reshape(-1, len(KNOBS))
    return {name: columns[:, place] for place, name in enumerate(KNOBS)}


def systems_at(space: Space, places: dict[str, IntArray]) -> Systems:
    """Points as values of their knobs."""
    systems = {}
    for knob in space.knobs:
        values, place = np.array(knob.values, dtype=np.float64), places[knob.name]
        systems[knob.name] = values[place] if len(values) > 1 else np.broadcast_to(values[0], place.shape)
    return systems
