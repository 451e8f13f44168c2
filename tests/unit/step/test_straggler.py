"""Slow devices: what one of them costs a step, and how much more all of them do."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.hardware.clusters import clusters
from dovetail.hardware.reliability import SlowDevices
from dovetail.parallel.layout import runs_of
from dovetail.parallel.plan import Plan, columns_of
from dovetail.parallel.sharding import shard
from dovetail.step.assembly import Assembly, by_stages, stage_shape_group
from dovetail.step.pipeline_events import played
from dovetail.step.pipelines import PipelineShape, StageTimes, pipelines
from dovetail.step.plan_table import plan_context
from dovetail.step.step import PlanSteps, training_step
from dovetail.step.straggler import slowed_cluster, slowed_step_s
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

WORKLOAD = Workload(model=models["llama3-8b"](), global_batch=128, seq=8192)
GRAPH, PRECISION = WORKLOAD.training_graph(), WORKLOAD.precision
CLUSTER = clusters["dgx-h100"].build(64)
FLAT = Plan(tensor_parallel=8, sequence_parallel=True, data_parallel=8, zero_stage=1)
PIPED = Plan(tensor_parallel=2, pipeline_parallel=4, data_parallel=8, zero_stage=1)
EVERY_PLAN = pytest.mark.parametrize("plan", [FLAT, PIPED], ids=["flat", "piped"])


def slowed_s(plan: Plan, speed_frac: float, num_devices: int = 1) -> float:
    slow = SlowDevices(speed_frac=speed_frac, num_devices=num_devices)
    return slowed_step_s(PlanSteps(shard(GRAPH, plan), PRECISION), CLUSTER, slow)


def step_s(plan: Plan, speed_frac: float = 1.0) -> float:
    return float(training_step(GRAPH, plan, slowed_cluster(CLUSTER, speed_frac), PRECISION).step_s)


@EVERY_PLAN
def test_a_device_as_fast_as_the_others_slows_nobody(plan):
    assert slowed_s(plan, 1.0) == pytest.approx(step_s(plan))


@EVERY_PLAN
def test_slower_devices_and_more_of_them_never_shorten_a_step(plan):
    by_speed = [slowed_s(plan, speed) for speed in (1.0, 0.9, 0.8, 0.5)]
    by_count = [slowed_s(plan, 0.8, count) for count in (1, 2, 3, 4, 64)]
    assert by_speed == sorted(by_speed)
    assert by_count == sorted(by_count)
    assert by_speed[0] < by_speed[1]


def test_without_a_pipeline_one_slow_device_costs_as_much_as_all_slow():
    assert slowed_s(FLAT, 0.8) == pytest.approx(step_s(FLAT, 0.8), rel=0.01)


def test_in_a_pipeline_one_slow_device_costs_less_than_all_slow_and_as_many_as_stages_cost_that():
    assert slowed_s(PIPED, 0.8) < step_s(PIPED, 0.8)
    assert slowed_s(PIPED, 0.8, 4) == pytest.approx(step_s(PIPED, 0.8), rel=0.01)


def test_a_slow_device_slows_neither_hosts_nor_links():
    slow = slowed_cluster(CLUSTER, 0.5)
    assert slow.topology == CLUSTER.topology
    assert slow.chip.calibration.host_op_s == CLUSTER.chip.calibration.host_op_s
    assert slow.chip.calibration.launch_s == 2 * CLUSTER.chip.calibration.launch_s
    assert slow.chip.calibration.link_frac == CLUSTER.chip.calibration.link_frac


def stage_times(speed_frac: float) -> StageTimes:
    plans = columns_of([PIPED])
    every = plan_context(GRAPH, plans, slowed_cluster(CLUSTER, speed_frac), PRECISION)
    [(same, columns)] = by_stages(every, [stage_shape_group(plans, np.zeros(1, dtype=np.int64), runs_of(GRAPH, PIPED))])
    return Assembly(every, same, columns).stage_times(is_transfer_free=False)


def test_a_pipeline_with_a_slow_stage_takes_as_long_as_its_passes_played_out():
    own, slow = stage_times(1.0), stage_times(0.8)
    stage = int(np.argmax((own.forward + own.backward)[0]))

    def mixed(mine: np.ndarray, theirs: np.ndarray) -> list[float]:
        return [float((theirs if index == stage else mine)[0, index]) for index in range(4)]

    times = StageTimes(
        forward_s=mixed(own.forward, slow.forward),
        backward_s=mixed(own.backward, slow.backward),
        weight_s=mixed(own.weight, slow.weight),
        transfer_s=float(own.transfer.max()),
    )
    order = pipelines["1f1b"].order(PipelineShape(num_stages=4, num_microbatches=16))
    gained_s = played(order, times.chunk_times(order)).pipeline_s - float(
        pipelines["1f1b"].pipeline_s(own, PipelineShape(num_stages=4, num_microbatches=16))[0]
    )
    assert slowed_s(PIPED, 0.8) - step_s(PIPED) == pytest.approx(gained_s, rel=0.02)
