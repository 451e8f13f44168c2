"""Cutting a model up loses nothing and invents nothing."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.parallel.block_memory import kept_bytes
from dovetail.parallel.check import check_plan
from dovetail.parallel.layout import layers_per_chunk
from dovetail.parallel.plan import CONTEXT_COMM_TYPES, RECOMPUTE_POLICIES, Plan
from dovetail.parallel.sharding import executed_flop, shard
from dovetail.workload.graph import Axis, Graph, Phase
from dovetail.workload.layers import Sample
from dovetail.workload.model import Model
from dovetail.workload.models import models
from dovetail.workload.operators import Unit, code_of
from dovetail.workload.optimizer import Precision
from dovetail.workload.training import training_graph, with_recompute

POLICIES = RECOMPUTE_POLICIES


def small(name: str) -> Model:
    """A catalogue model cut to 8 layers, so that every example is quick and pipelines still have work."""
    model = models[name]()
    dense = {"num_dense_layers": 2} if name == "deepseek-v3" else {}
    return replace(model, architecture=replace(model.architecture, num_layers=8, **dense))  # type: ignore[type-var]


def graph_of(name: str, batch: int, attention: str = "flash") -> Graph:
    model = small(name)
    return training_graph(model.forward(Sample(batch=batch, seq=1024, dtype="bf16", attention=attention)), Precision())


@st.composite
def plans(draw: st.DrawFn, *, sequence_parallel: bool | None = None, has_experts: bool = False) -> Plan:
    powers = st.sampled_from((1, 2, 4, 8))
    tensor, data, context = draw(powers), draw(powers), draw(st.sampled_from((1, 2)))
    experts = draw(st.sampled_from((1, 2, 4))) if has_experts else 1
    is_sequence = draw(st.booleans()) if sequence_parallel is None else sequence_parallel
    expert_tensor = tensor if has_experts and not is_sequence else draw(st.sampled_from((1, tensor)))
    if (tensor * data * context) % (experts * expert_tensor):
        experts = 1
    return Plan(
        tensor_parallel=tensor,
        sequence_parallel=is_sequence,
        context_parallel=context,
        pipeline_parallel=draw(st.sampled_from((1, 2, 4, 8))),
        data_parallel=data,
        expert_parallel=experts,
        expert_tensor_parallel=expert_tensor,
        zero_stage=draw(st.integers(0, 3)),
        microbatch=draw(st.sampled_from((1, 2))),
        recompute=(draw(st.sampled_from(POLICIES)),),
    )


@given(plan=plans(), num_microbatches=st.integers(1, 4))
def test_tokens_are_conserved(plan: Plan, num_microbatches: int) -> None:
    batch = plan.data_parallel * plan.microbatch * num_microbatches
    graph = graph_of("llama3-8b", batch)
    cut = shard(graph, plan)
    embedding = cut.held(0)[0][1].ops
    row = int(np.flatnonzero((embedding.kind == code_of("embedding")) & (embedding.phase == Phase.FORWARD))[0])
    tokens = int(embedding.extents[row, 1])
    assert tokens * plan.data_parallel * plan.context_parallel * cut.num_microbatches == graph.num_tokens


@pytest.mark.parametrize("name", ["gpt2-345m", "llama3-8b", "mixtral-8x7b", "deepseek-v3"])
@given(data=st.data())
def test_flop_of_all_shards_sum_to_the_whole(name: str, data: st.DataObject) -> None:
    has_experts = name in ("mixtral-8x7b", "deepseek-v3")
    plan = data.draw(plans(sequence_parallel=True, has_experts=has_experts))
    plan = replace(plan, tensor_parallel=min(plan.tensor_parallel, 8))
    graph = graph_of(name, batch=plan.data_parallel * plan.microbatch * 2)
    check_plan(plan, graph, plan.num_devices)
    cut = shard(graph, plan)
    policy = plan.recompute[0]
    num_replicas = plan.num_devices // plan.pipeline_parallel

    def tensor_flop(ops: object) -> float:
        return float(ops.flop[(ops.unit == Unit.TENSOR) & ~_is_padded(ops)].sum())  # type: ignore[attr-defined]

    whole = sum(block.repeat * tensor_flop(with_recompute(block.ops, policy)) for block in graph.blocks)
    held = [one for stage in range(cut.num_stages) for one in cut.held(stage)]
    shares = sum(span.count * tensor_flop(block.ops) for span, block in held) * num_replicas * cut.num_microbatches
    assert shares == pytest.approx(whole, rel=1e-12)  # style: a tolerance


@pytest.mark.parametrize("name", ["gpt2-345m", "mixtral-8x7b"])
@given(data=st.data())
def test_executed_flop_are_those_of_the_operators_that_devices_run(name: str, data: st.DataObject) -> None:
    """Those of a microbatch with each, attention over every part that comes round a ring, and the update once."""
    plan = data.draw(plans(sequence_parallel=True, has_experts=name == "mixtral-8x7b"))
    plan = replace(plan, context_comm_type=data.draw(st.sampled_from(CONTEXT_COMM_TYPES)))
    graph = graph_of(name, batch=plan.data_parallel * plan.microbatch * 2)
    cut = shard(graph, plan)
    per_microbatch = once = 0.0
    for span, block in (one for stage in range(cut.num_stages) for one in cut.held(stage)):
        flop = np.where(block.ops.unit == Unit.TENSOR, block.ops.flop, 0.0)
        is_update = block.ops.phase == Phase.UPDATE
        per_microbatch += span.count * float(flop[~is_update].sum())
        once += span.count * float(flop[is_update].sum())
    num_replicas = plan.num_devices // plan.pipeline_parallel
    wanted = num_replicas * (cut.num_microbatches * per_microbatch + once)
    assert executed_flop(cut) == pytest.approx(wanted, rel=1e-12)  # style: a tolerance


def _is_padded(ops: object) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Rows over the vocabulary, which is padded to the tensor-parallel degree (50,257 divides by nothing)."""
    return np.array(["lm_head" in name for name in ops.names])  # type: ignore[attr-defined]


