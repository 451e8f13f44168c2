"""Why a plan loses: its parts against the best one's."""

from __future__ import annotations

import pytest

from dovetail.evaluate import memory_use
from dovetail.hardware.clusters import clusters
from dovetail.parallel.plan import Plan
from dovetail.parallel.sharding import shard
from dovetail.search.planners.losses import Loss, Setting, energy_components, losses, memory_components, time_components
from dovetail.step.step import training_step
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

PLAN = Plan(tensor_parallel=2, sequence_parallel=True, pipeline_parallel=2, data_parallel=2, recompute=("full",))


@pytest.fixture(scope="module")
def setting() -> Setting:
    workload = Workload(model=models["llama3-8b"](), global_batch=16, seq=2048)
    return Setting(graph=workload.training_graph(), cluster=clusters["dgx-h100"].build(8), precision=workload.precision)


def test_the_part_that_is_most_behind_comes_first():
    best, other = {"compute": 8.0, "bubble": 2.0}, {"compute": 7.0, "bubble": 6.0}
    assert losses(best, other) == (
        Loss(component="bubble", over_best_frac=0.4),
        Loss(component="compute", over_best_frac=-0.1),
    )


def test_parts_of_the_step_add_up_to_it(setting):
    step = training_step(setting.graph, PLAN, setting.cluster, setting.precision)
    parts = time_components(PLAN, setting)
    assert sum(parts.values()) == pytest.approx(step.step_s, rel=1e-9)
    assert parts["recompute"] > 0
    assert parts["bubble"] > 0


def test_parts_of_the_energy_add_up_to_it(setting):
    step = training_step(setting.graph, PLAN, setting.cluster, setting.precision)
    parts = energy_components(PLAN, setting)
    assert sum(parts.values()) == pytest.approx(step.energy_j, rel=1e-12)
    assert min(parts.values()) > 0


def test_parts_of_the_memory_add_up_to_what_is_needed(setting):
    use = memory_use(shard(setting.graph, PLAN), setting.precision, setting.cluster.usable_bytes)
    assert sum(memory_components(PLAN, setting).values()) == pytest.approx(use.need_bytes, rel=1e-12)
