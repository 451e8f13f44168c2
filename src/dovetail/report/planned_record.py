"""The plans that were found as plain data for JSON; docs/reference/json.md lists the keys."""

from __future__ import annotations

from dataclasses import asdict, fields

from dovetail import __version__
from dovetail.hardware.heterogeneous import chip_names
from dovetail.report.launchers.nearest import cost_record
from dovetail.report.launchers.runnable import Runnable
from dovetail.report.plain import Record
from dovetail.report.planned import PlanReportContext, notes, nothing_notes, nothing_sentence, sentence
from dovetail.report.record import plain, plan_record, record, workload_record
from dovetail.search.planners.plan_space import MAX_INTERLEAVE, MAX_MICROBATCH
from dovetail.search.planners.ranking import Choice, NothingFits, Question, Ranked


def planned_record(
    found: Choice | NothingFits, by_place: tuple[tuple[Runnable, ...], ...], told: PlanReportContext
) -> Record:
    """Everything known of what was found; `by_place` is who can run each plan of the ranking."""
    if isinstance(found, NothingFits):
        return _nothing_record(found, told)
    return {
        "name": told.name,
        "feasible": True,
        "answer": sentence(found),
        "objective": found.question.objective_name,
        "unit": found.question.objective.unit,
        "num_plans": found.tally.num_plans,
        "num_evaluated": found.tally.num_evaluated,
        "num_fitting": found.tally.num_fitting,
        "gap_frac": found.gap_frac,
        "proof": asdict(found.proof) | {"bound_s": found.proof.bound_s or None, "holds": not found.is_proof_broken},
        "best": record(found.best, told.name, told.residuals),
        "ranking": [
            _ranked_record(place, one, answers)
            for place, (one, answers) in enumerate(zip(found.ranking, by_place, strict=True), start=1)
        ],
        "given_plan": [record(result, told.name) for result in found.given],
        **_question_record(found.question),
        "notes": [*notes(found, by_place), *told.notes],
        "commands": list(told.commands),
        "version": __version__,
    }


def _ranked_record(place: int, one: Ranked, answers: tuple[Runnable, ...]) -> Record:
    candidate = one.candidate
    return {
        "position": place,
        "plan": plan_record(candidate.plan),
        "step_s": candidate.step_s,
        "energy_j": candidate.energy_j,
        "need_bytes": candidate.need_bytes,
        "figure": candidate.figure,
        "over_best_frac": one.over_best_frac,
        "breakdown": [{"component": loss.component, "over_best_frac": loss.over_best_frac} for loss in one.breakdown],
        "is_given": one.is_given,
        "frameworks": [
            {
                "framework": each.framework,
                "refusal": each.refusal,
                "differs": list(each.differs),
                "costs": [cost_record(cost) for cost in each.costs],
                "options": list(each.options),
                "not_expressed": list(each.not_expressed),
            }
            for each in answers
        ],
    }


def _question_record(question: Question) -> Record:
    space = question.space
    return {
        "constraints": [
            {"key": one.key, "values": plain(one.values), "forbids": one.forbids, "where": one.where}
            for one in question.constraints
        ],
        "space": {field.name: plain(getattr(space, field.name)) for field in fields(space) if field.name != "overlap"}
        | {"overlap": [asdict(overlap) for overlap in space.overlap]},
        "max_microbatch": MAX_MICROBATCH,
        "max_interleave": MAX_INTERLEAVE,
        "workload": workload_record(question.workload),
        "cluster": {"name": question.cluster.name, "num_devices": question.cluster.num_devices},
        "chip": chip_names(question.cluster),
    }


def _nothing_record(found: NothingFits, told: PlanReportContext) -> Record:
    use = found.least.memory
    return {
        "name": told.name,
        "feasible": False,
        "answer": nothing_sentence(found),
        "objective": found.question.objective_name,
        "num_plans": found.tally.num_plans,
        "num_fitting": found.tally.num_fitting,
        "need_bytes": use.need_bytes,
        "limit_bytes": use.limit_bytes,
        "excess_bytes": use.need_bytes - use.limit_bytes,
        "least": record(found.least, told.name),
        "given_plan": [record(result, told.name) for result in found.given],
        **_question_record(found.question),
        "notes": [*nothing_notes(found), *told.notes],
        "version": __version__,
    }
