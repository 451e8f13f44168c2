"""Energy of a step by hand: idle power over its time, and every byte that a device sends."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from statistics import NormalDist

import pytest

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.parallel.plan import Plan
from dovetail.step.step import Step, training_step
from dovetail.step.work import slowest_frac
from dovetail.workload.graph import Graph
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.workload import Workload

NUM_DEVICES, BATCH, SEQ, WIDTH, NUM_LAYERS = 16, 64, 1024, 1024, 4
BF16_BYTES = 2
PRECISION = Precision()


@cache
def shortened(num_layers: int) -> Graph:
    model = models["gpt2-345m"]()
    short = replace(model, architecture=replace(model.architecture, num_layers=num_layers))  # type: ignore[type-var]
    return Workload(model=short, global_batch=BATCH, seq=SEQ, kernels="fused").training_graph()


def graph() -> Graph:
    return shortened(NUM_LAYERS)


@cache
def cluster(link_j_per_byte: float = 0.0, idle_w: float = 0.0) -> Cluster:
    """Devices whose power is no limit."""
    made = clusters["dgx-h100"].build(NUM_DEVICES)
    energy = replace(made.chip.energy, link_j_per_byte=link_j_per_byte, idle_w=idle_w)
    return replace(made, chip=replace(made.chip, tdp_w=1e9, energy=energy))  # style: more than any chip draws


def step(plan: Plan, **energy: float) -> Step:
    return training_step(graph(), plan, cluster(**energy), PRECISION)


def sent_bytes(plan: Plan) -> float:
    """By all devices in a step, from what a byte sent costs."""
    return float(step(plan, link_j_per_byte=1.0).energy_j - step(plan).energy_j)


def tied_elements() -> float:
    """The table that embedding and head share."""
    return max(float(block.ops.weight_elements.max()) for block in graph().blocks)


@pytest.mark.parametrize(
    "plan",
    [Plan(data_parallel=16), Plan(data_parallel=4, pipeline_parallel=4), Plan(tensor_parallel=8, data_parallel=2)],
)
def test_idle_power_is_drawn_by_every_device_all_the_time(plan):
    base, idle = step(plan), step(plan, idle_w=10.0)
    assert idle.step_s == base.step_s
    assert idle.energy_j - base.energy_j == pytest.approx(10.0 * NUM_DEVICES * base.step_s)


@pytest.mark.parametrize("zero_stage", [0, 1])
def test_data_parallel_devices_send_their_gradients_round_a_ring(zero_stage):
    """2 (n - 1) / n of them; by ZeRO-1 half as gradients and half as weights, which are half as wide."""
    each = PRECISION.reduce_bytes + (PRECISION.reduce_bytes if zero_stage == 0 else PRECISION.gather_bytes)
    expected = NUM_DEVICES * 15 / 16 * each * graph().num_parameters
    assert sent_bytes(Plan(data_parallel=16, zero_stage=zero_stage)) == pytest.approx(expected)


@pytest.mark.parametrize(("interleave", "schedule"), [(1, "1f1b"), (1, "gpipe"), (1, "zb-h1"), (2, "1f1b")])
def test_stages_send_boundary_activations_both_ways_and_gradients_of_tied_weights(interleave, schedule):
    """Two stages of eight replicas, 8 microbatches of one sequence; the table is on both, and reduced on both."""
    plan = Plan(data_parallel=8, pipeline_parallel=2, interleave=interleave, schedule=schedule)
    handed = 2 * interleave * BATCH * SEQ * WIDTH * BF16_BYTES * 2  # by both stages
    tied = 2 * 8 * PRECISION.reduce_bytes * tied_elements()
    reduced = 8 * 2 * 7 / 8 * PRECISION.reduce_bytes * (graph().num_parameters + tied_elements())
    assert sent_bytes(plan) == pytest.approx(handed + tied + reduced)


def test_the_slowest_of_many_is_where_bloms_formula_has_it():
    for num_devices in (2, 8, 1000):
        behind = NormalDist().inv_cdf((num_devices - 3 / 8) / (num_devices + 1 / 4))
        assert slowest_frac(num_devices, 0.02) == pytest.approx(1 / (1 + 0.02 * behind))
    assert slowest_frac(1, 0.02) == 1.0


@pytest.mark.parametrize("microbatch", [1, 2, 4])
def test_zero_2_scatters_gradients_and_zero_3_gathers_weights_twice_as_well_with_every_microbatch(microbatch):
    """A shared table is sent by its owner alone; ZeRO-2 gathers weights once a step."""
    num_microbatches = BATCH // NUM_DEVICES // microbatch
    each_bytes = NUM_DEVICES * 15 / 16 * graph().num_parameters
    reduced, gathered = PRECISION.reduce_bytes, PRECISION.gather_bytes
    plan = Plan(data_parallel=16, microbatch=microbatch, zero_stage=2)
    assert sent_bytes(plan) == pytest.approx(each_bytes * (num_microbatches * reduced + gathered))
    plan = replace(plan, zero_stage=3)
    assert sent_bytes(plan) == pytest.approx(each_bytes * num_microbatches * (reduced + 2 * gathered))


@pytest.mark.parametrize("recompute", ["none", "full"])
@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_tensor_parallel_devices_all_reduce_twice_a_layer_and_pass(sequence_parallel, recompute):
    """Beside embedding and head: 2 (n - 1) / n of a layer's input each time, however it is divided in two.

    Under sequence parallelism inputs of both products are gathered again for weight gradients.
    """
    ranks = 4
    plan = Plan(tensor_parallel=ranks, data_parallel=4, sequence_parallel=sequence_parallel, recompute=(recompute,))

    def layers_bytes(num_layers: int) -> float:
        found = [
            training_step(shortened(num_layers), plan, cluster(link_j_per_byte=j), PRECISION).energy_j
            for j in (0.0, 1.0)
        ]
        return float(found[1] - found[0])

    gradients = 2 * 3 / 4 * PRECISION.reduce_bytes  # data parallel, of what a device holds
    own = shortened(5).num_parameters - shortened(4).num_parameters
    activations_bytes = BATCH // 4 * SEQ * WIDTH * BF16_BYTES
    num_passes = 2 + (recompute == "full")
    num_reduced = 2 * num_passes + sequence_parallel
    whole = NUM_DEVICES * 2 * (ranks - 1) / ranks * activations_bytes * num_reduced
    share = layers_bytes(5) - layers_bytes(4)
    assert share == pytest.approx(whole + NUM_DEVICES * gradients * own / ranks, rel=0.01)  # norms are not divided
