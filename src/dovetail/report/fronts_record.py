"""A Pareto front as plain data, for JSON and CSV; docs/reference/json.md lists the keys."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict

from dovetail.report.fronts import FrontReport, notes, proof, sentence
from dovetail.report.labels import plan_in_brief
from dovetail.report.plain import Record
from dovetail.search.codesign.pareto import FrontSystem
from dovetail.search.codesign.system_labels import as_labels, space_labels


def front_record(report: FrontReport) -> Record:
    question, found = report.question, report.found
    budget = {name: limit for name, limit in asdict(question.budget).items() if limit < float("inf")}
    census = asdict(found.census)
    counts = ("num_systems", "num_over_limit", "num_unshardable", "num_out_of_memory", "num_pruned", "num_scored")
    return {
        "name": report.name,
        "feasible": True,
        "axes": list(found.axes),
        "metric": report.metric_name,
        "unit": report.unit(report.metric_name),
        "base": question.base.name,
        "network": report.network,
        "preset": report.preset,
        "is_over_base": report.is_over_base,
        "spec": dict(report.asked),
        "budget": budget,
        "assumed_limits": list(report.assumed),
        "space": space_labels(question.space),
        "front": [_system_record(report, one) for one in found.systems],
        "num_front": len(found.systems),
        **{name: census[name] for name in counts},
        "energy_bound_frac": found.energy_bound_frac,
        "answer": sentence(report),
        "proof": proof(report),
        "notes": list(notes(report)),
    }


def _system_record(report: FrontReport, one: FrontSystem) -> Record:
    return {
        "system": as_labels(report.question.base, report.system(one)),
        "figure": report.figure(one),
        "area_mm2": one.area_mm2,
        "power_w": one.power_w,
        "price_usd": one.price_usd,
        "energy_j": one.energy_j,
        "models": [
            {
                "model": case.name,
                "step_s": own.step_s,
                "energy_j": own.energy_j,
                "plan": plan_in_brief(report.plan_of(index, one.score.point, own.plan)),
            }
            for index, (case, own) in enumerate(zip(report.question.cases, one.score.cases, strict=True))
        ],
    }


def front_csv(report: FrontReport) -> str:
    """One line for each system, best by the first axis first."""
    told = io.StringIO()
    writer = csv.writer(told, lineterminator="\n")
    for place, one in enumerate(report.found.systems):
        record = _system_record(report, one)
        models = record.pop("models")
        row = {**record.pop("system"), **record}
        for own in models:
            row |= {f"{name} of {own['model']}": own[name] for name in ("step_s", "energy_j", "plan")}
        if not place:
            writer.writerow(row)
        writer.writerow(row.values())
    return told.getvalue()
