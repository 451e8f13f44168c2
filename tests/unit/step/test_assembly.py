"""A step put together: what ends it and what hides, by hand."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from dovetail.comm.library.on_group import library_s
from dovetail.hardware.clusters import clusters
from dovetail.parallel.placement import placement
from dovetail.parallel.plan import Overlap, Plan, columns_of
from dovetail.step.assembly import Assembly, StageShapeGroup, num_hiding_microbatches
from dovetail.step.stage_columns import hidden_s
from dovetail.step.step import assembly_of, step_times, training_step, transfers
from dovetail.step.work import COSTS, NUM_ROWS, NUM_TIMED, ROWS
from dovetail.workload.graph import Graph
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.workload import Workload

CLUSTER = clusters["dgx-h100"].build(16)
PRECISION = Precision()
TWO = Plan(pipeline_parallel=2, data_parallel=8)
BOUNDARY_BYTES = 1024 * 1024 * 2  # a sequence by its width, in bf16


@cache
def graph(num_layers: int = 4) -> Graph:
    model = models["gpt2-345m"]()
    short = replace(model, architecture=replace(model.architecture, num_layers=num_layers))  # type: ignore[type-var]
    return Workload(model=short, global_batch=64, seq=1024, kernels="fused").training_graph()


@cache
def assembly(plan: Plan) -> Assembly:
    return assembly_of(graph(), plan, CLUSTER, PRECISION)


def point_to_point_s(plan: Plan, payload_bytes: float) -> float:
    group = placement(plan, CLUSTER.topology).pipeline
    return float(library_s("point-to-point", payload_bytes, group))


def tied_elements() -> float:
    return max(float(block.ops.weight_elements.max()) for block in graph().blocks)


def test_ends_of_a_pipeline_sum_the_gradients_of_the_weights_they_share():
    assert assembly(TWO).tied_s[0] == pytest.approx(point_to_point_s(TWO, PRECISION.reduce_bytes * tied_elements()))
    assert assembly(Plan(data_parallel=16)).tied_s[0] == 0.0


@pytest.mark.parametrize(("zero_stage", "ranks"), [(0, 1), (1, 4)])
def test_copies_of_a_chunk_are_summed_from_zero_1_on_a_share_of_each(zero_stage, ranks):
    plan = Plan(pipeline_parallel=4, data_parallel=4, schedule="dualpipe")

    def summed_bytes(chosen: Plan) -> float:
        """Of copies, without what tied weights take."""
        found = assembly(chosen)
        are_apart = bool(found.context.table.are_ties_apart[0])
        return float(found.tied_bytes[0]) - are_apart * PRECISION.reduce_bytes * tied_elements()

    whole_bytes = summed_bytes(plan)
    assert whole_bytes >= PRECISION.reduce_bytes * tied_elements()  # of the fullest device, which has the table
    assert summed_bytes(replace(plan, zero_stage=zero_stage)) == pytest.approx(whole_bytes / ranks)


@pytest.mark.parametrize(
    ("num_stages", "interleave", "microbatches", "num_hiding"),
    [(4, 1, 8, 1.0), (4, 2, 8, 2.0), (4, 3, 8, 8 / 3), (4, 2, 3, 1.5), (4, 2, 1, 1.0), (8, 4, 100, 6.0)],
)
def test_chunks_but_one_of_the_last_round_hide_the_gradient_sync(num_stages, interleave, microbatches, num_hiding):
    group = cast("StageShapeGroup", SimpleNamespace(name="interleaved", num_stages=num_stages, interleave=interleave))
    assert num_hiding_microbatches(group, np.array([microbatches])) == pytest.approx([num_hiding])


@pytest.mark.parametrize(("name", "num_hiding"), [("zb-h1", 0.5), ("1f1b", 1.0)])
def test_a_single_microbatch_hides_its_sync_behind_weight_gradients_where_they_have_a_pass(name, num_hiding):
    group = cast("StageShapeGroup", SimpleNamespace(name=name, num_stages=4, interleave=1))
    assert num_hiding_microbatches(group, np.array([1, 2])) == pytest.approx([num_hiding, 1.0])


@pytest.mark.parametrize(("schedule", "hides_waits"), [("1f1b", False), ("zb-h1", True)])
def test_what_a_stage_waits_for_the_slowest_hides_its_gradient_sync(schedule, hides_waits):
    """The last of two stages has the head, and the first waits for it."""
    found = assembly(replace(TWO, schedule=schedule))
    columns = found.columns
    both_s = (columns.forward_s + columns.backward_s)[columns.work_of][0]
    free_s = (columns.free_forward_s + columns.free_backward_s)[columns.work_of][0]
    waits_s = (both_s.max() - both_s) * hides_waits
    assert both_s[0] < both_s[1]
    most_s = found.num_hiding_passes[0] * (free_s + waits_s)
    sync_s = (columns.grad_sync.reduce_s + columns.grad_sync.gather_s)[columns.grad_sync_of][0]
    assert (found.hidden_s[0] <= most_s + 1e-12).all()  # style: a tolerance
    assert found.exposed_s[0] + found.hidden_s[0] == pytest.approx(sync_s)
    assert found.exposed_in_s(np.array([[0, 1], [0, 0]]))[0] == pytest.approx(found.exposed_s[0])


def test_blocks_but_one_of_a_stage_hide_and_none_where_nothing_may_overlap():
    """The first of two stages has the embedding and two layers, the last two layers and the head."""
    num_blocks = np.array([run.num_blocks for run in assembly(TWO).group.runs])
    assert assembly(TWO).num_hiding_passes[0] == pytest.approx((num_blocks - 1) / num_blocks)
    assert (num_blocks >= 3).all()
    assert not assembly(replace(TWO, overlap=Overlap(data=False))).num_hiding_passes.any()


@pytest.mark.parametrize(
    ("reduce_s", "gather_s", "num_passes", "found_s"),
    [
        (3.0, 5.0, 1.5, 3.0 + 3.0),
        (9.0, 1.0, 1.5, 6.0 + 1.0),
        (9.0, 9.0, 0.0, 0.0),
        (1.0, 1.0, 1.0, 2.0),
        (9.0, 9.0, 1.0, 5.0),  # the two share what they can hide behind
    ],
)
def test_reductions_hide_behind_backward_and_gathers_behind_forward(reduce_s, gather_s, num_passes, found_s):
    room_s = np.array([[2.0]]), np.array([[4.0]])
    most_s = np.array([[5.0]])
    behind_s = hidden_s(np.array([[reduce_s]]), np.array([[gather_s]]), room_s, most_s, np.array([[num_passes]]), 0.1)
    assert behind_s == pytest.approx(0.9 * found_s)


@pytest.mark.parametrize(
    "plan", [TWO, replace(TWO, interleave=2), Plan(pipeline_parallel=4, data_parallel=4, schedule="dualpipe")]
)
def test_transfers_that_are_waited_for_lengthen_each_pass_and_others_follow_it(plan):
    waiting, beside = (assembly(replace(plan, overlap=Overlap(pipeline=flag))) for flag in (False, True))
    each_s = point_to_point_s(plan, BOUNDARY_BYTES)
    assert waiting.transfer_s[0] == pytest.approx(each_s)
    num = plan.interleave * plan.num_copies  # chunks through which a microbatch passes a device
    slow, quick = (one.stage_times(is_transfer_free=False) for one in (waiting, beside))
    for direction in range(2):
        assert slow.by_run[direction] - quick.by_run[direction] == pytest.approx(num * each_s)
    assert slow.transfer_s == pytest.approx(0.0)
    assert quick.transfer_s == pytest.approx(each_s)
    assert beside.stage_times(is_transfer_free=True).transfer_s == pytest.approx(0.0)


@pytest.mark.parametrize(("waits_s", "is_beside"), [(0.0, True), (1e-4, True), (1e9, True), (1e-4, False)])
def test_of_transfers_beside_compute_only_what_stages_wait_for_is_exposed(waits_s, is_beside):
    plan = replace(TWO, overlap=Overlap(pipeline=is_beside))
    num_microbatches = 8
    sent_s = num_microbatches * 2 * point_to_point_s(TWO, BOUNDARY_BYTES)
    found = transfers(assembly(plan), np.array([waits_s]), np.array([0]))
    assert found.exposed_s == pytest.approx([waits_s if is_beside else sent_s])
    assert found.hidden_s == pytest.approx([max(0.0, sent_s - waits_s) if is_beside else 0.0])


@pytest.mark.parametrize("plan", [TWO, replace(TWO, zero_stage=1), replace(TWO, schedule="gpipe", recompute=("full",))])
def test_a_step_is_its_pipeline_then_what_is_exchanged_once_then_the_update(plan):
    found = assembly(plan)
    parts_s = found.pipeline_s + found.tied_s + found.synced_s + found.landing_s + found.update_s
    assert found.step_s == pytest.approx(parts_s)
    assert found.synced_s == pytest.approx(found.exposed_s.max())
    assert found.landing_s == pytest.approx(0.0)
    told = training_step(graph(), plan, CLUSTER, PRECISION)
    assert told.step_s == pytest.approx(float(parts_s[0]))
    whole_s = told.compute_s + told.host_s + told.exposed_s + told.bubble_s + told.update_s
    assert whole_s == pytest.approx(told.step_s)


@pytest.mark.parametrize(
    "plan",
    [
        TWO,
        Plan(tensor_parallel=2, sequence_parallel=True, context_parallel=2, data_parallel=4, zero_stage=3),
        replace(TWO, schedule="zb-h1", recompute=("full",)),
        replace(TWO, schedule="zb-v", interleave=2),
        Plan(pipeline_parallel=4, data_parallel=4, schedule="dualpipe"),
    ],
)
def test_time_and_energy_alone_are_those_of_the_step_that_is_broken_down(plan):
    alone = step_times(graph(), columns_of([plan]), CLUSTER, PRECISION)
    told = training_step(graph(), plan, CLUSTER, PRECISION)
    assert (alone.step_s[0], alone.energy_j[0]) == pytest.approx((told.step_s, told.energy_j), rel=1e-12)


@pytest.mark.parametrize(
    ("part", "names"),
    [
        ("cost", ("compute_s", "clocked_s", "energy_j", "core_j", "host_s", "flop")),
        ("core", ("compute_s", "clocked_s")),
    ],
)
def test_rows_that_time_follows_from_come_before_those_that_only_tell(part, names):
    assert all((ROWS[part][COSTS.index(name)] < NUM_TIMED) == (name in names) for name in COSTS)
    for name in ("blocking_s", "overlappable_s", "sent_bytes", "weight_flop", "recompute_s"):
        assert max(ROWS[name]) < NUM_TIMED
    assert min(ROWS["limits_s"]) >= NUM_TIMED
    assert sorted(row for rows in ROWS.values() for row in rows) == list(range(NUM_ROWS))
