"""What a checkpoint holds, in all and on the fullest device."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.parallel.checkpoint import checkpoint_bytes, copied_checkpoint_bytes, device_checkpoint_bytes
from dovetail.parallel.plan import Plan
from dovetail.parallel.sharding import shard
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.workload import Workload


def graph_of(model: str = "llama3-8b", precision: Precision | None = None):
    entry = models[model]()
    return Workload(model=entry, global_batch=64, seq=entry.seq, precision=precision or Precision()).training_graph()


def test_mixed_precision_adam_saves_fourteen_bytes_a_parameter():
    """bf16 weights, fp32 master weights and two fp32 moments; gradients are not saved."""
    graph = graph_of()
    assert checkpoint_bytes(graph, Precision()) == 14 * graph.num_parameters


def test_plain_sgd_saves_weights_alone():
    precision = Precision(optimizer="sgd", compute="fp32", has_momentum=False)
    graph = graph_of(precision=precision)
    assert checkpoint_bytes(graph, precision) == 4 * graph.num_parameters


@pytest.mark.parametrize("zero_stage", [0, 1, 3])
def test_replicas_save_equal_shares_whatever_they_hold(zero_stage):
    graph = graph_of()
    pieces = shard(graph, Plan(data_parallel=8, zero_stage=zero_stage))
    assert 8 * device_checkpoint_bytes(pieces, Precision()) == pytest.approx(checkpoint_bytes(graph, Precision()))


def test_the_fullest_stage_saves_more_than_its_share_and_never_less():
    graph = graph_of()
    plan = Plan(tensor_parallel=2, pipeline_parallel=4, data_parallel=4)
    whole_bytes = checkpoint_bytes(graph, Precision())
    share_bytes = device_checkpoint_bytes(shard(graph, plan), Precision())
    assert share_bytes > whole_bytes / plan.num_devices
    uneven = replace(plan, layers_per_stage=(5, 9, 9, 9))
    assert device_checkpoint_bytes(shard(graph, uneven), Precision()) > share_bytes


def test_state_that_the_host_holds_is_not_copied_to_it():
    plan = Plan(data_parallel=8, zero_stage=1)
    graph, precision = graph_of(), Precision()
    on_device, offloaded = (shard(graph, replace(plan, offload_optimizer=offload)) for offload in (False, True))
    assert copied_checkpoint_bytes(on_device, precision) == device_checkpoint_bytes(on_device, precision)
    assert copied_checkpoint_bytes(offloaded, precision) == device_checkpoint_bytes(on_device, precision) * 2 / 14
    assert device_checkpoint_bytes(offloaded, precision) == device_checkpoint_bytes(on_device, precision)


def test_experts_are_saved_by_those_that_hold_them():
    graph = graph_of("mixtral-8x7b")
    plan = Plan(data_parallel=16, expert_parallel=8)
    total_bytes = 16 * device_checkpoint_bytes(shard(graph, plan), Precision())
    assert total_bytes == pytest.approx(checkpoint_bytes(graph, Precision()))
