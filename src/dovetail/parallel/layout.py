"""How a model's blocks lie on the stages of a pipeline: layers by chunk, and runs of stages that hold the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.parallel.plan import RECOMPUTE_POLICIES, Plan, policies_of
from dovetail.workload.graph import Graph, IntArray, run_lengths

AS_PLANNED = -1  # the recompute policy of the plan, whichever that is


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSpan:
    """Repeats of one block that recompute alike: by a policy of `policies_of` their plan, or AS_PLANNED."""

    block: int
    count: int
    policy: int = AS_PLANNED

    @property
    def recompute(self) -> str:
        """The name of the policy, which must not be AS_PLANNED."""
        assert self.policy != AS_PLANNED, self
        return RECOMPUTE_POLICIES[self.policy]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageGroup:
    """Stages that hold the same: the first of them, how many, and what each holds.

    `pool` is the pool of the cluster that they are on. All of them have neighbours on the same pools.
    """

    first_stage: int
    num_stages: int
    spans: tuple[LayerSpan, ...]
    pool: int = 0

    @property
    def num_blocks(self) -> int:
        return sum(span.count for span in self.spans)


def stage_counts(graph: Graph, plan: Plan) -> IntArray:
    """Repeats of each block on each stage: blocks by stages.

    A chunk holds consecutive layers, whatever their kinds: of each as many as the model's pattern has between its ends.
    """
    bounds = np.concatenate(([0], np.cumsum(layers_per_chunk(graph.num_layers, plan))))
    by_chunk = np.diff(graph.layers_before(bounds), axis=1)
    counts = np.zeros((len(graph.blocks), plan.pipeline_parallel), dtype=np.int64)
    homes = [sorted({*stages}) for stages in plan.chunk_stages]
    held = [(chunk, stage) for chunk, stages in enumerate(homes) for stage in stages]
    chunks, stages = np.array(held).T
    kind = 0
    for index, block in enumerate(graph.blocks):
        if not block.is_layer:
            counts[index, homes[0] if kind == 0 else homes[-1]] += block.repeat
            continue
        np.add.at(counts[index], stages, by_chunk[kind, chunks])
        kind += 1
    return counts


def layers_per_chunk(num_layers: int, plan: Plan) -> tuple[int, ...]:
    """Layers of each chunk in model order; an uneven rest goes to the middle, away from embedding and head."""
    if plan.layers_per_stage:
        return plan.layers_per_stage
    chunks = plan.num_chunks
    base, rest = divmod(num_layers, chunks)
    first = (chunks - rest) // 2
    return tuple(base + (1 if first <= chunk < first + rest else 0) for chunk in range(chunks))


def even_runs(graph: Graph, num_stages: int, interleave: int, schedule: str) -> tuple[StageGroup, ...]:
    """The runs of a pipeline over which layers are spread evenly, all recomputing as planned."""
    counts = stage_counts(graph, Plan(pipeline_parallel=num_stages, interleave=interleave, schedule=schedule))
    return _runs([tuple(LayerSpan(block=b, count=int(c)) for b, c in enumerate(column) if c) for column in counts.T])


def runs_of(graph: Graph, plan: Plan) -> tuple[StageGroup, ...]:
    """The runs of one plan, each part with its policy."""
    counts = stage_counts(graph, plan)
    stages = [_parts(graph, plan, stage, counts[:, stage]) for stage in range(plan.pipeline_parallel)]
    return _runs(stages, plan.stage_pools)


def _parts(graph: Graph, plan: Plan, stage: int, counts: IntArray) -> tuple[LayerSpan, ...]:
    """What a stage holds: of its layers the first so many recompute, and the others keep everything."""
    policy = policies_of((plan,)).index(plan.recompute_of(stage))
    none = RECOMPUTE_POLICIES.index("none")
    is_layer = np.array([block.is_layer for block in graph.blocks])
    num_again = plan.num_recomputed_of(stage, int(counts[is_layer].sum()))
    recomputed = counts.copy()
    recomputed[is_layer] = 0
    for start, end in _layer_ranges(graph, plan, stage):
        few = min(end - start, num_again)
        recomputed[is_layer] += np.diff(graph.layers_before(np.array([start, start + few])), axis=1)[:, 0]
        num_again -= few
    parts = []
    for block, (count, again) in enumerate(zip(counts.tolist(), recomputed.tolist(), strict=True)):
        split = ((again, policy), (count - again, none))
        parts += [
            LayerSpan(block=block, count=num_layers, policy=layer_policy)
            for num_layers, layer_policy in split
            if num_layers
        ]
    return tuple(parts)


def _layer_ranges(graph: Graph, plan: Plan, stage: int) -> list[tuple[int, int]]:
    """The first layer of each chunk of a stage and the first behind it, in the order of the model."""
    bounds = np.concatenate(([0], np.cumsum(layers_per_chunk(graph.num_layers, plan)))).tolist()
    return [(bounds[chunk], bounds[chunk + 1]) for chunk, homes in enumerate(plan.chunk_stages) if stage in homes]


def ordered_parts(graph: Graph, run: StageGroup, plan: Plan) -> tuple[LayerSpan, ...]:
    """What the first stage of `run`, one of those of `plan`, holds, layer after layer in the order of the model."""
    if not graph.is_interleaved:
        return run.spans
    places = [index for index, block in enumerate(graph.blocks) if block.is_layer]
    kinds = np.repeat(*np.array([(places[kind], count) for kind, count in graph.layer_runs]).T)
    held = [int(kinds[at]) for ends in _layer_ranges(graph, plan, run.first_stage) for at in range(*ends)]
    left = {(part.block, part.policy): part.count for part in run.spans}
    policies: dict[int, list[int]] = {}
    for part in run.spans:  # layers that recompute come before those of their kind that do not
        policies.setdefault(part.block, []).append(part.policy)
    layers = []
    for block in held:
        policy = next(policy for policy in policies[block] if left[block, policy])
        left[block, policy] -= 1
        layers.append((block, policy))
    spans = [LayerSpan(block=block, count=n, policy=policy) for (block, policy), n in run_lengths(layers)]
    before = [part for part in run.spans if part.block < places[0]]
    return (*before, *spans, *(part for part in run.spans if part.block > places[-1]))


def _runs(stages: list[tuple[LayerSpan, ...]], stage_pools: tuple[int, ...] = ()) -> tuple[StageGroup, ...]:
    """Neighbours that hold the same, on the same pool of the cluster and beside the same pools, together."""
    pools_of = stage_pools or (0,) * len(stages)
    beside = zip((pools_of[-1], *pools_of[:-1]), pools_of, (*pools_of[1:], pools_of[0]), strict=True)
    kinds = list(zip(stages, beside, strict=True))
    starts = [stage for stage, kind in enumerate(kinds) if stage == 0 or kind != kinds[stage - 1]]
    ends = [*starts[1:], len(stages)]
    return tuple(
        StageGroup(first_stage=start, num_stages=end - start, spans=stages[start], pool=pools_of[start])
        for start, end in zip(starts, ends, strict=True)
    )
