"""What optimizers keep, compute and send, against their papers."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from dovetail.errors import InvalidInput, NotModelled
from dovetail.evaluate import evaluate
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.hardware.topology import Dimension
from dovetail.parallel.checkpoint import checkpoint_bytes
from dovetail.parallel.memory import moments
from dovetail.parallel.plan import Plan
from dovetail.parallel.sharding import shard
from dovetail.registry import Owner, registering, withdraw
from dovetail.step.step import assembly_of, training_step
from dovetail.workload.graph import Graph, Phase
from dovetail.workload.models import models
from dovetail.workload.operators import OPERATORS, Unit, code_of
from dovetail.workload.optimizer import Precision
from dovetail.workload.optimizers import Optimizer, State, Update, optimizer_named, optimizers
from dovetail.workload.optimizers.muon import newton_schulz
from dovetail.workload.workload import Workload

HIDDEN, FFN, VOCAB, LAYERS, KV = 4096, 14336, 128256, 32, 1024  # Llama 3 8B (its config.json)
MATRICES = LAYERS * (HIDDEN * (HIDDEN + 2 * KV) + HIDDEN * HIDDEN + 3 * HIDDEN * FFN)
NORMS = (2 * LAYERS + 1) * HIDDEN
REST = 2 * VOCAB * HIDDEN + NORMS


@cache
def graph(optimizer: str, model: str = "llama3-8b", batch: int = 64, **more: str) -> Graph:
    precision = Precision(optimizer=optimizer, **more)  # type: ignore[arg-type]
    entry = models[model]()
    return Workload(model=entry, global_batch=batch, seq=min(entry.seq, 8192), precision=precision).training_graph()


def moments_bytes(optimizer: str, **more: str) -> float:
    """State of Llama 3 8B beside weights and master weights."""
    precision = Precision(optimizer=optimizer, **more)  # type: ignore[arg-type]
    found = graph(optimizer, **more)
    return checkpoint_bytes(found, precision) - found.num_parameters * (precision.weight_bytes + 4.0)


@pytest.mark.parametrize(
    ("optimizer", "more", "expected_bytes"),
    [
        ("adam", {}, 8 * (MATRICES + REST)),  # two fp32 moments
        ("adam", {"moments": "bf16"}, 4 * (MATRICES + REST)),
        ("lion", {}, 4 * (MATRICES + REST)),  # one: half of AdamW's (Chen et al. 2023, section 4)
        ("muon", {}, 4 * MATRICES + 8 * REST),
        ("muon", {"moments": "bf16"}, 2 * MATRICES + 4 * REST),
        ("adam8bit", {}, 2 * (1 + 4 / 256) * (MATRICES + REST)),
        (
            "adafactor",
            {},
            4
            * (
                LAYERS * (2 * HIDDEN + (HIDDEN + 2 * KV) + 2 * HIDDEN + (HIDDEN + 2 * FFN) + (FFN + HIDDEN))
                + 2 * (VOCAB + HIDDEN)
                + NORMS
            ),
        ),
    ],
)
def test_llama_3_8b_has_the_state_that_its_shapes_give(optimizer: str, more: dict[str, str], expected_bytes: float):
    assert graph(optimizer, **more).num_parameters == MATRICES + REST
    assert moments_bytes(optimizer, **more) == pytest.approx(expected_bytes, rel=1e-12)


def test_muon_keeps_about_half_of_adamws_moments():
    """Liu et al., arXiv:2502.16982, section 2.3: one momentum in place of two, but for embedding and head."""
    assert moments_bytes("muon") / moments_bytes("adam") == pytest.approx(0.5 + 0.5 * REST / (MATRICES + REST))
    assert 0.5 < moments_bytes("muon") / moments_bytes("adam") < 0.6


def test_adafactor_keeps_next_to_nothing():
    """Shazeer and Stern 2018: O(n + m) for a matrix of n by m; a thousandth of Adam's here."""
    assert moments_bytes("adafactor") < 1e-3 * moments_bytes("adam")


@pytest.mark.parametrize(("rows", "cols"), [(4096, 14336), (14336, 4096), (512, 512)])
def test_newton_schulz_takes_the_flop_of_its_paper(rows: int, cols: int):
    """Jordan et al. 2024: each step is 2 (2 nm^2 + m^3) FLOP for m <= n, at most 6 nm^2; five steps."""
    m, n = min(rows, cols), max(rows, cols)
    found = sum(2 * one.m * one.n * one.k * one.num_runs for one in newton_schulz(rows, cols))
    assert found == 5 * 2 * (2 * n * m**2 + m**3)
    assert found <= 5 * 6 * n * m**2


