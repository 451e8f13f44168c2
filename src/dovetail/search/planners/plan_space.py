"""Every plan that can run a model on a cluster, as columns, in batches small enough to hold."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dovetail.hardware.families import PLAIN
from dovetail.parallel.check import context_problem
from dovetail.parallel.dispatchers import ALL_TO_ALL, dispatchers
from dovetail.parallel.plan import (
    AXES,
    CONTEXT_COMM_TYPES,
    OVERLAPS,
    RECOMPUTE_POLICIES,
    Overlap,
    Plans,
    recompute_policies,
)
from dovetail.step.pipelines import PipelineShape, pipelines
from dovetail.workload.graph import Axis, BoolArray, Graph

MAX_MICROBATCH = 64  # samples; larger ones gain nothing that gradient accumulation does not
MAX_INTERLEAVE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSpace:
    """What a planner may choose from; a field with one value is fixed."""

    tensor_parallel: tuple[int, ...] = ()  # none given: every degree that the model and the cluster allow
    sequence_parallel: tuple[bool, ...] = (False, True)
    context_parallel: tuple[int, ...] = ()
    context_comm_type: tuple[str, ...] = ("gather",)
    pipeline_parallel: tuple[int, ...] = ()
    interleave: tuple[int, ...] = ()
    data_parallel: tuple[int, ...] = ()
    expert_parallel: tuple[int, ...] = ()
    zero_stage: tuple[int, ...] = (0, 1, 2, 3)
    microbatch: tuple[int, ...] = ()
    recompute: tuple[str, ...] = RECOMPUTE_POLICIES
    schedule: tuple[str, ...] = ("1f1b",)
    axis_order: tuple[tuple[str, ...], ...] = (AXES, ("tp", "cp", "pp", "dp"))
    overlap: tuple[Overlap, ...] = field(default_factory=lambda: (Overlap(),))
    offload_optimizer: tuple[bool, ...] = (False,)
    offload_activations_frac: tuple[float, ...] = (0.0,)

    def __post_init__(self) -> None:
        object.__setattr__(self, "recompute", recompute_policies(self.recompute))

    @property
    def by_offload(self) -> tuple[PlanSpace, ...]:
        """The space in parts of one offload each, as tables of plans have it."""
        pairs = itertools.product(self.offload_optimizer, self.offload_activations_frac)
        return tuple(replace(self, offload_optimizer=(o,), offload_activations_frac=(a,)) for o, a in pairs)


def divisors(count: int) -> tuple[int, ...]:
    small = [d for d in range(1, math.isqrt(count) + 1) if count % d == 0]
    return tuple(sorted({*small, *(count // d for d in small)}))


def num_grids(space: PlanSpace, graph: Graph, num_devices: int) -> int:
    """How many batches `batches` gives at most."""
    return sum(1 for _ in _grids(space, graph, num_devices))


def batches(space: PlanSpace, graph: Graph, num_devices: int, framework: str = PLAIN) -> Iterator[Plans]:
    """The plans of `space` that can cut `graph` for `num_devices`, one batch for each pipeline they share.

    They run by `framework`: that of the cluster's chips, as a space has no other to choose from.

    What is offloaded is the first of what `space` says: all plans of a table offload alike, see `by_offload`.
    """
    for tp, cp, pp in _grids(space, graph, num_devices):
        dp = num_devices // (tp * cp * pp)
        if graph.batch % dp or (space.data_parallel and dp not in space.data_parallel):
            continue
        plans = replace(_plans(space, graph, tp, cp, pp, dp), framework=framework)
        if len(plans):
            yield plans


def _grids(space: PlanSpace, graph: Graph, num_devices: int) -> Iterator[tuple[int, int, int]]:
    """Degrees of tensor, context and pipeline parallelism that the model's shape and the cluster's size allow."""
    tensors = [d for d in space.tensor_parallel or divisors(num_devices) if _divides(graph, Axis.TENSOR, d)]
    contexts = [d for d in space.context_parallel or divisors(num_devices) if _divides(graph, Axis.CONTEXT, d)]
    stages = [d for d in space.pipeline_parallel or divisors(num_devices) if d <= graph.num_layers]
    for tp, cp, pp in itertools.product(tensors, contexts, stages):
        is_whole = num_devices % (tp * cp * pp) == 0
        if is_whole and (tp % graph.num_kv_heads == 0 or graph.num_kv_heads % tp == 0):
            yield tp, cp, pp


def _divides(graph: Graph, axis: Axis, degree: int) -> bool:
    counts = [rule.count for rule in graph.rules if rule.axis == axis]
    return degree == 1 or (bool(counts) and all(count % degree == 0 for count in counts))


def _plans(space: PlanSpace, graph: Graph, tp: int, cp: int, pp: int, dp: int) -> Plans:
    """Every choice left where these degrees are fixed, as a product."""
    choices = _choices(space, graph, tp, cp, pp, dp)
    chosen = np.indices([len(column) for column in choices]).reshape(len(choices), -1)
    pipe, sequence, exchange, expert, zero, recompute, order, overlap = (
        column[index] for column, index in zip(choices, chosen, strict=True)
    )
    common = {"tensor_parallel": tp, "context_parallel": cp, "pipeline_parallel": pp, "data_parallel": dp}
    degrees: dict[str, Any] = {name: np.full(chosen.shape[1], degree) for name, degree in common.items()}
    plans = Plans(
        **degrees,
        sequence_parallel=sequence,
        context_comm_type=exchange,
        schedule=pipe[:, 0],
        interleave=pipe[:, 1],
        microbatch=pipe[:, 2],
        expert_parallel=expert[:, 0],
        expert_tensor_parallel=expert[:, 1],
        dispatcher=np.full(chosen.shape[1], dispatchers.names().index(ALL_TO_ALL)),
        zero_stage=zero,
        recompute=recompute,
        axis_order=order,
        overlap=overlap,
        schedules=space.schedule,
        axis_orders=space.axis_order,
        offload_optimizer=space.offload_optimizer[0],
        offload_activations_frac=space.offload_activations_frac[0],
    )
    return plans.at(np.flatnonzero(_routes_each_row_once(plans, graph)))


def _choices(space: PlanSpace, graph: Graph, tp: int, cp: int, pp: int, dp: int) -> tuple[Any, ...]:
    """Pipeline (schedule, interleave, microbatch); sequence; context; experts; ZeRO; recompute; order; overlap."""
    sequence = [s for s in space.sequence_parallel if not s or (tp > 1 and _divides(graph, Axis.SEQUENCE, tp * cp))]
    each = graph.batch // dp
    microbatches = [
        m for m in space.microbatch or divisors(each) if each % m == 0 and (space.microbatch or m <= MAX_MICROBATCH)
    ]
    zeros = [z for z in space.zero_stage if z == 0 or dp * cp > 1] or [0]
    exchanges = [CONTEXT_COMM_TYPES.index(e) for e in space.context_comm_type if not context_problem(graph, e, tp, cp)]
    policies = [RECOMPUTE_POLICIES.index(policy) for policy in space.recompute]
    return (
        np.array(list(_pipes(space, graph, pp, each, microbatches)), dtype=np.int64).reshape(-1, 3),
        np.array(sequence or ([False] if tp == 1 else []), dtype=bool),  # with one tensor rank nothing to choose
        np.array(exchanges if cp > 1 else exchanges[:1], dtype=np.int64),  # of one rank nothing to exchange
        np.array(_expert_degrees(space, graph, tp, cp, dp), dtype=np.int64).reshape(-1, 2),
        np.array(zeros, dtype=np.int64),
        np.array(policies, dtype=np.int64),
        np.arange(len(space.axis_order)),
        np.array([[getattr(overlap, name) for name in OVERLAPS] for overlap in space.overlap]),
    )


def _pipes(
    space: PlanSpace, graph: Graph, pp: int, each: int, microbatches: list[int]
) -> Iterator[tuple[int, int, int]]:
    """Schedules by index, interleave and microbatch that go together; of one stage any one schedule is enough."""
    alone = PipelineShape(num_stages=1, num_microbatches=each, interleave=1)
    first = next((schedule for schedule in space.schedule if not pipelines[schedule].problem(alone)), "")
    for index, schedule in enumerate(space.schedule):
        for v in space.interleave or range(1, MAX_INTERLEAVE + 1):
            if pp * v > graph.num_layers or (v > 1 and pp == 1) or (pp == 1 and schedule != first):
                continue
            name = "interleaved" if schedule == "1f1b" and v > 1 else schedule
            for m in microbatches:
                shape = PipelineShape(num_stages=pp, num_microbatches=each // m, interleave=v)
                if not pipelines[name].problem(shape):
                    yield index, v, m


def _expert_degrees(space: PlanSpace, graph: Graph, tp: int, cp: int, dp: int) -> list[tuple[int, int]]:
    """Expert and expert-tensor degrees: experts over all of tp, cp and dp, or each cut by tp too."""
    ranks = tp * cp * dp
    degrees = [d for d in space.expert_parallel or divisors(ranks) if _divides(graph, Axis.EXPERT, d)]
    cut = [1, tp] if tp > 1 and _divides(graph, Axis.EXPERT_TENSOR, tp) else [1]
    return [(d, e) for d in degrees for e in cut if ranks % (d * e) == 0]


def _routes_each_row_once(plans: Plans, graph: Graph) -> BoolArray:
    """Experts left whole beside tensor parallelism need sequence parallelism, or every rank routes the same rows."""
    if not graph.has_experts:
        return np.ones(len(plans), dtype=bool)
    is_whole = (plans.expert_tensor_parallel == 1) & (plans.tensor_parallel > 1)
    return np.asarray(~is_whole | plans.sequence_parallel)
