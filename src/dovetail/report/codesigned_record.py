"""A joint search as plain data for JSON; docs/reference/json.md lists the keys."""

from __future__ import annotations

from dataclasses import asdict

from dovetail.report.budgets import beyond
from dovetail.report.codesigned import CodesignReport, notes, proof, sentence, unit_of
from dovetail.report.plain import Record
from dovetail.report.record import plan_record
from dovetail.report.sensitivities import over_best_frac, sensitivity_record
from dovetail.search.codesign.answers import SystemAnswer, gain_frac
from dovetail.search.codesign.system_labels import as_labels, space_labels


def codesigned_record(report: CodesignReport) -> Record:
    found, question = report.found, report.question
    budget = {name: limit for name, limit in asdict(question.budget).items() if limit < float("inf")}
    separate = report.separate
    return {
        "name": report.name,
        "feasible": True,
        "metric": report.metric_name,
        "algorithm": report.algorithm,
        "base": question.base.name,
        "network": report.network,
        "preset": report.preset,
        "spec": dict(report.asked),
        "budget": budget,
        "assumed_limits": list(report.assumed),
        "space": space_labels(question.space),
        "best": _answer_record(report, report.best),
        "base_system": None if report.base is None else _base_record(report, report.base),
        "plan_then_chip": None if separate is None else _optional(report, separate.plan_then_chip),
        "chip_then_plan": None if separate is None else _optional(report, separate.chip_then_plan),
        "others": [_answer_record(report, one) for one in report.others],
        "per_model_best": [_own_record(report, index) for index in range(len(report.per_model_best))],
        "sensitivity": None if report.sensitivity is None else sensitivity_record(report.sensitivity, question.base),
        "is_proven": found.gap_frac == 0,
        "gap_frac": found.gap_frac,
        **asdict(found.census),
        "answer": sentence(report),
        "proof": proof(report),
        "notes": list(notes(report)),
    }


def _own_record(report: CodesignReport, index: int) -> Record:
    own = report.per_model_best[index]
    return {
        "model": report.question.cases[index].name,
        "over_best_frac": over_best_frac(report.best, index, own),
        "system": as_labels(report.question.base, own.system),
        "step_s": own.cases[0].step_s,
        "plan": plan_record(own.cases[0].plan),
    }


def _optional(report: CodesignReport, answer: SystemAnswer | None) -> Record | None:
    return None if answer is None else _answer_record(report, answer)


def _base_record(report: CodesignReport, base: SystemAnswer) -> Record:
    return _answer_record(report, base) | {"exceeded_limits": list(beyond(report.question.budget, base))}


def _answer_record(report: CodesignReport, answer: SystemAnswer) -> Record:
    cases = report.question.cases
    return {
        "system": as_labels(report.question.base, answer.system),
        "area_mm2": answer.area_mm2,
        "power_w": answer.power_w,
        "price_usd": answer.price_usd,
        "gain_frac": None if report.base is None else gain_frac(answer, report.base, report.weights),
        "models": [
            {
                "model": case.name,
                "global_batch": case.workload.global_batch,
                "seq": case.workload.seq,
                "weight": case.weight,
                "step_s": own.step_s,
                "energy_j": own.energy_j,
                "figure": report.figure(index, answer),
                "unit": unit_of(report, index),
                "plan": plan_record(own.plan),
            }
            for index, (case, own) in enumerate(zip(cases, answer.cases, strict=True))
        ],
    }
