"""How evenly rows reach experts."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dovetail.errors import InvalidInput
from dovetail.evaluate import Outcome, evaluate
from dovetail.hardware.clusters import clusters
from dovetail.parallel.plan import Plan
from dovetail.parallel.sharding import computed_flop, executed_flop, shard
from dovetail.report.figures import table_of
from dovetail.report.outcome import headline
from dovetail.step.step import training_step
from dovetail.step.work import COMM_AXES
from dovetail.workload.graph import M
from dovetail.workload.models import models
from dovetail.workload.routing import Routing
from dovetail.workload.workload import Workload
from tests.links_alone import links_alone

CLUSTER = links_alone(clusters["dgx-h100"].build(8))
SPREAD = Plan(data_parallel=8, expert_parallel=8, zero_stage=1)
EP = COMM_AXES.index("ep")


def workload(routing: Routing = Routing(), name: str = "mixtral-8x7b") -> Workload:  # noqa: B008
    model = models[name]()
    short = replace(model, architecture=replace(model.architecture, num_layers=2))  # type: ignore[type-var]
    return Workload(model=short, global_batch=16, seq=4096, routing=routing)


def rows(routing: Routing, name: str, plan: Plan = SPREAD) -> int:
    """Rows of one operator of a layer on the most loaded device."""
    layer = next(block for _, block in shard(workload(routing).training_graph(), plan).held(0) if block.is_layer)
    return int(layer.ops.extents[layer.ops.names.index(name), M])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"expert_imbalance": 0.9}, "at least 1; got 0.9"),
        ({"expert_imbalance": math.inf}, "at least 1; got inf"),
        ({"expert_imbalance": math.nan}, "at least 1; got nan"),
        ({"capacity_factor": -1.0}, "capacity_factor must be positive, or 0 for none; got -1"),
        ({"capacity_factor": 1e-9}, "must be 0.1 to 1024 times the mean, or 0 for none; got 1e-09; 1 to 2 is usual"),
        ({"pads_to_capacity": True}, "pads_to_capacity needs a capacity to pad to"),
    ],
)
def test_a_routing_that_cannot_be_is_refused(changes, message):
    with pytest.raises(InvalidInput, match=message):
        Routing(**changes)


@pytest.mark.parametrize(
    ("routing", "most", "mean"),
    [
        (Routing(), 1.0, 1.0),
        (Routing(expert_imbalance=1.5), 1.5, 1.0),
        (Routing(expert_imbalance=20.0), 8.0, 1.0),  # all rows of eight devices
        (Routing(expert_imbalance=1.5, capacity_factor=1.25), 1.25, 1.0),
        (Routing(expert_imbalance=1.1, capacity_factor=1.25), 1.1, 1.0),
        (Routing(expert_imbalance=1.1, capacity_factor=1.25, pads_to_capacity=True), 1.25, 1.25),
        (Routing(capacity_factor=0.5), 0.5, 0.5),
    ],
)
def test_a_capacity_caps_what_the_most_loaded_device_gets(routing, most, mean):
    assert routing.most(8) == most
    assert routing.mean == mean
    assert list(routing.most(np.array([8, 8]))) == [most, most]


@pytest.mark.parametrize(
    ("routing", "dropped"),
    [
        (Routing(expert_imbalance=1.5), 0.0),
        (Routing(capacity_factor=1.25), 0.0),
        (Routing(capacity_factor=0.75), 0.25),
        (Routing(expert_imbalance=3.0, capacity_factor=1.0), 0.25),  # two of eight devices' worth
        (Routing(expert_imbalance=3.0, capacity_factor=0.5, pads_to_capacity=True), 0.5),
    ],
)
def test_what_a_capacity_drops_at_least(routing, dropped):
    assert routing.dropped_frac(8) == pytest.approx(dropped)


def test_mfu_leaves_out_what_experts_have_no_room_for():
    graphs = (workload(Routing(capacity_factor=capacity)).training_graph() for capacity in (1, 0.5, 0.25))
    whole, half, quarter = map(computed_flop, graphs)
    assert computed_flop(workload().training_graph(), is_causal=False) == workload().training_graph().model_flop
    assert whole == computed_flop(workload().training_graph())
    assert whole - half == pytest.approx(2 * (half - quarter))
    assert half < whole
    answer = evaluate(workload(Routing(capacity_factor=0.5)), CLUSTER, SPREAD, has_changes=False)
    assert isinstance(answer, Outcome)
    assert answer.model_flop == half
    [told] = [row[1] for row in table_of(headline(answer)).rows if row[0] == "dropped"]
    assert told.startswith("50.0 % of what is routed to experts; throughput")


def test_a_device_that_has_all_experts_gets_the_mean():
    assert Routing(expert_imbalance=3.0).most(1) == 1.0
    together = replace(SPREAD, expert_parallel=1)
    assert rows(Routing(expert_imbalance=3.0), "expert_up", together) == rows(Routing(), "expert_up", together)


@pytest.mark.parametrize("name", ["expert_up", "expert_down", "expert_silu_mul", "dispatch", "expert_reduce"])
def test_rows_at_experts_are_those_of_the_most_loaded_device(name):
    assert rows(Routing(expert_imbalance=1.5), name) == 1.5 * rows(Routing(), name)


@pytest.mark.parametrize("name", ["permute", "unpermute", "router_gate", "combine", "attention_out"])
def test_rows_at_home_are_the_mean(name):
    assert rows(Routing(expert_imbalance=1.5), name) == rows(Routing(), name)


def test_the_most_loaded_device_sends_and_receives_as_much_more_each_way():
    link = replace(CLUSTER.chip, calibration=replace(CLUSTER.chip.calibration, exchange_s=0.0))
    cluster = replace(CLUSTER, chip=link, topology=CLUSTER.topology.with_latency_scaled(0.0))

    def exposed_s(routing: Routing) -> float:
        step = training_step(workload(routing).training_graph(), SPREAD, cluster, workload().precision)
        return float(step.comm[EP].exposed_s)

    assert exposed_s(Routing(expert_imbalance=1.5)) == pytest.approx(1.5 * exposed_s(Routing()))


def test_work_that_is_executed_is_that_of_the_mean_device_and_of_padding():
    def flop(routing: Routing) -> float:
        return executed_flop(shard(workload(routing).training_graph(), SPREAD))

    even = flop(Routing())
    assert flop(Routing(expert_imbalance=1.5)) == pytest.approx(even)
    padded, halved = flop(Routing(capacity_factor=1.5, pads_to_capacity=True)), flop(Routing(capacity_factor=0.5))
    assert padded - even == pytest.approx(even - halved)
    assert padded > even


def test_what_the_model_is_asked_for_does_not_depend_on_routing():
    graphs = (workload(r).training_graph() for r in (Routing(), Routing(expert_imbalance=2, capacity_factor=1.5)))
    assert len({graph.model_flop for graph in graphs}) == 1


def test_more_rows_take_more_memory():
    even, loaded = (
        evaluate(workload(r), CLUSTER, SPREAD, has_changes=False) for r in (Routing(), Routing(expert_imbalance=2.0))
    )
    assert loaded.memory.need_bytes > even.memory.need_bytes


def test_a_model_without_experts_has_nothing_to_route_to():
    with pytest.raises(InvalidInput, match="llama3-8b has no experts to route rows to; leave routing out"):
        workload(Routing(expert_imbalance=1.2), "llama3-8b").training_graph()
    assert workload(Routing(), "llama3-8b").training_graph().num_layers == 2
