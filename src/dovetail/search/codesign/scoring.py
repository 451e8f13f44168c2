"""Systems scored: of every case the best plan on each, or only a bound; frames and tables are made once and kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dovetail.errors import InvalidInput, NotModelled
from dovetail.hardware.cluster import Cluster
from dovetail.parallel.plan import Plan
from dovetail.search.codesign.best_plans import NO_PLAN, BestPlans, Chips, Losses, best_plans
from dovetail.search.codesign.compute_lower_bounds import ComputeLowerBounds
from dovetail.search.codesign.networks import AS_GIVEN
from dovetail.search.codesign.plan_sets import PlanSet, Unshardable, plan_set
from dovetail.search.codesign.question import NO_PRICE, Budget, JointQuestion, places_of, systems_at
from dovetail.search.codesign.system_bounds import Bounds
from dovetail.search.codesign.systems import (
    NETWORK,
    Built,
    Network,
    built_systems,
    network_j,
    network_of,
    system_of,
    taken,
)
from dovetail.search.metrics import ChipFigures
from dovetail.search.space import Point, Space
from dovetail.workload.graph import BoolArray, FloatArray, IntArray

SYSTEM_BATCH = 100_000  # bounded together


@dataclass(frozen=True, slots=True, kw_only=True)
class CasePlan:
    """A case on one system: its best even plan, by number, and what that comes to; NO_PLAN where none is known."""

    plan: int
    loss: float
    step_s: float
    energy_j: float
    low: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemScore:
    """What a system comes to: infinite where a case has no plan that fits, or none below the requested loss.

    `low` is a loss that no plans of its cases come below, uneven ones included where a case allows them.
    """

    point: Point
    loss: float
    low: float
    cases: tuple[CasePlan, ...]


class Scorer:
    """Scores points of a question; what depends on the network alone is worked out once for each of them."""

    def __init__(self, question: JointQuestion) -> None:
        self.question = question
        self._plan_sets: dict[tuple[int, float, int, int, int], PlanSet | Unshardable] = {}
        self._lower_bounds: dict[tuple[int, int, int], ComputeLowerBounds] = {}

    def under(self, budget: Budget) -> Scorer:
        """Of the same question with other limits, with what is worked out already."""
        other = Scorer(replace(self.question, budget=budget))
        other._plan_sets, other._lower_bounds = self._plan_sets, self._lower_bounds
        return other

    def over(self, space: Space) -> Scorer:
        """Of the same question with other systems, with what is worked out of networks."""
        other = Scorer(replace(self.question, space=space))
        other._plan_sets = self._plan_sets
        return other

    def alone(self, case: int) -> Scorer:
        """Of one case of the question, with what is worked out of it."""
        question = self.question
        only = replace(question, cases=(question.cases[case],), reference_losses=(question.reference_losses[case],))
        other = Scorer(only)
        other._plan_sets = {(0, *key[1:]): plan_set for key, plan_set in self._plan_sets.items() if key[0] == case}
        other._lower_bounds = {(0, *key[1:]): bounds for key, bounds in self._lower_bounds.items() if key[0] == case}
        return other

    def plan_set(self, case: int, links: float, num_devices: int, endpoint: int, kind: int = AS_GIVEN) -> PlanSet:
        """Of a case on a network, as `network_of` has it; some plan must cut it for that."""
        found = self.plan_set_or_unshardable(case, links, num_devices, endpoint, kind)
        assert isinstance(found, PlanSet), f"{found} has no plans to score"
        return found

    def plan_set_or_unshardable(
        self, case: int, links: float, num_devices: int, endpoint: int, kind: int = AS_GIVEN
    ) -> PlanSet | Unshardable:
        key = (case, links, num_devices, endpoint, kind)
        if key not in self._plan_sets:
            question = self.question
            chosen = {"link_gb_per_s": links, "endpoint": float(endpoint), "network": float(kind)}
            network = question.cluster(system_of(question.base, num_devices) | chosen)
            self._plan_sets[key] = self._known_elsewhere(case, network) or plan_set(
                question.cases[case].workload, network, question.cases[case].plans
            )
        return self._plan_sets[key]

    def _known_elsewhere(self, case: int, network: Cluster) -> PlanSet | None:
        """The frame of a case where there is one of as many devices whose links or endpoint differ."""
        for (other, _, num_devices, *_), plans in self._plan_sets.items():
            if (other, num_devices) == (case, network.num_devices) and isinstance(plans, PlanSet):
                return plans.elsewhere(network)
        return None

    def unshardable_at(self, point: Point) -> tuple[Unshardable, ...]:
        """Those cases that no plan cuts for the network of a system."""
        values = self.question.space.values(point)
        system = dict(zip((knob.name for knob in self.question.space.knobs), values, strict=True))
        network = network_of(system)
        found = (self.plan_set_or_unshardable(case, *network) for case in range(len(self.question.cases)))
        return tuple(plan_set for plan_set in found if isinstance(plan_set, Unshardable))

    def _compute_lower_bounds(
        self, case: int, links: float, num_devices: int, endpoint: int, kind: int = AS_GIVEN
    ) -> ComputeLowerBounds:
        """Whatever links and endpoint: nothing that is computed depends on them, but for plans that a network cuts."""
        key = (case, num_devices, kind)
        if key not in self._lower_bounds:
            plan_set, question = self.plan_set(case, links, num_devices, endpoint, kind), self.question
            self._lower_bounds[key] = ComputeLowerBounds(
                plan_set.base_plan_set, plan_set.graph, plan_set.policies, question.base, question.space
            )
        return self._lower_bounds[key]

    def systems_among(self, places: dict[str, IntArray]) -> IntArray:
        """Which of some points are systems."""
        num, question = len(places["num_tensor"]), self.question
        batches = (slice(start, start + SYSTEM_BATCH) for start in range(0, num, SYSTEM_BATCH))
        columns = ({name: column[batch] for name, column in places.items()} for batch in batches)
        return np.flatnonzero(np.concatenate([question.is_part(systems_at(question.space, own)) for own in columns]))

    def lower_bounds(self, places: dict[str, IntArray], *, are_systems: bool = False) -> tuple[FloatArray, IntArray]:
        """Losses that systems are not below, whatever their plans; infinite beyond a limit or where nothing fits.

        And how many of the points are systems, how many of these are beyond a limit, for how many of the others no plan
        cuts some case, and for how many nothing fits. All are systems where the caller knows it.
        """
        bounds = self.bounds(places, are_systems=are_systems)
        return bounds.low, bounds.counts

    def bounds(self, places: dict[str, IntArray], *, are_systems: bool = False) -> Bounds:
        """As `lower_bounds`, with what the systems within the limits take."""
        num = len(places["num_tensor"])
        found = Bounds.of_nothing(num)
        rows = np.arange(num) if are_systems else self.systems_among(places)
        for start in range(0, len(rows), SYSTEM_BATCH):
            batch = rows[start : start + SYSTEM_BATCH]
            self._bound({name: column[batch] for name, column in places.items()}, found, batch)
        return found

    def _bound(self, places: dict[str, IntArray], found: Bounds, rows: IntArray) -> None:
        """Writes down what is known of systems, each in its row."""
        question = self.question
        systems = systems_at(question.space, places)
        built = built_systems(question.base, systems)
        within = np.flatnonzero(question.budget.excess_frac(built, systems["num_devices"]) == 0)
        found.counts[:2] += len(rows), len(rows) - len(within)
        if not len(within):
            return
        if len(within) < len(rows):
            systems, built = taken(systems, within), built.at(within)
            places = {name: column[within] for name, column in places.items()}
        losses, energies_j, is_unshardable = self._least(places, systems, built)
        at = rows[within]
        found.low[at] = question.combined(losses)
        found.energy_j[at] = question.mean(energies_j)
        found.area_mm2[at], found.power_w[at] = built.area_mm2, built.power_w
        found.price_usd[at], found.num_devices[at] = built.price_usd, systems["num_devices"]
        found.network_w[at], found.network_usd[at] = built.network_w, built.network_usd
        num_unshardable = int(is_unshardable.sum())
        found.counts[2:] += num_unshardable, int((~np.isfinite(found.low[at])).sum()) - num_unshardable

    def _least(
        self, places: dict[str, IntArray], systems: dict[str, FloatArray], built: Built
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Losses and joules that cases, by systems, are not below; and which systems no plan cuts some case for."""
        losses, energies_j = np.full((2, len(self.question.cases), len(built.area_mm2)), np.inf)
        is_unshardable = np.zeros(len(built.area_mm2), dtype=bool)
        for case in range(len(self.question.cases)):
            for network, rows in _networks(systems):
                plan_set = self.plan_set_or_unshardable(case, *network)
                if isinstance(plan_set, Unshardable):
                    is_unshardable[rows] = True
                    continue
                compute_bounds = self._compute_lower_bounds(case, *network)
                compute_s = compute_bounds.at({name: column[rows] for name, column in places.items()})
                step_s = np.full(len(rows), np.inf)
                for hbm_bytes in np.unique(built.hbm_bytes[rows]).tolist():
                    same_memory = np.flatnonzero(built.hbm_bytes[rows] == hbm_bytes)
                    step_s[same_memory] = plan_set.lowest_s(hbm_bytes, compute_s[:, :, same_memory])
                energies_j[case, rows] = built.rows.energy.idle_w[rows] * network[1] * step_s
                losses[case, rows] = self._losses(plan_set, built)(step_s, energies_j[case, rows], rows)
        return losses, energies_j, is_unshardable

    def score(self, points: Sequence[Point], worst: float) -> list[SystemScore]:
        """Each of `points`, which must be within the limits; plans that leave a system above `worst` are only bounded.

        With several cases nothing is left out: one may make up for another.
        """
        question, places = self.question, places_of(points)
        systems = systems_at(question.space, places)
        built = built_systems(question.base, systems)
        found = [self._case_plans(case, places, systems, built, worst) for case in range(len(question.cases))]
        loss, lower_bound = (
            question.combined(np.array([getattr(best, name) for best in found])) for name in ("loss", "low")
        )
        return [
            SystemScore(
                point=tuple(int(place) for place in point),
                loss=float(loss[row]),
                low=float(lower_bound[row]),
                cases=tuple(_case_plan(best, row) for best in found),
            )
            for row, point in enumerate(points)
        ]

    def _case_plans(
        self, case: int, places: dict[str, IntArray], systems: dict[str, FloatArray], built: Built, worst: float
    ) -> BestPlans:
        question, num = self.question, len(built.area_mm2)
        is_only = len(question.cases) == 1
        below = worst * question.reference_losses[0] if is_only else np.inf
        columns = {name: np.full(num, np.inf) for name in ("loss", "step_s", "energy_j", "low")}
        plan = np.full(num, NO_PLAN, dtype=np.int64)
        for network, rows in _networks(systems):
            plan_set = self.plan_set_or_unshardable(case, *network)
            if isinstance(plan_set, Unshardable):
                continue
            compute_bounds = self._compute_lower_bounds(case, *network)
            for hbm_bytes in np.unique(built.hbm_bytes[rows]).tolist():
                same_memory = rows[built.hbm_bytes[rows] == hbm_bytes]
                chips = Chips(
                    columns=built.chips.at(same_memory),
                    rows=built.rows.at(same_memory),
                    hbm_bytes=hbm_bytes,
                    compute_s=compute_bounds.at({name: column[same_memory] for name, column in places.items()}),
                )
                losses, bar = self._losses(plan_set, built.at(same_memory)), np.full(len(same_memory), below)
                best = best_plans(plan_set, chips, losses, bar, is_even_only=question.cases[case].is_even_only)
                plan[same_memory] = best.plan
                for name, column in columns.items():
                    column[same_memory] = getattr(best, name)
        return BestPlans(plan=plan, **columns)

    def even_plan(self, case: int, point: Point, plan: int) -> Plan:
        """One of the even plans of a case on a system, by its number; a store may hold one that is none."""
        values = self.question.space.values(point)
        system = dict(zip((knob.name for knob in self.question.space.knobs), values, strict=True))
        plans = self.plan_set(case, *network_of(system)).plans
        if not 0 <= plan < len(plans):
            message = f"the plan of a row must be one of {len(plans):,}; got number {plan:.4g}"
            raise InvalidInput(f"{message}; put back a copy of the store, or start again with another file", "store")
        return plans.plan(plan)

    def built(self, point: Point) -> Built:
        """What one device of a system takes and costs."""
        return built_systems(self.question.base, systems_at(self.question.space, places_of([point])))

    def _losses(self, plan_set: PlanSet, built: Built) -> Losses:
        """By the metric, of steps on chips of given places."""
        metric, num_samples, num_devices = self.question.metric, plan_set.graph.num_tokens, plan_set.cluster.num_devices

        def of(step_s: FloatArray, energy_j: FloatArray, chip: IntArray) -> FloatArray:
            figures = ChipFigures(
                step_s=step_s,
                energy_j=energy_j + network_j(built.network_w[chip], num_devices, step_s),
                power_w=built.joined_w[chip],
                price_usd=built.joined_usd[chip],
                num_devices=num_devices,
                num_samples=num_samples,
            )
            return priced(np.asarray(metric.loss(figures)))

        return of


def priced(losses: FloatArray) -> FloatArray:
    """`losses`, once none is of an unknown price."""
    if np.isnan(losses).any():
        raise NotModelled(NO_PRICE, "network")
    return losses


def _case_plan(best: BestPlans, row: int) -> CasePlan:
    return CasePlan(
        plan=int(best.plan[row]),
        loss=float(best.loss[row]),
        step_s=float(best.step_s[row]),
        energy_j=float(best.energy_j[row]),
        low=float(best.low[row]),
    )


def _networks(systems: dict[str, FloatArray]) -> list[tuple[Network, IntArray]]:
    """Systems by their network, and where those stand."""
    code = np.zeros(len(systems[NETWORK[0]]), dtype=np.int64)
    for name in NETWORK:
        values, place = np.unique(systems[name], return_inverse=True)
        code = code * len(values) + place
    _, first = np.unique(code, return_index=True)
    return [
        (network_of({name: systems[name][row] for name in NETWORK}), np.flatnonzero(code == code[row]))
        for row in first.tolist()
    ]
