"""What stages of some plans can be: so many layers, the recompute that memory then asks for, and how long it takes.

Counted and timed as a plan is, not approximated: stages that hold the same are counted together, whatever their plans.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np

from dovetail.errors import NotModelled
from dovetail.parallel.layout import AS_PLANNED, LayerSpan, stage_counts
from dovetail.parallel.memory import (
    MemoryTable,
    Stages,
    memory_table,
    runtime_bytes,
    stage_host_bytes,
    stage_peak_bytes,
)
from dovetail.parallel.plan import RECOMPUTE_POLICIES, Plan, Plans
from dovetail.search.planners.mixes import StageLayers, layer_order
from dovetail.step.offload import NoOffload
from dovetail.step.pipelines import PipelineShape, pipelines, schedule_name
from dovetail.step.plan_table import PlanContext
from dovetail.step.work import DIRECTIONS, NUM_ROWS, entered, stage_work, sustained
from dovetail.step.work_table import WorkTable
from dovetail.workload.graph import FloatArray, Graph, IntArray

MOST_LAYERS = 1_000  # style: a bound, those of DeepNet, the deepest transformer published; cuts of more take minutes
FEW_LAYERS = 32  # models with no more have every number of layers a stage looked at
NONE = RECOMPUTE_POLICIES.index("none")
_Kind = tuple[tuple[int, ...], bool, bool]  # repeats of every block that is no layer; is it first, is it last
Wanted = Callable[[int, int], StageLayers]  # of a plan and a stage: layers that it is asked about


def check_depth(graph: Graph, way_out: str) -> None:
    """Raises where a model has more layers than are cut into stages."""
    if graph.num_layers > MOST_LAYERS:
        message = f"stages are cut for models of up to {MOST_LAYERS:,} layers; {graph.model} has {graph.num_layers:,}"
        raise NotModelled(f"{message}; {way_out}", "num_layers")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageOptions:
    """Stages with numbers of layers, one a row, that fit: by plan, stage, layers of each kind and policy.

    The policy goes for the first `num_again` of the layers, the fewest that memory lets it; the others keep everything.
    """

    plan: IntArray
    stage: IntArray
    counts: IntArray  # rows by kinds
    start: IntArray  # of interleaved kinds: see `StageLayers`
    policy: IntArray
    num_again: IntArray
    need_bytes: FloatArray
    forward_s: FloatArray
    backward_s: FloatArray
    weight_s: FloatArray

    @property
    def num_layers(self) -> IntArray:
        return np.asarray(self.counts.sum(axis=1))

    @property
    def time_s(self) -> FloatArray:
        return self.forward_s + self.backward_s

    def at(self, rows: IntArray) -> StageOptions:
        return StageOptions(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Candidates:
    """Columns of options before it is known which fit; `row` is that of a plan with this policy."""

    plan: IntArray
    stage: IntArray
    counts: IntArray
    start: IntArray
    policy: IntArray
    row: IntArray
    in_flight: FloatArray

    @property
    def num_layers(self) -> IntArray:
        return np.asarray(self.counts.sum(axis=1))

    def at(self, rows: IntArray) -> _Candidates:
        return _Candidates(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})


def with_policies(plans: Plans, policies: tuple[int, ...]) -> Plans:
    """Every one of `plans` under each policy, plan after plan."""
    repeated = plans.at(np.repeat(np.arange(len(plans)), len(policies)))
    return replace(repeated, recompute=np.tile(np.array(policies), len(plans)))


def layer_range(graph: Graph, num_stages: int, interleave: int) -> tuple[int, int]:
    """How few and how many layers a stage is asked about: one a chunk at least, and of many near its share."""
    share = -(-graph.num_layers // num_stages)
    around = max(3, share // 3) if graph.num_layers > FEW_LAYERS else graph.num_layers
    most = graph.num_layers - (num_stages - 1) * interleave
    return graph.num_layers if num_stages == 1 else interleave, min(most, share + around)


def stage_options(context: PlanContext, policies: tuple[int, ...], wanted: Wanted) -> StageOptions:
    """Of the plans in `context`, which are `with_policies` of some, the options that fit."""
    table = memory_table(context.sharded, context.precision)
    limit_bytes = context.cluster.usable_bytes - runtime_bytes(context.plans)
    parts = []
    for kind, candidates in _candidates(context, policies, wanted).items():
        candidates = candidates.at(_kept_by_host(kind, candidates, table, context))
        found, num_again, need = _fewest_again(kind, candidates, table, limit_bytes, context.graph, policies)
        if len(num_again):
            parts.append(_timed(kind, found, num_again, need, context.graph, context.table))
    if not parts:
        return _no_options(sum(block.is_layer for block in context.graph.blocks))
    names = [field.name for field in fields(StageOptions)]
    return StageOptions(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def _no_options(num_kinds: int) -> StageOptions:
    ints, floats = np.empty(0, dtype=np.int64), np.empty(0)
    return StageOptions(
        plan=ints,
        stage=ints,
        counts=np.empty((0, num_kinds), dtype=np.int64),
        start=ints,
        policy=ints,
        num_again=ints,
        need_bytes=floats,
        forward_s=floats,
        backward_s=floats,
        weight_s=floats,
    )


def _candidates(context: PlanContext, policies: tuple[int, ...], wanted: Wanted) -> dict[_Kind, _Candidates]:
    """All that is asked about, by the kind of stage."""
    graph, found = context.graph, defaultdict(list)
    outer = [index for index, block in enumerate(graph.blocks) if not block.is_layer]
    for index in range(len(context.plans) // len(policies)):
        plan = context.plans.plan(index * len(policies))
        counts = stage_counts(graph, plan)[outer]
        for stage in range(plan.pipeline_parallel):
            kind = (tuple(counts[:, stage].tolist()), stage == 0, stage == plan.pipeline_parallel - 1)
            found[kind].append(_candidates_of(graph, plan, index, stage, policies, wanted(index, stage)))
    names = [field.name for field in fields(_Candidates)]
    return {
        kind: _Candidates(**{name: np.concatenate([getattr(one, name) for one in of_kind]) for name in names})
        for kind, of_kind in found.items()
    }


def _candidates_of(
    graph: Graph, plan: Plan, index: int, stage: int, policies: tuple[int, ...], layers: StageLayers
) -> _Candidates:
    """Of one stage: all that is wanted under every policy."""
    shape = PipelineShape(
        num_stages=plan.pipeline_parallel,
        num_microbatches=plan.num_microbatches(graph.batch),
        interleave=plan.interleave,
    )
    policy = np.repeat(np.arange(len(policies)), len(layers.counts))
    num_rows = len(policy)
    return _Candidates(
        plan=np.full(num_rows, index),
        stage=np.full(num_rows, stage),
        counts=np.tile(layers.counts, (len(policies), 1)),
        start=np.tile(layers.start, len(policies)),
        policy=np.array(policies)[policy],
        row=index * len(policies) + policy,
        in_flight=np.full(num_rows, float(pipelines[schedule_name(plan)].in_flight(stage, shape))),
    )


def _fewest_again(
    kind: _Kind,
    candidates: _Candidates,
    table: MemoryTable,
    limit_bytes: FloatArray,
    graph: Graph,
    policies: tuple[int, ...],
) -> tuple[_Candidates, IntArray, FloatArray]:
    """Of what is asked the rows that fit, the fewest layers they recompute, and what they need; by bisection."""
    limits = limit_bytes[candidates.row]
    most = np.where(candidates.policy == NONE, 0, candidates.num_layers)
    need = _need_bytes(kind, candidates, most, table, graph)
    few, many = np.where(NONE in policies, np.minimum(1, most), most), most.copy()
    while len(open_ := np.flatnonzero((few < many) & (need <= limits))):
        middle = (few[open_] + many[open_]) // 2
        got = _need_bytes(kind, candidates.at(open_), middle, table, graph)
        fits = got <= limits[open_]
        need[open_[fits]], many[open_[fits]] = got[fits], middle[fits]
        few[open_[~fits]] = middle[~fits] + 1
    fitting = np.flatnonzero(need <= limits)
    return candidates.at(fitting), many[fitting], (need + runtime_bytes(table.plans)[candidates.row])[fitting]


def _kept_by_host(kind: _Kind, candidates: _Candidates, table: MemoryTable, context: PlanContext) -> IntArray:
    """Rows of which the host has room for the optimizer; activations are offloaded by even plans alone."""
    if isinstance(context.offload, NoOffload):
        return np.arange(len(candidates.row))
    kept_bytes = np.empty(len(candidates.row))
    for rows in _same_kinds(candidates, np.zeros_like(candidates.row), context.graph):
        chosen = candidates.at(rows)
        kept_bytes[rows] = stage_host_bytes(table, _stages(kind, chosen, np.zeros_like(rows), context.graph))
    return np.flatnonzero(kept_bytes <= context.offload.host.share_bytes)


def _need_bytes(
    kind: _Kind, candidates: _Candidates, num_again: IntArray, table: MemoryTable, graph: Graph
) -> FloatArray:
    """What the allocator holds on stages of a kind."""
    need = np.empty(len(num_again))
    for rows in _same_kinds(candidates, num_again, graph):
        need[rows] = stage_peak_bytes(table, _stages(kind, candidates.at(rows), num_again[rows], graph))
    return need


def recomputed(graph: Graph, counts: IntArray, start: IntArray, num_again: IntArray) -> IntArray:
    """Layers of each kind among the first `num_again` of stages that hold `counts`: rows by kinds."""
    if graph.is_interleaved:
        return layer_order(graph).held(start, num_again)
    before = np.cumsum(counts, axis=1) - counts
    return np.asarray(np.clip(num_again[:, None] - before, 0, counts))


def _same_kinds(candidates: _Candidates, num_again: IntArray, graph: Graph) -> list[IntArray]:
    """Rows with layers of the same kinds, of which the same recompute a layer or more: what else is held is not."""
    again = recomputed(graph, candidates.counts, candidates.start, num_again)
    has = np.concatenate([candidates.counts > 0, again > 0], axis=1)
    code = has @ (1 << np.arange(has.shape[1]))
    return [np.flatnonzero(code == one) for one in np.unique(code)]


def _stages(kind: _Kind, candidates: _Candidates, num_again: IntArray, graph: Graph) -> Stages:
    """Stages `_alike`."""
    parts = _parts(kind, candidates, num_again, graph)
    counts = [np.broadcast_to(np.asarray(part.count, dtype=np.float64), num_again.shape) for part in parts]
    return Stages(
        stage=0 if kind[1] else 1,
        is_last=kind[2],
        rows=candidates.row,
        blocks=tuple((span.block, span.policy) for span in parts),
        counts=np.stack(counts),
        in_flight=candidates.in_flight,
    )


def _parts(kind: _Kind, candidates: _Candidates, num_again: IntArray, graph: Graph) -> tuple[LayerSpan, ...]:
    """Blocks of stages of a kind; of layers, those that recompute come first."""
    recomputing = recomputed(graph, candidates.counts, candidates.start, num_again)
    outer, layers, parts = iter(kind[0]), zip(candidates.counts.T, recomputing.T, strict=True), []
    for index, block in enumerate(graph.blocks):
        if not block.is_layer:
            count = next(outer)
            parts += [LayerSpan(block=index, count=count)] if count else []
            continue
        held, again = next(layers)
        split = ((again, AS_PLANNED), (held - again, NONE))
        parts += [
            LayerSpan(block=index, count=num_layers, policy=policy) for num_layers, policy in split if num_layers.any()
        ]
    return tuple(parts)


def _timed(
    kind: _Kind, candidates: _Candidates, num_again: IntArray, need_bytes: FloatArray, graph: Graph, table: WorkTable
) -> StageOptions:
    shape, variant = candidates.row.shape, table.comm_variant_of[candidates.row]
    total = np.zeros((DIRECTIONS, NUM_ROWS, *shape))
    for part in _parts(kind, candidates, num_again, graph):
        total += (
            part.count
            * table.works[part.block][:, :, variant, candidates.policy if part.policy == AS_PLANNED else NONE]
        )
    chip = table.chip_at(candidates.row)
    work = sustained(entered(stage_work(total, chip.endpoint_kind), chip), chip, table.num_devices)
    return StageOptions(
        plan=candidates.plan,
        stage=candidates.stage,
        counts=candidates.counts,
        start=candidates.start,
        policy=candidates.policy,
        num_again=num_again,
        need_bytes=need_bytes,
        forward_s=np.broadcast_to(work.forward.time_s, shape),
        backward_s=np.broadcast_to(work.backward.time_s, shape),
        weight_s=np.broadcast_to(work.deferrable_wgrad_s, shape),
    )
