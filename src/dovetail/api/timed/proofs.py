"""Gaps that are proven while one waits: a plan, a chip with its plan, schedules of a layer, PHAZE's placements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dovetail.api.reproduced_papers import placed_instance
from dovetail.api.timed.designing import layer_work, question, searched
from dovetail.api.timed.planning import best_plan
from dovetail.files.phaze_dp import load_recorded, shipped_instances
from dovetail.hardware.catalog import chips
from dovetail.hardware.clusters import clusters
from dovetail.opsched.exact import Limit, exact_schedule
from dovetail.opsched.fast import QUICK, list_schedule
from dovetail.opsched.problem import CoreProblem
from dovetail.opsched.work import core_problem
from dovetail.search.planners.plan_space import PlanSpace
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

LIMIT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Something whose gaps are found by `gaps_frac`, an answer each; `needs` names a library of an extra."""

    what: str
    gaps_frac: Callable[[], list[float]]
    needs: str = ""


def _plan_gaps() -> list[float]:
    """As examples/llama3-70b-512xh100.yaml has it."""
    workload = Workload(model=models["llama3-70b"](), global_batch=1024, seq=8192)
    return [best_plan(workload, clusters["dgx-h100"].build(512), PlanSpace()).gap_frac]


def _joint_gaps() -> list[float]:
    """What bounds leave, against every system scored."""
    small_question = question(is_small=True)
    bounded, exhaustive = searched(small_question), searched(small_question, is_exhaustive=True)
    assert exhaustive.census.num_scored == exhaustive.census.num_systems - exhaustive.census.num_out_of_memory, (
        exhaustive.census
    )
    return [abs(1.0 - exhaustive.best.loss / bounded.best.loss)]


def _layer() -> CoreProblem:
    return core_problem(layer_work(), chips["phaze-tpuv4"]())


def _exact_gaps() -> list[float]:
    return [exact_schedule(_layer(), Limit(wall_s=LIMIT_S)).gap_frac]


def _list_gaps() -> list[float]:
    """Against the bound that comes with it."""
    return [list_schedule(_layer(), QUICK).gap_frac]


def _placement_gaps() -> list[float]:
    """Against the optima that PHAZE's program was recorded to find."""
    found = []
    for file in shipped_instances().values():
        recorded, ours = load_recorded(file), placed_instance(file)
        found.append(abs(1.0 - recorded.batch_s / ours.batch_s))
    return found


PROOFS = (
    Proof(what="plan of Llama 3 70B on 512 H100", gaps_frac=_plan_gaps),
    Proof(what="bounds against all of a small space of chips", gaps_frac=_joint_gaps),
    Proof(what="exact schedule of a BERT-large layer", gaps_frac=_exact_gaps, needs="ortools"),
    Proof(what="list schedule of a BERT-large layer", gaps_frac=_list_gaps),
    Proof(what="placements recorded by PHAZE's program", gaps_frac=_placement_gaps),
)
