"""What chips are mined for: whether it fits, and what it is cut into when it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.errors import NotModelled
from dovetail.hardware.catalog import chips
from dovetail.plan.plan import Plan
from dovetail.search.mining.score import stage_times, step_s, works_of
from dovetail.search.mining.task import Task, fitting_batch, fitting_cut, whole_batch
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


def test_graphs_that_stages_share_are_scheduled_once_and_stages_add_up():
    alone = whole_batch(bert(4)).job(BASE)
    cut = Task(workload=bert(16), plan=Plan(pipeline_parallel=2, microbatch=4)).job(BASE)
    assert len(works_of(cut)) < sum(len((*stage.passes, *stage.updates)) for stage in cut.stages)
    times, whole = stage_times(cut, [BASE]), stage_times(alone, [BASE])
    assert times.pass_s.shape == (1, 2)
    assert times.pass_s.sum() < whole.pass_s.sum()  # the update is done once a step, not with each pass
    taken_s = step_s(cut, times.pass_s, times.once_s)
    assert taken_s[0] > 4 * times.pass_s.max()


@pytest.mark.parametrize(
    "change",
    [
        {"schedule": "gpipe", "pipeline_parallel": 2},
        {"offload_optimizer": True},
        {"offload_activations_frac": 0.5},
        {"context_parallel": 2, "context_exchange": "ring"},
    ],
)
def test_what_no_graph_holds_is_refused_rather_than_free(change):
    with pytest.raises(NotModelled, match="chips are mined for"):
        replace(whole_batch(bert()), plan=Plan(**change)).job(BASE)
