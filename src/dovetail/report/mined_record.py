"""The best chip for a model as plain data for JSON; docs/reference/json.md lists the keys."""

from __future__ import annotations

from dovetail.evaluate import Infeasible
from dovetail.hardware.template import Design
from dovetail.report.mined import MinedReport, limited, notes, proof, way_out
from dovetail.report.mined_stages import planned_task_record, replanned_record, stages_record
from dovetail.report.plain import Record
from dovetail.report.record import plan_record, record
from dovetail.search.mining.answers import ChipAnswer, NothingInside, Rival
from dovetail.search.mining.miner import Improvement, Mined
from dovetail.search.mining.task import Task


def mined_record(report: MinedReport) -> Record:
    found = report.mined
    return {
        "name": report.name,
        "feasible": True,
        "metric": report.metric_name,
        "unit": report.unit,
        "algorithm": report.algorithm,
        "base": report.base,
        "area_limit_mm2": report.limits.area_mm2,
        "power_limit_w": report.limits.power_w,
        "jobs": [_job_record(task) for task in report.tasks],
        "best": _answer_record(report, report.best[0]),
        "designs": [_answer_record(report, answer) for answer in report.best],
        "hand_tuned": [_rival_record(report, rival) for rival in report.rivals],
        "by_stage": [stages_record(one) for one in report.by_stage],
        "planned": [planned_task_record(one) for one in report.by_planner],
        "replanned": [
            replanned_record(task.name, one) for task, one in zip(report.tasks, report.replanned, strict=False)
        ],
        **_proof_record(found),
        "limited_by": limited(report)[0].removeprefix("limited by: "),
        "notes": list(notes(report)),
    }


def _proof_record(found: Mined) -> Record:
    return {
        "is_proven": found.is_proven,
        "gap_frac": found.gap_frac,
        "num_designs": found.num_points,
        "num_over_limit": found.num_over_limit,
        "num_scheduled": found.num_scheduled,
        "num_pruned": found.num_pruned,
        "num_open": found.num_open,
        "num_evaluated": found.num_evaluated,
        "improvements": [_improvement_record(one) for one in found.improvements],
        "bottleneck": found.best.bottleneck,
        "proof": proof(found),
    }


def _improvement_record(one: Improvement) -> Record:
    return {"num_evaluated": one.num_evaluated, "gain_frac": 1.0 / one.loss - 1.0}


def _job_record(task: Task) -> Record:
    return {
        "model": task.name,
        "global_batch": task.workload.global_batch,
        "seq": task.workload.seq,
        "num_devices": task.plan.num_devices,
        "num_stages": task.plan.pipeline_parallel,
        "microbatch": task.plan.microbatch,
    }


def _answer_record(report: MinedReport, answer: ChipAnswer) -> Record:
    jobs = zip(report.tasks, answer.jobs, report.reference.jobs, strict=True)
    return {
        **cores_record(answer.design),
        "area_mm2": answer.area_mm2,
        "power_w": answer.power_w,
        "price_usd": answer.price_usd,
        "gain_frac": report.gain_frac(answer, report.reference),
        "over_best_frac": answer.loss(report.best[0]) - 1.0,
        "jobs": [
            {
                "model": task.name,
                "figure": own.figure,
                "step_s": own.step_s,
                "energy_j": own.energy_j,
                "gain_frac": other.loss / own.loss - 1.0,
            }
            for task, own, other in jobs
        ],
    }


def cores_record(design: Design) -> Record:
    """The cores of a design, under the keys that every record has for them."""
    return {
        "num_tensor_cores": design.num_tensor,
        "num_rows": design.num_rows,
        "num_cols": design.num_cols,
        "num_vector_cores": design.num_vector,
        "num_lanes": design.num_lanes,
    }


def _rival_record(report: MinedReport, rival: Rival) -> Record:
    return {
        "chip": rival.name,
        **_answer_record(report, rival.answer),
        "best_gain_frac": report.gain_frac(report.best[0], rival.answer),
        "is_within_limits": rival.answer.keeps(report.limits),
        "interconnect_bytes_per_s": rival.interconnect_bytes_per_s,
        "fits": rival.fits,
    }


def nothing_record(nothing: NothingInside, base: str) -> Record:
    return {
        "feasible": False,
        "base": base,
        "area_limit_mm2": nothing.limits.area_mm2,
        "power_limit_w": nothing.limits.power_w,
        "num_designs": nothing.num_points,
        "least_area_mm2": nothing.least_area_mm2,
        "smallest": cores_record(nothing.smallest),
        "least_power_w": nothing.least_power_w,
        "lowest_power": cores_record(nothing.lowest_power),
        "suggestion": way_out(nothing, base),
    }


def unfit_record(result: Infeasible, ways: tuple[Task, ...]) -> Record:
    """As of a plan that does not fit, and a plan on more devices, or by smaller microbatches, that does."""
    return record(result, result.workload.model.name) | {"plans_that_fit": [plan_record(way.plan) for way in ways]}