def update_flop(found: Graph) -> float:
    ops = [(block.repeat, block.ops) for block in found.blocks]
    return sum(times * float(o.flop[(o.phase == Phase.UPDATE) & (o.unit == Unit.TENSOR)].sum()) for times, o in ops)


def test_newton_schulz_adds_no_more_flop_than_steps_times_width_over_batch():
    """Jordan et al. 2024, "Runtime analysis": at most Tm/B of training's, for T steps and a batch of B tokens."""
    found = graph("muon")
    hidden_flop = 6.0 * MATRICES * found.num_tokens
    assert 0.7 * 5 * HIDDEN / found.num_tokens < update_flop(found) / hidden_flop <= 5 * HIDDEN / found.num_tokens


def step(optimizer: str, plan: Plan, num_devices: int = 64):
    cluster = clusters["dgx-h100"].build(num_devices)
    return training_step(graph(optimizer, batch=512), plan, cluster, Precision(optimizer=optimizer))


def test_muons_update_takes_a_few_percent_of_a_step():
    """Liu et al., section 2.3: usually 1 to 3 % of the forward and backward pass, ZeRO-1 sharing the work out."""
    plan = Plan(data_parallel=64, zero_stage=1, recompute=("full",))
    muon, adam = step("muon", plan), step("adam", plan)
    assert 0.001 < float((muon.update_s - adam.update_s) / adam.step_s) < 0.03


def test_ranks_that_share_state_share_the_products_of_its_update():
    flop = []
    for zero_stage in (0, 1):
        pieces = shard(graph("muon"), Plan(data_parallel=8, zero_stage=zero_stage))
        blocks = [(span.count, block.ops) for span, block in pieces.held(0)]
        products = [(n, o, (o.phase == Phase.UPDATE) & (o.unit == Unit.TENSOR)) for n, o in blocks]
        flop.append(sum(n * float(o.flop[chosen].sum()) for n, o, chosen in products))
    assert flop[1] == pytest.approx(flop[0] / 8, rel=1e-12)
    assert flop[0] == update_flop(graph("muon"))


def test_tensor_parallel_ranks_compute_the_same_products():
    pieces = shard(graph("muon"), Plan(tensor_parallel=8))
    blocks = [(span.count, block.ops) for span, block in pieces.held(0)]
    flop = sum(n * float(o.flop[(o.phase == Phase.UPDATE) & (o.unit == Unit.TENSOR)].sum()) for n, o in blocks)
    assert flop == update_flop(graph("muon"))


def sent_bytes(optimizer: str, plan: Plan) -> float:
    """Once a step, by a device of the one stage."""
    cluster = clusters["dgx-h100"].build(plan.num_devices)
    made = assembly_of(graph(optimizer), plan, cluster, Precision(optimizer=optimizer))
    return float(np.asarray(made.columns.grad_sync.sent_bytes)[0, 0])


def test_zero_gathers_every_matrix_in_bf16_before_the_update():
    """Liu et al., algorithm 1: at most 2 bytes a parameter beside the 4 and 4 of fp32 gradients and parameters."""
    plan = Plan(data_parallel=8, zero_stage=1)
    more = sent_bytes("muon", plan) - sent_bytes("adam", plan)
    assert more == pytest.approx(2 * MATRICES * 7 / 8, rel=1e-12)
    fp32 = Precision(weights="fp32", has_autocast_weights=True)
    both = fp32.reduce_bytes + fp32.gather_bytes
    assert (both + 2.0) / both == 1.25


def test_tensor_parallelism_gathers_the_parts_of_its_matrices():
    plan = Plan(tensor_parallel=8)
    assert sent_bytes("muon", plan) - sent_bytes("adam", plan) == pytest.approx(2 * MATRICES * 7 / 8, rel=1e-12)


def test_without_zero_and_tensor_parallelism_nothing_is_gathered():
    plan = Plan(data_parallel=8)
    assert sent_bytes("muon", plan) == sent_bytes("adam", plan)