@given(plan=plans())
def test_parameters_of_all_shards_sum_to_the_whole(plan: Plan) -> None:
    graph = graph_of("llama3-8b", batch=plan.data_parallel * plan.microbatch)
    cut = shard(graph, plan)
    degrees = {axis: int(degree[0]) for axis, degree in cut.table.cuts.degrees.items()}
    total = 0
    for stage in range(cut.num_stages):
        for span, block in cut.held(stage):
            ops = block.ops
            for row in np.flatnonzero(ops.weight_elements):
                # what an axis does not divide, each of its ranks holds whole
                num_shares = math.prod(degree for axis, degree in degrees.items() if int(ops.weight_split[row]) & axis)
                total += span.count * int(ops.weight_elements[row]) * num_shares
    assert total == graph.num_parameters


@given(plan=plans(sequence_parallel=True))
def test_activations_of_all_shards_sum_to_the_whole_under_sequence_parallelism(plan: Plan) -> None:
    graph = graph_of("gpt2-345m", batch=plan.data_parallel * plan.microbatch, attention="unfused")
    layer = next(block for block in graph.blocks if block.is_layer)
    share = next(block for _, block in shard(graph, plan).held(0) if block.is_layer)
    ranks = plan.tensor_parallel * plan.context_parallel * plan.data_parallel
    policy = plan.recompute[0]
    assert ranks * kept_bytes(share, policy) == pytest.approx(kept_bytes(layer, policy))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    "name", ["gpt2-345m", "llama3-8b", "mixtral-8x7b", "deepseek-v3", "t5-large", "resnet-50", "dlrm"]
)
def test_a_plan_with_every_degree_one_is_the_unsharded_graph(name: str, policy: str) -> None:
    model = models[name]()
    graph = training_graph(model.forward(Sample(batch=4, seq=model.seq, dtype="bf16")), Precision())
    cut = shard(graph, Plan(microbatch=4, recompute=(policy,)))
    assert cut.num_stages == 1
    assert cut.num_microbatches == 1
    for (span, share), block in zip(cut.held(0), graph.blocks, strict=True):
        ops = with_recompute(block.ops, policy)
        whole = ops.where(~((ops.phase == Phase.UPDATE) & ops.is_tied))  # tied weights are updated once
        assert share.ops == whole
        assert span.count == block.repeat


@given(plan=plans(), layers=st.integers(8, 130))
def test_every_layer_is_on_exactly_one_chunk_and_chunks_differ_by_at_most_one(plan: Plan, layers: int) -> None:
    counts = layers_per_chunk(layers, plan)
    assert sum(counts) == layers
    assert max(counts) - min(counts) <= 1


@given(plan=plans())
def test_recompute_never_keeps_more(plan: Plan) -> None:
    graph = graph_of("gpt2-345m", batch=plan.data_parallel * plan.microbatch, attention="unfused")
    block = next(block for _, block in shard(graph, replace(plan, recompute=("none",))).held(0) if block.is_layer)
    assert kept_bytes(block, "full") < kept_bytes(block, "selective") < kept_bytes(block, "none")
    assert kept_bytes(block, "full") < kept_bytes(block, "norm-activation") < kept_bytes(block, "none")


def test_an_axis_code_is_one_bit_each() -> None:
    codes = [int(axis) for axis in Axis if axis]
    assert all(code & (code - 1) == 0 for code in codes)
