"""Memory counted for many plans at once is the memory of each counted alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.errors import InvalidInput
from dovetail.evaluate import memory_use
from dovetail.parallel.check import check_plan
from dovetail.parallel.frameworks import frameworks
from dovetail.parallel.plan import AXES, CONTEXT_COMM_TYPES, RECOMPUTE_POLICIES, Overlap, Plan, columns_of
from dovetail.parallel.sharding import shard, shard_plans
from dovetail.step.memory_needs import need_bytes
from dovetail.step.pipelines import check_schedule, pipelines
from dovetail.workload.graph import Graph
from dovetail.workload.layers import Sample
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.training import training_graph

BATCH = 64
MODELS = ("gpt2-345m", "llama3-8b", "mixtral-8x7b", "deepseek-v3", "t5-large", "resnet-50", "dlrm")
PRECISIONS = {
    "mixed": Precision(),
    "gradients in bf16": Precision(gradients="bf16"),
    "fp32 weights": Precision(weights="fp32", has_master_weights=False, has_persistent_gradients=False),
}


@lru_cache
def graph_of(name: str, precision: str, kernels: str) -> Graph:
    """A catalogue model; transformers with 12 layers, so that pipelines are even and uneven, and examples quick."""
    model = models[name]()
    if hasattr(model.architecture, "num_layers"):
        dense = {"num_dense_layers": 2} if name == "deepseek-v3" else {}
        model = replace(model, architecture=replace(model.architecture, num_layers=12, **dense))  # type: ignore[type-var]
    sample = Sample(batch=BATCH, seq=min(model.seq, 1024), dtype="bf16", kernels=kernels)
    return training_graph(model.forward(sample), PRECISIONS[precision])


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    tensor, stages = draw(st.sampled_from((1, 1, 2, 4, 8))), draw(st.sampled_from((1, 2, 4, 6, 8)))
    is_sequence = draw(st.booleans())
    schedule = draw(st.sampled_from([name for name in pipelines.names() if name != "interleaved"]))
    chunks = {"1f1b": (1, 2, 3), "zb-v": (2,)}.get(schedule, (1,)) if stages > 1 else (1,)
    return Plan(
        tensor_parallel=tensor,
        sequence_parallel=is_sequence,
        context_parallel=draw(st.sampled_from((1, 1, 2))),
        context_comm_type=draw(st.sampled_from(CONTEXT_COMM_TYPES)),
        pipeline_parallel=stages,
        interleave=draw(st.sampled_from(chunks)),
        schedule=schedule if stages > 1 else "1f1b",
        data_parallel=draw(st.sampled_from((1, 2, 8))),
        expert_parallel=draw(st.sampled_from((1, 1, 2, 4))),
        expert_tensor_parallel=draw(st.sampled_from((1, tensor))) if is_sequence else tensor,
        zero_stage=draw(st.integers(0, 3)),
        microbatch=draw(st.sampled_from((1, 2))),
        recompute=(draw(st.sampled_from(RECOMPUTE_POLICIES)),),
        axis_order=draw(st.permutations(AXES).map(tuple)),
        overlap=Overlap(data=draw(st.booleans())),
    )


CHANGES: tuple[dict[str, Any], ...] = (
    {"interleave": 2},
    {"schedule": "gpipe"},
    {"zero_stage": 1},
    {"zero_stage": 3},
    {"data_parallel": 4},
    {"pipeline_parallel": 3},
    {"microbatch": 4},
    {"recompute": ("full",)},
    {"sequence_parallel": True},
)


def neighbours(plan: Plan) -> Iterator[Plan]:
    """The plan, and those that differ from it in one choice."""
    yield plan
    for change in CHANGES:
        try:
            yield replace(plan, **change)
        except InvalidInput:
            continue


def can_run(plan: Plan, graph: Graph) -> bool:
    try:
        check_schedule(plan, plan.num_microbatches(graph.batch))
        check_plan(plan, graph, plan.num_devices)
    except InvalidInput:
        return False
    return True


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=8)  # each of many plans
@given(
    some=st.lists(plans(), min_size=2, max_size=4),
    precision=st.sampled_from(sorted(PRECISIONS)),
    kernels=st.sampled_from(("fused", "eager")),
    framework=st.sampled_from(frameworks.names()),
    offload=st.sampled_from(({}, {"offload_optimizer": True, "offload_activations_frac": 0.5})),
)
def test_many_plans_need_what_each_needs_alone(
    name: str, some: list[Plan], precision: str, kernels: str, framework: str, offload: dict[str, Any]
) -> None:
    graph = graph_of(name, precision, kernels)
    chosen = [
        replace(plan, framework=framework, **offload)
        for plan in (Plan(data_parallel=8), *(near for plan in some for near in neighbours(plan)))
        if can_run(plan, graph)
    ]
    columns = columns_of(chosen)
    together = need_bytes(shard_plans(graph, columns), PRECISIONS[precision])
    alone = [memory_use(shard(graph, plan), PRECISIONS[precision], 0.0).need_bytes for plan in chosen]
    assert together == pytest.approx(alone, rel=1e-12)  # style: a tolerance
