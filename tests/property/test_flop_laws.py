"""FLOP are conserved: what time, energy, HFU and MFU are computed from are the same operations, each counted once.

Time and energy are read off a chip that does nothing but products: a joule a FLOP and no other, tiles of one product on
one unit, memory and lanes that take no time. Its seconds times its rate, and its joules, are FLOP.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.cost.families import products
from dovetail.evaluate import Outcome, evaluate
from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import Calibration, Chip, EnergyCosts, TensorUnits, Tiling
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.link import Link
from dovetail.hardware.memory import Memory
from dovetail.hardware.topology import Dimension, Topology
from dovetail.parallel.check import check_plan
from dovetail.parallel.plan import RECOMPUTE_POLICIES, Plan
from dovetail.parallel.sharding import computed_flop, executed_flop, shard
from dovetail.step.step import assembly_of, training_step
from dovetail.workload.graph import Axis, Graph, Phase
from dovetail.workload.layers import Sample
from dovetail.workload.models import models
from dovetail.workload.operators import ATTENTION_CODES, DTYPES, Unit, code_of, dtype_code
from dovetail.workload.optimizer import Precision
from dovetail.workload.training import training_graph
from dovetail.workload.workload import Workload

ENDLESS = 1e30  # style: of bytes, bytes/s, FLOP/s and watts: more than any model asks for
FLOP_PER_S = 1e12  # style: any rate, the same for every dtype
PRECISION = Precision()
SCHEDULES = (("1f1b", 1), ("1f1b", 2), ("gpipe", 1), ("zb-h1", 1), ("zb-v", 2), ("dualpipe", 1))
MODELS = ("gpt2-345m", "llama3-8b", "mixtral-8x7b", "resnet-50")


@pytest.fixture(autouse=True, scope="module")
def tiles_of_one_expert() -> Iterator[None]:
    """Tiles that experts of a grouped product share are computed for each: time, but no FLOP of the model. None are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(products, "GROUPED_TILE_ROWS", 0.0)
        yield


@cache
def meter() -> Chip:
    memory = Memory(capacity_bytes=ENDLESS, bandwidth_bytes_per_s=ENDLESS)
    base = chips["tpu-v4"]()
    one = Tiling(tiles=((1, 1),), stationary=("weight",))
    nothing = {"sram_j_per_byte": 0.0, "hbm_j_per_byte": 0.0, "link_j_per_byte": 0.0, "idle_w": 0.0}
    return replace(
        base,
        tensor=TensorUnits(
            num_units=1, num_rows=1, num_cols=1, tiling=one, rates=tuple((dtype, FLOP_PER_S) for dtype in DTYPES)
        ),
        vector=replace(base.vector, peak_flop_per_s=ENDLESS),
        core_buffer_bytes=ENDLESS,
        sram=memory,
        vector_memory=None,
        hbm=memory,
        tdp_w=ENDLESS,
        calibration=Calibration(fitted_on="nothing"),
        energy=EnergyCosts(tensor_j_per_flop=1.0, vector_j_per_flop=0.0, **nothing),
    )


def meters(num_devices: int) -> Cluster:
    link = Link(bandwidth_bytes_per_s=ENDLESS, latency_s=0.0)
    flat = Dimension(name="flat", kind="switch", num_devices=num_devices, link=link)
    return Cluster(name="meters", chip=meter(), topology=Topology(dimensions=(flat,)), sources=())


def timed_flop(graph: Graph, plan: Plan) -> float:
    """FLOP that the seconds of all stages, microbatches and devices come to, update included."""
    made = assembly_of(graph, plan, meters(plan.num_devices), PRECISION)
    columns, num_stages = made.columns, np.array([float(run.num_stages) for run in made.group.runs])
    passes_s = (columns.works.forward.cost.compute_s + columns.works.backward.cost.compute_s) @ num_stages
    updates_s = columns.update_s @ num_stages
    replica_s = made.num_passes * passes_s[columns.work_of] + updates_s[columns.update_of]
    return float(replica_s[0]) * plan.num_devices / plan.pipeline_parallel * FLOP_PER_S


