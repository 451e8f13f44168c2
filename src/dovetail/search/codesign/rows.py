"""Scores of systems as rows of a store, and back, so that a search can go on as if it never ended."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dovetail.errors import InvalidInput, shown
from dovetail.parallel.plan import Overlap, Plan
from dovetail.search.algorithms import Scored
from dovetail.search.codesign.best_plans import NO_PLAN
from dovetail.search.codesign.question import Case, JointQuestion, places_of, systems_at
from dovetail.search.codesign.refining import RefinedCase, RefinedSystem
from dovetail.search.codesign.scoring import CasePlan, SystemScore
from dovetail.search.codesign.system_labels import space_labels
from dovetail.search.codesign.systems import KNOBS, NETWORK, built_systems
from dovetail.search.metrics import metrics
from dovetail.search.mining.identity import digest_of
from dovetail.search.planners.constraints import EVEN, STAGES
from dovetail.search.space import Point
from dovetail.search.study import HIDDEN_PREFIX
from dovetail.stable_names import StableField, stable_facts, stable_type

MOST_PLANS = 10**12  # style: a bound, beyond any space of plans
TAKEN = ("area_mm2", "power_w", "price_usd")  # of one device
_NETWORK = tuple(KNOBS.index(name) for name in NETWORK)
_EVEN = stable_type(CasePlan).fields
_UNEVEN = tuple(field for field in stable_type(RefinedCase).fields if field.stable != "plan")
_PYTHON_EVEN = tuple(field.python for field in _EVEN)
_PYTHON_UNEVEN = tuple(field.python for field in _UNEVEN)
[_UNEVEN_PLAN] = (field.python for field in stable_type(RefinedCase).fields if field.stable == "plan")
_PLAN_AT = [field.stable for field in _EVEN].index("plan")


def question_facts(question: JointQuestion, *, metric: str, network: str, rule: str) -> dict[str, Any]:
    """Plain data that is the same for the same question, and for no other."""
    return {
        "cases": [_case_facts(case) for case in question.cases],
        "base": {"name": question.base.name, "digest": digest_of(question.base)},
        "space": space_labels(question.space),
        "budget": {name: limit for name, limit in stable_facts(question.budget).items() if limit < float("inf")},
        "metric": metric,
        "network": network,
        "rule": rule,
        "loss_unit": metrics[metric].loss_unit,
        "reference_losses": list(question.reference_losses),
    }


def _case_facts(case: Case) -> dict[str, Any]:
    graph, precision = case.workload.training_graph(), case.workload.precision
    return {
        "name": case.name,
        "batch": case.workload.global_batch,
        "seq": case.workload.seq,
        "digest": digest_of((tuple(graph.blocks), graph.num_tokens, graph.batch, precision, *graph.layer_pattern)),
        "plans": json.loads(json.dumps(stable_facts(case.plans))),
        "weight": case.weight,
        **({STAGES: EVEN} if case.is_even_only else {}),
    }


def score_names(cases: Sequence[Case]) -> tuple[str, ...]:
    return ("low", *TAKEN, *(f"{_figure_name(field)} of {case.name}" for case in cases for field in _EVEN))


def refined_names(cases: Sequence[Case]) -> tuple[str, ...]:
    return ("low", *TAKEN, *(f"{field.stable} of {case.name}" for case in cases for field in _UNEVEN))


def _figure_name(field: StableField) -> str:
    """Which of its plans a case has is a number of ours, to go on from; the row says the plan itself."""
    return f"{HIDDEN_PREFIX}plan" if field.stable == "plan" else field.stable


class Rows:
    """Makes rows of what was scored and refined: what a device takes and costs, figures by case, and their plans."""

    def __init__(self, question: JointQuestion, plan_of: Callable[[int, Point, int], Plan]) -> None:
        """`plan_of` has the even plan of a case on a point, by its number."""
        self._question, self._plan_of = question, plan_of
        self._texts: dict[tuple[int, tuple[int, ...], int], dict[str, Any]] = {}  # of even plans, by network

    def scored(self, scores: Iterable[SystemScore]) -> list[Scored]:
        all_scores = list(scores)
        figures = [
            [float(getattr(case, name)) for case in score.cases for name in _PYTHON_EVEN] for score in all_scores
        ]
        return [
            Scored(
                point=score.point,
                loss=score.loss,
                also=(score.low, *taken, *case_figures),
                plan=self._even_plans(score),
            )
            for score, taken, case_figures in zip(
                all_scores, self._taken([score.point for score in all_scores]), figures, strict=True
            )
        ]

    def refined(self, systems: Iterable[RefinedSystem]) -> list[Scored]:
        all_systems = list(systems)
        figures = [
            [float(getattr(case, field.python)) for case in system.cases for field in _UNEVEN] for system in all_systems
        ]
        plans = [_text([plan_facts(case.plan) for case in system.cases]) for system in all_systems]
        taken = self._taken([system.point for system in all_systems])
        return [
            Scored(point=system.point, loss=system.loss, also=(system.low, *device_taken, *case_figures), plan=plan)
            for system, device_taken, case_figures, plan in zip(all_systems, taken, figures, plans, strict=True)
        ]

    def _taken(self, points: Sequence[Point]) -> list[tuple[float, ...]]:
        """Area, power and price of one device of each system."""
        if not points:
            return []
        built = built_systems(self._question.base, systems_at(self._question.space, places_of(points)))
        return list(zip(*(getattr(built, name).tolist() for name in TAKEN), strict=True))

    def _even_plans(self, score: SystemScore) -> str:
        """As JSON; nothing where some case has none."""
        if any(case.plan == NO_PLAN for case in score.cases):
            return ""
        return _text([self._even_plan(index, score.point, case.plan) for index, case in enumerate(score.cases)])

    def _even_plan(self, index: int, point: Point, number: int) -> dict[str, Any]:
        key = index, tuple(point[place] for place in _NETWORK), number
        if key not in self._texts:
            self._texts[key] = plan_facts(self._plan_of(index, point, number))
        return self._texts[key]


def plan_facts(plan: Plan) -> dict[str, Any]:
    """A plan as plain data, as far as it is not the default one."""
    default, facts = stable_facts(Plan()), stable_facts(plan)
    changed: dict[str, Any] = json.loads(
        json.dumps({key: value for key, value in facts.items() if value != default[key]})
    )
    return changed


def _text(plans: list[dict[str, Any]]) -> str:
    """Of one model its plan, of several a list of theirs."""
    return json.dumps(plans[0] if len(plans) == 1 else plans)


def score_of(row: Scored) -> SystemScore:
    lower_bound, figures = _bound_and_figures(row)
    if len(figures) % len(_EVEN) or not all(map(_is_number, figures[_PLAN_AT :: len(_EVEN)])):
        raise _not_ours(row)
    cases = []
    for start in range(0, len(figures), len(_EVEN)):
        values: list[Any] = list(figures[start : start + len(_EVEN)])
        values[_PLAN_AT] = int(values[_PLAN_AT])
        cases.append(CasePlan(**dict(zip(_PYTHON_EVEN, values, strict=True))))
    return SystemScore(point=row.point, loss=row.loss, low=lower_bound, cases=tuple(cases))


def _is_number(figure: float) -> bool:
    """Whether it can be the number of a plan, or -1 where none fits."""
    return -1 <= figure < MOST_PLANS and figure == int(figure)


def refined_of(row: Scored) -> RefinedSystem:
    lower_bound, figures = _bound_and_figures(row)
    cases = []
    try:
        plans = json.loads(row.plan)
        for place, written in enumerate([plans] if isinstance(plans, dict) else plans):
            values = figures[place * len(_UNEVEN) : (place + 1) * len(_UNEVEN)]
            read: dict[str, Any] = {**dict(zip(_PYTHON_UNEVEN, values, strict=True)), _UNEVEN_PLAN: _plan(written)}
            cases.append(RefinedCase(**read))
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):  # no JSON, or no plan, of as many cases
        raise _not_ours(row) from None
    return RefinedSystem(point=row.point, loss=row.loss, low=lower_bound, cases=tuple(cases))


def _bound_and_figures(row: Scored) -> tuple[float, tuple[float, ...]]:
    """The bound of a row, and the figures of its cases."""
    if len(row.also) <= len(TAKEN):
        raise _not_ours(row)
    return row.also[0], row.also[1 + len(TAKEN) :]


def _not_ours(row: Scored) -> InvalidInput:
    message = f"the row of point {shown(' '.join(map(str, row.point)))} holds no score of a system"
    return InvalidInput(f"{message}; put back a copy of the store, or start again with another file", "store")


def _plan(written: dict[str, Any]) -> Plan:
    """The plan that `plan_facts` wrote."""
    overlap = Overlap(**stable_type(Overlap).python_names(written.get("overlap", {})))
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in written.items()}
    return Plan(**stable_type(Plan).python_names(values | {"overlap": overlap}))
