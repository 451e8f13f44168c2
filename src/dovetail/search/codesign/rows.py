"""Scores of systems as rows of a store, and back: what a search was told, so that it can go on as if it never ended."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from dovetail.plan.plan import Overlap, Plan
from dovetail.search.algorithms import Scored
from dovetail.search.codesign.question import Case, JointQuestion
from dovetail.search.codesign.refining import RefinedCase, RefinedSystem
from dovetail.search.codesign.scoring import CasePlan, SystemScore
from dovetail.search.metrics import metrics
from dovetail.search.mining.identity import digest_of

_EVEN = tuple(field.name for field in fields(CasePlan))
_UNEVEN = tuple(field.name for field in fields(RefinedCase) if field.name != "plan")


def question_facts(question: JointQuestion, *, metric: str, network: str, rule: str) -> dict[str, Any]:
    """Plain data that is the same for the same question, and for no other."""
    return {
        "cases": [_case_facts(case) for case in question.cases],
        "base": {"name": question.base.name, "digest": digest_of(question.base)},
        "space": {knob.name: list(knob.values) for knob in question.space.knobs},
        "budget": {name: limit for name, limit in asdict(question.budget).items() if limit < float("inf")},
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
        "digest": digest_of((tuple(graph.blocks), graph.num_tokens, graph.batch, precision)),
        "plans": json.loads(json.dumps(asdict(case.plans))),
        "weight": case.weight,
    }


def score_names(cases: Sequence[Case]) -> tuple[str, ...]:
    return ("low", *(f"{name} of {case.name}" for case in cases for name in _EVEN))


def score_row(score: SystemScore) -> Scored:
    figures = [float(getattr(case, name)) for case in score.cases for name in _EVEN]
    return Scored(point=score.point, loss=score.loss, also=(score.low, *figures))


def score_of(row: Scored) -> SystemScore:
    low, *figures = row.also
    cases = []
    for start in range(0, len(figures), len(_EVEN)):
        values: dict[str, Any] = dict(zip(_EVEN, figures[start : start + len(_EVEN)], strict=True))
        cases.append(CasePlan(**values | {"plan": int(values["plan"])}))
    return SystemScore(point=row.point, loss=row.loss, low=low, cases=tuple(cases))


def refined_names(cases: Sequence[Case]) -> tuple[str, ...]:
    return ("low", *(f"{name} of {case.name}" for case in cases for name in _UNEVEN))


def refined_row(system: RefinedSystem) -> Scored:
    figures = [float(getattr(case, name)) for case in system.cases for name in _UNEVEN]
    plans = json.dumps([asdict(case.plan) for case in system.cases])
    return Scored(point=system.point, loss=system.loss, also=(system.low, *figures), plan=plans)


def refined_of(row: Scored) -> RefinedSystem:
    low, *figures = row.also
    cases = []
    for place, written in enumerate(json.loads(row.plan)):
        values = figures[place * len(_UNEVEN) : (place + 1) * len(_UNEVEN)]
        cases.append(RefinedCase(plan=_plan(written), **dict(zip(_UNEVEN, values, strict=True))))
    return RefinedSystem(point=row.point, loss=row.loss, low=low, cases=tuple(cases))


def _plan(written: dict[str, Any]) -> Plan:
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in written.items()
    }
    return Plan(**values | {"overlap": Overlap(**written["overlap"])})
