"""Context parallelism by gather, by ring and by all-to-all: what is sent, what hides, what attention costs."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from dovetail.comm.collectives import collectives
from dovetail.cost.costs import op_costs
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.parallel.placement import placement
from dovetail.parallel.plan import CONTEXT_COMM_TYPES, Overlap, Plan, columns_of
from dovetail.parallel.sharding import degrees_of, local_ops, shard
from dovetail.step.communication import add_ring_parts
from dovetail.step.step import Step, training_step
from dovetail.step.work import COMM_AXES, COSTS, HELD_FRAC
from dovetail.units import MILLI
from dovetail.workload.graph import Axis, B, FloatArray, Graph, M, N, Ops, Phase
from dovetail.workload.models import models
from dovetail.workload.operators import ATTENTION_CODES
from dovetail.workload.optimizer import Precision
from dovetail.workload.workload import Workload
from tests.links_alone import links_alone

NUM_LAYERS, RANKS = 4, 4
CLUSTER = links_alone(clusters["dgx-h100"].build(16))
CP = COMM_AXES.index("cp")
KV_COLS, QUERY_COLS = 2 * 8 * 128, 32 * 128  # of llama3-8b
BYTES = 2  # bf16


@cache
def graph(seq: int, kernels: str = "fused") -> Graph:
    model = models["llama3-8b"]()
    short = replace(model, architecture=replace(model.architecture, num_layers=NUM_LAYERS))  # type: ignore[type-var]
    return Workload(model=short, global_batch=8, seq=seq, kernels=kernels).training_graph()


def plan(exchange: str, *, is_beside: bool = False, recompute: str = "none") -> Plan:
    return Plan(
        context_parallel=RANKS,
        context_comm_type=exchange,
        data_parallel=4,
        recompute=(recompute,),
        overlap=Overlap(context=is_beside),
    )


def step(chosen: Plan, seq: int = 8192, cluster: Cluster = CLUSTER) -> Step:
    return training_step(graph(seq), chosen, cluster, Precision())


def calibrated(**changes: float) -> Cluster:
    calibration = replace(CLUSTER.chip.calibration, **changes)  # type: ignore[arg-type]
    return replace(CLUSTER, chip=replace(CLUSTER.chip, calibration=calibration))


def per_step_s(collective: str, payload_bytes: float) -> float:
    group = placement(plan("gather"), CLUSTER.topology).context
    calibration = CLUSTER.chip.calibration
    return float(collectives[collective](payload_bytes, group, calibration.link_frac)) + calibration.exchange_s


@pytest.mark.parametrize(
    ("recompute", "num_again"),
    [("none", 0), ("norm-activation", 0), ("selective", 1), ("selective-op", 0), ("full", 1)],
)
def test_a_ring_passes_keys_on_each_way_and_their_gradients_home(recompute, num_again):
    """Past all others with every pass over attention; gradients one hop further."""
    num_hops = (RANKS - 1) * (3 + num_again) + 1
    hop_s = per_step_s("point-to-point", 8192 // RANKS * KV_COLS * BYTES)
    sent = step(plan("ring", recompute=recompute))
    assert sent.comm[CP].exposed_s == pytest.approx(2 * NUM_LAYERS * num_hops * hop_s)


@pytest.mark.parametrize(("recompute", "num_passes"), [("none", 2), ("selective", 2), ("full", 3)])
def test_heads_are_dealt_out_by_four_all_to_alls_a_pass(recompute, num_passes):
    dealt_bytes = 8192 // RANKS * (KV_COLS + 2 * QUERY_COLS) * BYTES
    each_s = per_step_s("all-to-all", dealt_bytes / 4)
    for is_beside in (False, True):  # attention waits for them in any case
        sent = step(plan("all-to-all", is_beside=is_beside, recompute=recompute))
        assert sent.comm[CP].exposed_s == pytest.approx(2 * NUM_LAYERS * 4 * num_passes * each_s)
        assert sent.comm[CP].hidden_s == 0


def test_every_call_takes_its_start_and_the_host():
    def calls(chosen: Plan) -> float:
        free, started = (step(chosen, cluster=calibrated(exchange_s=s)).comm[CP].exposed_s for s in (0.0, MILLI))
        return float(started - free) / MILLI / (2 * NUM_LAYERS)

    expected = {"gather": 3, "ring": 3 * (RANKS - 1) + 1, "all-to-all": 8}
    assert {name: calls(plan(name)) for name in CONTEXT_COMM_TYPES} == pytest.approx(expected)
    quick, slow = (step(plan("ring"), seq=512, cluster=calibrated(host_exchange_s=s)) for s in (0.0, MILLI))
    assert slow.host_s > quick.host_s


def test_a_long_sequence_hides_a_ring_but_for_the_last_hop_home():
    seq = 131072
    hop_s = per_step_s("point-to-point", seq // RANKS * KV_COLS * BYTES)
    sent = step(plan("ring", is_beside=True), seq=seq).comm[CP]
    overlappable_s = 2 * NUM_LAYERS * 3 * (RANKS - 1) * hop_s
    assert sent.hidden_s == pytest.approx((1 - HELD_FRAC) * overlappable_s)
    assert sent.exposed_s == pytest.approx(2 * NUM_LAYERS * hop_s + HELD_FRAC * overlappable_s)


def test_of_a_hop_that_outlasts_a_part_of_attention_the_rest_is_exposed():
    """Links a thousand times slower: what hides is attention over all parts but the last, forward and backward."""
    slow = replace(CLUSTER, topology=CLUSTER.topology.with_link_scaled("nvlink", MILLI))
    waits, beside = (step(plan("ring", is_beside=flag), cluster=slow) for flag in (False, True))
    assert beside.comm[CP].hidden_s > 0
    assert beside.comm[CP].exposed_s + beside.comm[CP].hidden_s == pytest.approx(waits.comm[CP].exposed_s)
    gathered = step(plan("gather", is_beside=True), cluster=slow)
    # a gather may hide behind all of attention, which in one kernel is quicker than in parts
    attention_s = gathered.comm[CP].hidden_s / (1 - HELD_FRAC) + beside.compute_s - gathered.compute_s
    assert beside.comm[CP].hidden_s / (1 - HELD_FRAC) == pytest.approx((RANKS - 1) / RANKS * attention_s, rel=0.01)


def test_attention_in_parts_starts_and_ends_with_each_and_adds_them_up():
    whole, parts = (step(plan(name)) for name in ("gather", "ring"))
    assert parts.compute_s > whole.compute_s
    long_whole, long_parts = (step(plan(name), seq=131072) for name in ("gather", "ring"))
    assert parts.compute_s / whole.compute_s > long_parts.compute_s / long_whole.compute_s > 1


def _columns(ops: Ops) -> FloatArray:
    costs = op_costs(ops, CLUSTER.chip)
    return np.stack([getattr(costs, name) for name in COSTS])


def test_a_part_is_added_to_others_in_fp32_and_its_gradients_as_they_are():
    ops = next(block.ops for block in graph(8192).blocks if block.is_layer)
    attentions = ops.taken(np.flatnonzero(np.isin(ops.kind, ATTENTION_CODES) & (ops.phase != Phase.RECOMPUTE)))
    degrees = degrees_of(columns_of([plan("ring")]), graph(8192))
    local = local_ops(attentions, degrees, np.ones(1))
    columns = np.zeros((len(COSTS), len(local)))  # of attention itself, left out here
    add_ring_parts(columns, local, degrees[Axis.HOPS], _columns)
    outputs, pairs = 8192 // RANKS * QUERY_COLS, 8192 // RANKS * KV_COLS
    moved_bytes = np.array([10 * outputs, 6 * (outputs + pairs)])  # bf16 and twice fp32; bf16 three times
    least_s = (RANKS - 1) * moved_bytes / CLUSTER.chip.hbm.bandwidth_bytes_per_s
    merged_s = columns[COSTS.index("compute_s")]
    assert list(local.phase) == [Phase.FORWARD, Phase.INPUT_GRAD]
    assert np.all((least_s < merged_s) & (merged_s < 2 * least_s))


def test_devices_that_deal_heads_out_attend_to_all_positions_with_some_heads():
    def attention(exchange: str) -> list[int]:
        layer = next(block for _, block in shard(graph(8192), plan(exchange)).held(0) if block.is_layer)
        row = np.flatnonzero(np.isin(layer.ops.kind, ATTENTION_CODES) & (layer.ops.phase == Phase.FORWARD))[0]
        return [int(size) for size in layer.ops.extents[row, [B, M, N]]]

    assert attention("gather") == attention("ring") == [32, 8192 // RANKS, 8192]
    assert attention("all-to-all") == [32 // RANKS, 8192, 8192]


@pytest.mark.parametrize("exchange", CONTEXT_COMM_TYPES)
def test_one_device_exchanges_nothing(exchange):
    alone = Plan(data_parallel=8, tensor_parallel=2, sequence_parallel=True)
    assert step(replace(alone, context_comm_type=exchange)) == step(alone)
