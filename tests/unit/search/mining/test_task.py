"""What chips are mined for: whether it fits, and what it is cut into when it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.errors import NotModelled
from dovetail.hardware.catalog import chips
from dovetail.parallel.plan import Plan
from dovetail.search.mining.score import stage_times, step_s, works_of
from dovetail.search.mining.task import Task, fitting_batch, fitting_cut, whole_batch
from dovetail.step.step import training_step
from dovetail.workload.graph import Phase
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

BASE = chips["tpuv2-like"]()


def bert(batch=8, name="bert-base"):
    return Workload(model=models[name](), global_batch=batch, seq=512)


def test_the_batch_that_fits_is_the_largest_power_of_two():
    task = fitting_batch(bert(1000), BASE)
    batch = task.workload.global_batch
    assert batch & (batch - 1) == 0
    assert task.plan.microbatch == batch
    assert task.memory(BASE).fits
    assert not whole_batch(bert(2 * batch)).memory(BASE).fits


def test_a_model_too_large_for_one_device_is_cut_until_it_fits():
    task = whole_batch(Workload(model=models["gpt2-1.5b"](), global_batch=8, seq=1024))
    assert not task.memory(BASE).fits
    [cut] = fitting_cut(task, BASE)
    assert cut.memory(BASE).fits
    assert cut.plan.num_devices > 1
    assert cut.job(BASE).num_stages == cut.plan.pipeline_parallel


@pytest.mark.parametrize(
    ("name", "batch", "seq", "num_devices"),
    [("bert-large", 1_000_000, 512, 1), ("gpt2-1.5b", 8, 1024, 3), ("gpt3-175b", 64, 2048, 256)],
)
def test_a_cut_that_fits_has_no_more_devices_than_it_needs(name, batch, seq, num_devices):
    """One sample at a time first, then stages that are no power of two, and tensor ranks beyond a node of eight."""
    task = whole_batch(Workload(model=models[name](), global_batch=batch, seq=seq))
    assert not task.memory(BASE).fits
    [cut] = fitting_cut(task, BASE)
    assert cut.plan.num_devices == num_devices
    assert cut.plan.microbatch == 1
    assert cut.memory(BASE).fits


def test_experts_are_spread_where_a_cut_can():
    task = whole_batch(Workload(model=models["mixtral-8x7b"](), global_batch=8, seq=4096))
    [cut] = fitting_cut(task, BASE)
    assert cut.plan.expert_parallel > 1
    assert cut.memory(BASE).fits
    assert not replace(cut, plan=replace(cut.plan, expert_parallel=1)).memory(BASE).fits


def test_graphs_that_stages_share_are_scheduled_once_and_stages_add_up():
    alone = whole_batch(bert(4)).job(BASE)
    cut = Task(workload=bert(16), plan=Plan(pipeline_parallel=2, microbatch=4)).job(BASE)
    assert len(works_of(cut)) < sum(len((*stage.passes, *stage.updates)) for stage in cut.stages)
    times, whole = stage_times(cut, [BASE]), stage_times(alone, [BASE])
    assert times.pass_s.shape == (1, 2)
    assert times.pass_s.sum() < whole.pass_s.sum()  # the update is done once a step, not with each pass
    taken_s = step_s(cut, times.pass_s, times.per_step_s)
    assert taken_s[0] > 4 * times.pass_s.max()


def pipelined(num_microbatches, num_stages=4):
    workload = Workload(model=models["opt-1.3b"](), global_batch=num_microbatches, seq=128)
    return Task(workload=workload, plan=Plan(pipeline_parallel=num_stages, microbatch=1))


def mined_step_s(task):
    job = task.job(BASE)
    times = stage_times(job, [BASE])
    return float(step_s(job, times.pass_s, times.per_step_s)[0]), times


@pytest.mark.parametrize("num_microbatches", [1, 2, 4])
def test_stages_of_a_pipeline_update_side_by_side_however_few_microbatches_there_are(num_microbatches):
    task = pipelined(num_microbatches)
    step = training_step(task.workload.training_graph(), task.plan, task.cluster(BASE), task.workload.precision)
    assert mined_step_s(task)[0] == pytest.approx(step.step_s, rel=0.03)


def test_a_second_microbatch_adds_the_slowest_pass_and_nothing_else():
    (one_s, one), (two_s, two) = mined_step_s(pipelined(1)), mined_step_s(pipelined(2))
    assert one.pass_s.tolist() == two.pass_s.tolist()
    assert two_s - one_s == pytest.approx(one.pass_s.max(), rel=0.02)


def test_the_update_is_no_part_of_the_backward_pass_of_a_pipeline():
    shares = [[stage.forward_frac for stage in pipelined(num).job(BASE).stages] for num in (1, 2)]
    assert shares[0] == shares[1]
    assert all(0.2 < share < 0.5 for share in shares[0])


def test_on_one_stage_the_update_of_one_microbatch_runs_beside_the_backward_pass():
    [stage] = pipelined(1, num_stages=1).job(BASE).stages
    assert not stage.updates
    assert all(Phase.UPDATE in repeated.work.ops.phase for repeated in stage.passes)


@pytest.mark.parametrize(
    "change",
    [
        {"schedule": "gpipe", "pipeline_parallel": 2},
        {"interleave": 2, "pipeline_parallel": 2},
        {"offload_optimizer": True},
        {"offload_activations_frac": 0.5},
        {"context_parallel": 2, "context_comm_type": "ring"},
    ],
)
def test_what_no_graph_holds_is_refused_rather_than_free(change):
    with pytest.raises(NotModelled, match="chips are mined for"):
        replace(whole_batch(bert()), plan=Plan(**change)).job(BASE)
