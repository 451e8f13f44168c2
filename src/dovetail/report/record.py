"""An answer as plain data for JSON: keys end in their unit, numbers are in base units, and every number is finite.

The keys are an interface: docs/reference/json.md lists them, and a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from dovetail import __version__
from dovetail.accuracy.evidence import CONFIDENCE_FRAC, interval_of
from dovetail.accuracy.residuals import Residual
from dovetail.cost.op_cost import LIMITS
from dovetail.evaluate import PERTURBATION_FRAC, Infeasible, MemoryUse, Outcome
from dovetail.hardware.heterogeneous import chip_names
from dovetail.hardware.topology import Group
from dovetail.parallel.placement import Placement
from dovetail.parallel.plan import Plan
from dovetail.report.assumptions import assumptions, layers_per_stage
from dovetail.report.goodput import budget_record, goodput_record
from dovetail.report.limits import limited_by
from dovetail.report.measured import measured_record
from dovetail.report.plain import Record
from dovetail.report.pools import pool_records
from dovetail.step.step import Step
from dovetail.step.work import COMM_AXES
from dovetail.workload.workload import Workload


def record(
    result: Outcome | Infeasible, name: str = "", residuals: Sequence[Residual] = (), num_tokens: float = 0.0
) -> Record:
    """Everything known of `result`; `name` is what the job is called, `residuals` what its interval rests on.

    `num_tokens` are those to train on, whose time is told; 0 for none.
    """
    if isinstance(result, Infeasible):
        return {"name": name, "feasible": False, **_excess_record(result), **_question_record(result)}
    return {
        "name": name,
        "feasible": True,
        **_headline_record(result),
        **_interval_record(result, residuals),
        **goodput_record(result),
        **budget_record(result, num_tokens),
        "time": time_record(result.step),
        "memory": memory_record(result.memory, result.workload, result.plan),
        "elasticities": [{"resource": e.resource, "gain_frac": e.gain_frac} for e in result.elasticities],
        "elasticity_step_frac": PERTURBATION_FRAC,
        "limited_by": limited_by(result),
        "placement": placement_record(result.placement),
        **_question_record(result),
    }


def plain(value: Any) -> Any:
    """A dataclass as JSON has it: tuples become lists."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def plan_record(plan: Plan) -> Record:
    fields: Record = plain(asdict(plan))
    return fields


def _headline_record(outcome: Outcome) -> Record:
    energy_j = outcome.step.energy_j
    return {
        "step_s": outcome.step.step_s,
        "samples_per_s": outcome.samples_per_s,
        "mfu_frac": outcome.mfu_frac,
        "hfu_frac": outcome.hfu_frac,
        "energy_j": energy_j,
        "energy_j_per_sample": energy_j / outcome.workload.global_batch,
        "mean_w": outcome.mean_w,
        "num_parameters": outcome.num_parameters,
        "num_microbatches": outcome.num_microbatches,
        "num_samples": outcome.workload.global_batch,
        "model_flop": outcome.model_flop,
        "hardware_flop": outcome.hardware_flop,
        **({"dropped_frac": outcome.dropped_frac} if outcome.workload.routing.capacity_factor else {}),
        **_tokens_record(outcome),
    }


def _interval_record(outcome: Outcome, residuals: Sequence[Residual]) -> Record:
    """Where the step's time lies, as published runs of its class say; nothing where there are none to ask."""
    if not residuals:
        return {}
    found = interval_of(outcome.workload, outcome.cluster, outcome.plan, outcome.step.step_s, residuals)
    return {
        "interval": {
            "lower_s": found.lower_s,
            "upper_s": found.upper_s,
            "confidence_frac": CONFIDENCE_FRAC,
            "num_runs": found.num_rows,
            "sentence": found.sentence,
        }
    }


def _tokens_record(outcome: Outcome) -> Record:
    """By the token, where that is what samples are made of."""
    if outcome.workload.model.sample != "tokens":
        return {}
    return {
        "tokens_per_s": outcome.tokens_per_s,
        "energy_j_per_token": outcome.step.energy_j / outcome.tokens_per_step,
        "num_tokens": outcome.tokens_per_step,
    }