def drawn_flop(graph: Graph, plan: Plan) -> float:
    return float(training_step(graph, plan, meters(plan.num_devices), PRECISION).energy_j)


@cache
def graph_of(name: str, batch: int, attention: str) -> Graph:
    model = models[name]()
    if name != "resnet-50":
        model = replace(model, architecture=replace(model.architecture, num_layers=8))  # type: ignore[type-var]
    seq = model.seq if name == "resnet-50" else 512
    forward = model.forward(Sample(batch=batch, seq=seq, dtype="bf16", attention=attention))
    return training_graph(forward, PRECISION)


def with_products_in_the_update(graph: Graph) -> Graph:
    """As an optimizer that multiplies matrices has it (Muon): one product of two numbers for each that is updated."""
    blocks = []
    for block in graph.blocks:
        is_update = block.ops.phase == Phase.UPDATE
        kind = np.where(is_update, code_of("matmul"), block.ops.kind)
        math = np.where(is_update, dtype_code("bf16"), block.ops.math)
        blocks.append(replace(block, ops=replace(block.ops, kind=kind, math=math)))
    return graph.with_blocks(tuple(blocks))


def _eight_layers(name: str) -> dict[str, object]:
    """Fewer layers are as good and faster; an order of layers stays whole."""
    return {} if name == "gemma-3-4b" else {"num_layers": 8}


@st.composite
def plans(draw: st.DrawFn, name: str) -> Plan:
    """Of 8 layers; images are not cut, and only experts are dealt out."""
    degrees = st.sampled_from((1, 2))
    tensor, context = (draw(degrees), draw(degrees)) if name != "resnet-50" else (1, 1)
    pipeline = draw(st.sampled_from((1, 2, 4)))
    schedule, interleave = draw(st.sampled_from(SCHEDULES)) if 1 < pipeline < 4 else ("1f1b", 1)
    policy = draw(st.sampled_from(RECOMPUTE_POLICIES))
    some = pipeline > 1 and policy != "none" and schedule != "dualpipe" and name != "resnet-50" and draw(st.booleans())
    return Plan(
        tensor_parallel=tensor,
        sequence_parallel=True,
        context_parallel=context,
        pipeline_parallel=pipeline,
        schedule=schedule,
        interleave=interleave,
        data_parallel=2,
        expert_parallel=draw(degrees) if name == "mixtral-8x7b" else 1,
        zero_stage=draw(st.integers(0, 3)),
        microbatch=draw(degrees),
        recompute=(policy,),
        recompute_layers=(1,) * pipeline if some else (),
    )


@pytest.mark.parametrize("attention", ["flash", "unfused"])
@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=10)
@given(data=st.data(), has_products=st.booleans())
def test_time_energy_and_hfu_count_the_same_flop(
    name: str, attention: str, data: st.DataObject, has_products: bool
) -> None:
    plan = data.draw(plans(name))
    graph = graph_of(name, 2 * plan.microbatch * 8, attention)
    graph = with_products_in_the_update(graph) if has_products else graph
    check_plan(plan, graph, plan.num_devices)
    executed = executed_flop(shard(graph, plan))
    assert drawn_flop(graph, plan) == pytest.approx(executed, rel=1e-6)
    if attention == "unfused":  # what fused kernels take is fitted, not counted
        assert timed_flop(graph, plan) == pytest.approx(executed, rel=1e-6)


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=10)
@given(data=st.data())
def test_an_update_is_done_once_a_step_however_many_microbatches_there_are(name: str, data: st.DataObject) -> None:
    plan = data.draw(plans(name))
    graph = graph_of(name, 2 * plan.microbatch * 8, "unfused")
    more = executed_flop(shard(with_products_in_the_update(graph), plan)) - executed_flop(shard(graph, plan))
    whole = replace(plan, microbatch=8 * plan.microbatch)  # in one microbatch
    once = executed_flop(shard(with_products_in_the_update(graph), whole)) - executed_flop(shard(graph, whole))
    assert more == pytest.approx(once, rel=1e-6)
    assert computed_flop(with_products_in_the_update(graph)) == computed_flop(graph)