def slower(cluster: Cluster) -> Cluster:
    """With a quarter of the bandwidth on every link."""

    def cut(dimension: Dimension) -> Dimension:
        link = dimension.link
        return replace(dimension, link=replace(link, bandwidth_bytes_per_s=link.bandwidth_bytes_per_s / 4))

    dimensions = tuple(cut(dimension) for dimension in cluster.topology.dimensions)
    return replace(cluster, topology=replace(cluster.topology, dimensions=dimensions))


def test_the_update_waits_for_its_gather():
    quick = clusters["dgx-h100"].build(16)
    plan = Plan(tensor_parallel=8, data_parallel=2, zero_stage=1)

    def update_s(optimizer: str, cluster: Cluster) -> float:
        return float(training_step(graph(optimizer), plan, cluster, Precision(optimizer=optimizer)).update_s)

    assert update_s("muon", slower(quick)) > update_s("muon", quick)
    assert update_s("adam", slower(quick)) == update_s("adam", quick)


def test_the_products_of_an_update_have_room():
    """X, its product and a square of its short side in bf16, when the update runs; gate and up are one matrix."""
    pieces = shard(graph("muon"), Plan(data_parallel=64, zero_stage=3))
    update = moments(pieces, 0, Precision(optimizer="muon"), 1.0)[-1]
    assert update.buffers_bytes == 2.0 * (2 * HIDDEN * 2 * FFN + HIDDEN * HIDDEN)


def test_muon_on_the_host_is_not_modelled():
    cluster = clusters["dgx-h100"].build(8)
    workload = Workload(model=models["gpt2-345m"](), global_batch=64, seq=1024, precision=Precision(optimizer="muon"))
    plan = Plan(data_parallel=8, zero_stage=1, offload_optimizer=True)
    with pytest.raises(NotModelled, match="muon"):
        evaluate(workload, cluster, plan, has_changes=False)


@pytest.mark.parametrize("optimizer", ["muon", "adafactor"])
def test_matrices_of_convolutions_are_not_modelled(optimizer: str):
    with pytest.raises(NotModelled, match="convolution"):
        graph(optimizer, "resnet-50")


def test_lion_and_8_bit_adam_update_convolutions_too():
    for optimizer in ("lion", "adam8bit"):
        assert graph(optimizer, "resnet-50").num_parameters > 0


def test_a_name_that_nobody_has_is_refused_with_the_nearest():
    with pytest.raises(InvalidInput, match="did you mean muon"):
        optimizer_named("muno")


def test_a_plugin_may_bring_an_optimizer_and_take_it_away():
    mine = Optimizer(
        name="mine",
        summary="one moment",
        source="a test",
        update=Update(operator="mine", flop_per_parameter=3.0, states=(State(name="m"),)),
    )
    num_operators, owner = len(OPERATORS), Owner(path="mine.py")
    code = "from dovetail.workload.optimizers import optimizers\noptimizers.register('mine')(mine)"
    with registering(owner):
        exec(code, {"mine": mine, "__name__": "dovetail_plugin_mine"})
    try:
        assert Precision(optimizer="mine").optimizer_bytes == 8.0
        assert OPERATORS[-1].name == "mine"
        assert graph("mine", "gpt2-345m").num_parameters > 0
    finally:
        withdraw(owner)
        graph.cache_clear()
    assert "mine" not in optimizers
    assert len(OPERATORS) == num_operators


def test_factored_state_is_of_matrices_alone():
    factored = Update(operator="x", flop_per_parameter=1.0, states=(State(name="r", is_factored=True),))
    with pytest.raises(InvalidInput, match="matrix_update"):
        Optimizer(name="x", summary="x", source="x", update=factored)


def test_the_products_of_a_matrix_come_one_after_another_and_before_its_update():
    [block] = [block for block in graph("muon").blocks if block.is_layer]
    ops = block.ops
    sources = np.repeat(np.arange(len(ops)), np.diff(ops.edge_start))
    edges = set(zip(sources.tolist(), ops.edge_to.tolist(), strict=True))
    products = np.flatnonzero((ops.phase == Phase.UPDATE) & (ops.unit == Unit.TENSOR))
    assert len(products) == 3 * 5  # query, key and value, output, gate and up, down
    for first in products[::3].tolist():
        assert (first, first + 1) in edges
        assert (first + 1, first + 2) in edges
    updates = np.flatnonzero(ops.kind == code_of("muon"))
    assert {(int(product), int(update)) for product in products for update in updates} <= edges
    assert np.all(ops.phase[updates] == Phase.UPDATE)
