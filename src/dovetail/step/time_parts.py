"""The seconds of recorded code and of a plan of the same model by the same parts, so that they can be put side by side.

Kernels are taken at full clock, and what the power limit adds is a part of its own. Of a plan the share of compute that
hidden communication takes is in its exposed communication; so both are one part here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dovetail.cost.eager.launches import packet_of
from dovetail.hardware.cluster import Cluster
from dovetail.parallel.plan import Plan
from dovetail.step.distributed import RankOutcome
from dovetail.step.recognised import PRODUCTS
from dovetail.step.sharding_copies import COPIES as PLAN_COPIES
from dovetail.step.stage_operators import stage_operators
from dovetail.step.step import Step
from dovetail.workload.dispatched import OPTIMIZER, DispatchedOp
from dovetail.workload.graph import Graph
from dovetail.workload.optimizer import Precision

MATRIX, ATTENTION, COPIES, OTHERS, UPDATE, POWER, COMM, HOST, IDLE = PARTS = (
    "products", "attention", "copies for sharding", "other kernels", "optimizer", "power limit",
    "communication", "host", "idle",
)  # fmt: skip
COPY_OPERATORS = ("aten.split_with_sizes_copy", "aten._chunk_cat", "aten._foreach_copy_")
UPDATE_PHASE = "update"
PLAN_PRODUCTS = ("linear", "matmul", "expert_linear", "convolution", "recurrent_linear")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePart:
    """One part of a step: seconds of the code and of the plan."""

    name: str
    code_s: float
    plan_s: float


def time_parts(
    rank: RankOutcome, graph: Graph, plan: Plan, cluster: Cluster, step: Step, precision: Precision
) -> tuple[TimePart, ...]:
    """Parts of the step on `rank` beside those of `plan`; each side adds up to its step."""
    code, planned = code_parts_s(rank), plan_parts_s(graph, plan, cluster, step, precision)
    return tuple(TimePart(name=name, code_s=code[name], plan_s=planned[name]) for name in PARTS)


def code_parts_s(rank: RankOutcome) -> dict[str, float]:
    """By part, the seconds of a recorded rank."""
    sums = dict.fromkeys(PARTS, 0.0)
    for op, full_s in zip(rank.step.ops, rank.full_clock_s.tolist(), strict=True):
        sums[part_of(op)] += full_s
    sums[POWER] = float(rank.kernel_s.sum() - rank.full_clock_s.sum())
    sums[COMM] = rank.exposed_s + rank.contention_s
    sums[HOST], sums[IDLE] = rank.host_s, rank.idle_s
    return sums


def part_of(op: DispatchedOp) -> str:
    """The part of PARTS that the kernels of an operator belong to."""
    if op.phase == OPTIMIZER:
        return UPDATE
    packet = packet_of(op.name)
    if packet in PRODUCTS:
        return MATRIX
    if "scaled_dot_product" in packet:
        return ATTENTION
    return COPIES if packet in COPY_OPERATORS else OTHERS


def plan_parts_s(graph: Graph, plan: Plan, cluster: Cluster, step: Step, precision: Precision) -> dict[str, float]:
    """By part, the seconds of a plan's step on a device of its slowest stage."""
    sums = dict.fromkeys(PARTS, 0.0)
    for one in stage_operators(graph, plan, cluster, int(step.slowest_stage), precision):
        if one.phase == UPDATE_PHASE:
            continue
        if one.name in PLAN_COPIES:
            sums[COPIES] += one.total_s
            continue
        part = MATRIX if one.kind in PLAN_PRODUCTS else ATTENTION if one.kind.endswith("attention") else OTHERS
        sums[part] += one.total_s
    sums[UPDATE] = float(step.update_s)
    sums[POWER] = float(step.compute_s) - _added(sums, (MATRIX, ATTENTION, COPIES, OTHERS))
    sums[COMM], sums[HOST], sums[IDLE] = float(step.exposed_s), float(step.host_s), float(step.bubble_s)
    return sums


def _added(sums: dict[str, float], names: Iterable[str]) -> float:
    return sum(sums[name] for name in names)