def _question_record(result: Outcome | Infeasible) -> Record:
    """What was asked, and what was taken for granted in the answer."""
    return {
        "plan": plan_record(result.plan),
        "workload": workload_record(result.workload),
        "cluster": {"name": result.cluster.name, "num_devices": result.cluster.num_devices},
        "chip": chip_names(result.cluster),
        "pools": pool_records(result),
        **measured_record(result),
        "assumptions": list(assumptions(result)),
        "version": __version__,
    }


def _excess_record(result: Infeasible) -> Record:
    use = result.memory
    is_host = use.need_bytes <= use.limit_bytes  # then the host's share of memory is what lacks
    need_bytes, limit_bytes = (
        (use.host_need_bytes, use.host_limit_bytes) if is_host else (use.need_bytes, use.limit_bytes)
    )
    return {
        "exceeded_memory": "host" if is_host else "device",
        "need_bytes": need_bytes,
        "limit_bytes": limit_bytes,
        "excess_bytes": need_bytes - limit_bytes,
        "stage": use.fullest.stage,
        "memory": memory_record(use, result.workload, result.plan),
        "levers": [
            {name: getattr(lever, name) for name in ("change", "need_bytes", "memory", "step_s", "fits")}
            for lever in result.levers
        ],
    }


def time_record(step: Step) -> Record:
    """Seconds of the step by kind; `compute_s` has recompute in it, and `recompute_s` says how much."""
    communication = {
        axis: {"exposed_s": comm.exposed_s, "hidden_s": comm.hidden_s}
        for axis, comm in zip(COMM_AXES, step.comm, strict=True)
    }
    return {
        "compute_s": step.compute_s,
        "recompute_s": step.recompute_s,
        "host_s": step.host_s,
        "communication": communication,
        "offload": {"exposed_s": step.offload.exposed_s, "hidden_s": step.offload.hidden_s},
        "bubble_s": step.bubble_s,
        "update_s": step.update_s,
        "slowest_stage": step.slowest_stage,
        "clock_frac": step.clock_frac,
        "compute_by_limit": {f"{limit}_s": s for limit, s in zip(LIMITS, step.limits_s, strict=True)},
    }


def memory_record(use: MemoryUse, workload: Workload, plan: Plan) -> Record:
    num_layers = layers_per_stage(workload.model.forward(workload.sample).num_layers, plan)
    stages = [
        {
            **asdict(stage),
            "total_bytes": stage.total_bytes,
            "recompute": plan.recompute_of(stage.stage),
            "num_layers": num_layers[stage.stage],
            "limit_bytes": use.limits_bytes[stage.stage if len(use.limits_bytes) > 1 else 0],
        }
        for stage in use.stages
    ]
    return {
        "limit_bytes": use.limit_bytes,
        "need_bytes": use.need_bytes,
        "reserve_bytes": use.reserve_bytes,
        "runtime_bytes": use.runtime_bytes,
        "host_need_bytes": use.host_need_bytes,
        "host_limit_bytes": use.host_limit_bytes,
        "fits": use.fits,
        "stages": stages,
    }


def placement_record(place: Placement) -> Record:
    """Where each kind of group lies: a dimension's name, how many ranks it has there, and how far apart they are."""
    groups = {
        "tp": place.tensor,
        "cp": place.context,
        "dp": place.data,
        "pp": place.pipeline,
        "ep": place.expert,
        "expert_tensor": place.expert_tensor,
        "expert_data": place.expert_data,
    }
    return {axis: _spans(group) for axis, group in groups.items()}


def _spans(group: Group) -> list[Record]:
    return [{"dimension": s.dimension.name, "num_ranks": s.num_ranks, "stride": s.stride} for s in group]


def workload_record(workload: Workload) -> Record:
    return {
        "model": workload.model.name,
        "global_batch": workload.global_batch,
        "seq": workload.seq,
        "sample": workload.model.sample,
        "attention": workload.attention,
        "kernels": workload.kernels,
        "precision": asdict(workload.precision),
        "routing": asdict(workload.routing),
    }
