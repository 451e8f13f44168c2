"""WHAM's comparison as plain data for JSON; docs/reference/json.md lists the keys."""

from __future__ import annotations

from dovetail.papers.wham.claims import Claim, claims, holds, mean_gap_frac
from dovetail.papers.wham.searches import Searched
from dovetail.papers.wham.shared import Mosaic, OneForAll
from dovetail.papers.wham.study import EveryDesign, HandTuned, WhamModel, WhamStudy
from dovetail.report.mined_record import cores_record
from dovetail.report.plain import Record
from dovetail.search.mining.answers import ChipAnswer
from dovetail.search.mining.stages import ByStage


def wham_record(study: WhamStudy) -> Record:
    return {
        "paper": "WHAM",
        "holds": holds(study),
        "area_limit_mm2": study.limits.area_mm2,
        "power_limit_w": study.limits.power_w,
        "num_designs": study.num_designs,
        "claims": [_claim_record(claim) for claim in claims(study)],
        "mean_gap_frac": mean_gap_frac(study),
        "models": [_model_record(study, model) for model in study.models],
        "common_design": _shared_record(study, study.common_design),
        "mosaics": [_mosaic_record(one) for one in study.mosaics],
        "sizes": [{"num_multipliers": most, "times_slower": slower} for most, slower in study.by_multipliers],
    }


def _claim_record(claim: Claim) -> Record:
    return {
        "what": claim.what,
        "ours": claim.ours,
        "reported": list(claim.reported),
        "must_hold": claim.least > 0,
        "holds": claim.holds,
        "differs": claim.differs,
    }


def _model_record(study: WhamStudy, model: WhamModel) -> Record:
    work, plan = model.task.workload, model.task.plan
    return {
        "model": model.task.name,
        "global_batch": work.global_batch,
        "seq": work.seq,
        "num_devices": plan.num_devices,
        "num_stages": plan.pipeline_parallel,
        "best": _searched_record(model.best) | {"gain": model.gain(model.reference)},
        "per_watt": _searched_record(model.per_watt) | {"gain": model.per_watt_gain},
        "within_base_limits": _searched_record(model.within_base_limits) | {"gain": model.own_limits_gain},
        "hand_tuned": [_tuned_record(study, model, tuned) for tuned in model.hand_tuned],
        "inference": [
            {"interpretation": name, **_searched_record(chosen), "times_slower": chosen.step_s / model.best.step_s}
            for name, chosen in model.inference
        ],
        "critical_path": _searched_record(model.grown) | {"gap_frac": model.grown_gap_frac},
        "critical_path_exact": _searched_record(model.counted) | {"gap_frac": model.counted_gap_frac},
        "every_design": _every_record(model.every) if model.every else None,
        "is_confirmed": model.is_confirmed,
    }


def _tuned_record(study: WhamStudy, model: WhamModel, tuned: HandTuned) -> Record:
    return {
        "chip": tuned.name,
        "fits": tuned.fits,
        **{
            key: _answer_record(answer) | {"gain": model.gain(answer), "is_within_limits": answer.keeps(study.limits)}
            for key, answer in (("as_is", tuned.as_is), ("rebuilt", tuned.rebuilt))
        },
    }


def _answer_record(answer: ChipAnswer) -> Record:
    return {
        **cores_record(answer.design),
        "area_mm2": answer.area_mm2,
        "power_w": answer.power_w,
        "step_s": answer.jobs[0].step_s,
    }


def _searched_record(found: Searched) -> Record:
    return _answer_record(found.answer) | {
        "num_evaluated": found.num_evaluated,
        "num_scheduled": found.num_scheduled,
        "is_proven": found.is_proven,
    }


def _every_record(every: EveryDesign) -> Record:
    return {
        "num_scheduled": every.num_designs,
        "best": cores_record(every.design) | {"step_s": every.step_s},
        "per_watt": cores_record(every.per_watt_design),
    }


def _shared_record(study: WhamStudy, shared: OneForAll) -> Record:
    answer = shared.answer
    return {
        **cores_record(answer.design),
        "area_mm2": answer.area_mm2,
        "power_w": answer.power_w,
        "gain": shared.gain,
        "every_gain": shared.every_gain,
        "num_scheduled": shared.num_scheduled,
        "is_proven": shared.is_proven,
        "jobs": [
            {"model": model.task.name, "step_s": job.step_s, "times_slower": slower}
            for model, job, slower in zip(study.models, answer.jobs, shared.slower, strict=True)
        ],
    }


def _mosaic_record(one: Mosaic) -> Record:
    return {
        "model": one.model,
        "one_design": cores_record(one.mosaic.common.designs[0]) | {"step_s": one.mosaic.common.step_s},
        "mosaic": _by_stage_record(one.mosaic),
        "pooled": _by_stage_record(one.pooled),
    }


def _by_stage_record(found: ByStage) -> Record:
    return {
        "step_s": found.chosen.step_s,
        "gain": 1 + found.gain_frac,
        "mean_area_mm2": found.chosen.mean_area_mm2,
        "mean_power_w": found.chosen.mean_power_w,
        "kinds": [
            {"num_stages": len(kind.stages), **cores_record(kind.chosen.design), "area_mm2": kind.chosen.area_mm2}
            for kind in found.kinds
        ],
    }