def repeated_flop(graph: Graph, plan: Plan) -> float:
    """Of all devices: recompute, update, and scores that a fused backward pass forms again."""
    cut, found = shard(graph, plan), 0.0
    num_replicas = plan.num_devices / plan.pipeline_parallel
    for span, block in (held for stage in range(cut.num_stages) for held in cut.held(stage)):
        ops = block.ops
        b, m, n, k, _ = ops.extents.T.astype(np.float64)
        is_again = np.isin(ops.kind, ATTENTION_CODES) & ops.is_backward
        again = np.where(is_again, 2.0 * b * m * n * k * ops.work_frac, 0.0)
        again = np.where(ops.phase == Phase.RECOMPUTE, ops.flop, again)
        found += span.count * float(again[ops.unit == Unit.TENSOR].sum())
    return found * num_replicas * cut.num_microbatches / plan.num_copies


def pads(graph: Graph) -> bool:
    """Whether a vocabulary is padded to the tensor-parallel degree (50,257 divides by nothing)."""
    return any(
        int(size) % 2 and int(split) & int(Axis.TENSOR)
        for block in graph.blocks
        for sizes, splits in zip(block.ops.extents, block.ops.splits, strict=True)
        for size, split in zip(sizes, splits, strict=True)
    )


@pytest.mark.parametrize("attention", ["flash", "unfused"])
@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=10)
@given(data=st.data())
def test_hfu_is_mfu_and_what_is_done_again(name: str, attention: str, data: st.DataObject) -> None:
    plan = data.draw(plans(name))
    graph = graph_of(name, 2 * plan.microbatch * 8, attention)
    plan = replace(plan, tensor_parallel=1) if pads(graph) else plan
    check_plan(plan, graph, plan.num_devices)
    executed, model = executed_flop(shard(graph, plan)), computed_flop(graph)
    assert executed == pytest.approx(model + repeated_flop(graph, plan), rel=1e-6)
    assert model <= executed * (1 + 1e-12)  # style: a tolerance


def test_utilisations_are_flop_over_what_the_peak_would_do_in_a_step() -> None:
    workload = Workload(model=replace(models["llama3-8b"]()), global_batch=16, seq=512)
    plan = Plan(data_parallel=2, pipeline_parallel=2, recompute=("full",))
    outcome = evaluate(workload, meters(4), plan, has_changes=False)
    assert isinstance(outcome, Outcome)
    peak_flop = 4 * FLOP_PER_S * float(outcome.step.step_s)
    assert outcome.hfu_frac == pytest.approx(float(outcome.step.energy_j) / peak_flop)
    assert outcome.mfu_frac == pytest.approx(computed_flop(workload.training_graph()) / peak_flop)
    whole = computed_flop(workload.training_graph(), is_causal=False)
    assert outcome.palm_mfu_frac == pytest.approx(whole / peak_flop)


@pytest.mark.parametrize("name", ["gpt2-345m", "llama3-8b", "mixtral-8x7b", "bert-large", "gemma-3-4b"])
@settings(max_examples=8)
@given(data=st.data())
def test_mfu_is_never_above_hfu_nor_above_palms_and_the_same_by_every_kernel(name: str, data: st.DataObject) -> None:
    plan = replace(data.draw(plans("llama3-8b")), tensor_parallel=1, context_parallel=1, interleave=1, schedule="1f1b")
    model, seq = models[name](), data.draw(st.sampled_from((512, 8192, 131_072)))
    seq = seq if name in ("llama3-8b", "mixtral-8x7b", "gemma-3-4b") else 512
    model = replace(model, architecture=replace(model.architecture, **_eight_layers(name)))  # type: ignore[type-var]
    found = {}
    for attention in ("flash", "unfused"):
        workload = Workload(model=model, global_batch=2 * plan.microbatch * 8, seq=seq, attention=attention)
        outcome = evaluate(workload, meters(plan.num_devices), plan, has_changes=False)
        assert isinstance(outcome, Outcome)
        assert outcome.mfu_frac <= outcome.hfu_frac * (1 + 1e-12)  # style: a tolerance
        assert outcome.mfu_frac <= outcome.palm_mfu_frac * (1 + 1e-12)  # style: a tolerance
        found[attention] = outcome.model_flop
    assert found["flash"] == found["unfused"]
