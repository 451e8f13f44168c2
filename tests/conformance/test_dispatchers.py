"""Every dispatcher keeps its contract: bytes that are conserved, times that bandwidth never lengthens."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.comm.dispatch import copies_sent, deduplicated_bytes
from dovetail.errors import InvalidInput
from dovetail.hardware.clusters import clusters
from dovetail.parallel.dispatchers import dispatcher_named, dispatchers
from dovetail.parallel.placement import placement
from dovetail.parallel.plan import Plan
from dovetail.step.step import training_step
from dovetail.workload.models import models
from dovetail.workload.routing import ExpertChoice
from dovetail.workload.workload import Workload
from tests.links_alone import links_alone

NAMES = dispatchers.names()
CLUSTER = links_alone(clusters["dgx-h100"].build(32))
WORKLOAD = Workload(model=models["mixtral-8x7b"](), global_batch=32, seq=1024)
CHOICE = ExpertChoice(num_experts=64, num_experts_per_token=6, num_groups=8, num_groups_per_token=3)
PLAN = Plan(data_parallel=32, expert_parallel=8, zero_stage=1)


def expert_s(name: str, cluster=CLUSTER, plan=PLAN) -> float:
    step = training_step(WORKLOAD.training_graph(), replace(plan, dispatcher=name), cluster, WORKLOAD.precision)
    return float(step.step_s)


@pytest.mark.parametrize("name", NAMES)
def test_a_dispatcher_is_found_by_its_name_and_aliases(name):
    entry = dispatchers[name]
    assert entry.name == name
    assert entry.summary
    assert entry.source
    assert all(dispatcher_named(alias) is entry for alias in (name, *entry.aliases))
    assert Plan(dispatcher=(entry.aliases or (name,))[0]).dispatcher == name


@pytest.mark.parametrize("name", NAMES)
def test_twice_the_bandwidth_never_lengthens_a_step(name):
    fast = replace(CLUSTER, topology=CLUSTER.topology.with_link_scaled("nvlink", 2.0))
    assert expert_s(name, fast) <= expert_s(name) * (1 + 1e-12)


@pytest.mark.parametrize("name", [name for name in NAMES if dispatchers[name].is_deduplicated])
def test_one_copy_per_place_is_never_slower_than_one_per_expert(name):
    for ranks in (2, 4, 8):
        plan = replace(PLAN, expert_parallel=ranks)
        assert expert_s(name, plan=plan) <= expert_s("all-to-all", plan=plan) * (1 + 1e-12)


def test_copies_lie_between_one_and_all_and_grow_inwards():
    group = placement(replace(PLAN, expert_parallel=32), CLUSTER.topology).expert
    for choice in (CHOICE, None):
        sent = copies_sent(group, choice, 6)
        assert all(1.0 <= count <= 6.0 for count in sent)
        assert sent == sorted(sent)


def test_bytes_of_one_level_are_those_of_the_rows_that_leave():
    """On one node each of 8 devices keeps an eighth of the rows that it sends to places, as in an all-to-all."""
    group = placement(PLAN, CLUSTER.topology).expert
    [count] = copies_sent(group, CHOICE, 6)
    assert deduplicated_bytes(6.0, group, CHOICE, 6) == pytest.approx(count * 7 / 8)


def test_one_expert_per_device_has_nothing_to_deduplicate():
    choice = ExpertChoice(num_experts=8, num_experts_per_token=2)
    group = placement(PLAN, CLUSTER.topology).expert
    assert copies_sent(group, choice, 2) == pytest.approx([2.0])


def test_a_dispatcher_nobody_has_is_refused_with_the_nearest():
    with pytest.raises(InvalidInput, match="no dispatcher is named 'hybrid-ep'"):
        Plan(dispatcher="hybrid-ep")
