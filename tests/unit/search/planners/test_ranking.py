"""Prices where an objective asks for them, and a space of which nothing lies on the network."""

from __future__ import annotations

import pytest

from dovetail.cost.price import price
from dovetail.errors import InvalidInput, NotModelled
from dovetail.hardware.clusters import clusters
from dovetail.search.objectives import objectives
from dovetail.search.planners import ranking
from dovetail.search.planners.candidates import Tally
from dovetail.search.planners.plan_space import PlanSpace
from dovetail.search.planners.planner import PlanSearchResult, Proof
from dovetail.search.planners.ranking import Question, choice, cluster_usd
from dovetail.workload.models import models
from dovetail.workload.workload import Workload
from tests.messages import holds

CLUSTER = clusters["dgx-h100"].build(16)


def test_all_chips_are_paid_for_where_the_objective_asks():
    assert cluster_usd(CLUSTER, objectives["tokens/s/$"]) == pytest.approx(16 * float(price(CLUSTER.chip).total_usd))
    assert cluster_usd(CLUSTER, objectives["time"]) == 1.0


def test_a_chip_without_a_price_is_told_with_the_way_out(monkeypatch):
    def unknown(_chip):
        raise InvalidInput("no die is known", "die")

    monkeypatch.setattr(ranking, "price", unknown)
    assert cluster_usd(CLUSTER, objectives["time"]) == 1.0
    with pytest.raises(NotModelled) as refusal:
        cluster_usd(CLUSTER, objectives["tokens/s/$"])
    assert refusal.value.where == "--objective"
    assert holds(refusal.value.message, "h100-sxm", "no die is known")


def test_plans_that_all_fail_to_nest_in_the_network_are_told():
    question = Question(
        workload=Workload(model=models["llama3-8b"](), global_batch=16, seq=2048),
        cluster=CLUSTER,
        objective_name="time",
        objective=objectives["time"],
        constraints=(),
        space=PlanSpace(),
    )
    found = PlanSearchResult(best=(), tally=Tally(num_plans=12), proof=Proof(is_even_only=True, bound_s=float("inf")))
    with pytest.raises(InvalidInput, match="none of the 12 plans nests in the cluster's network of 8 x 2 devices"):
        choice(question, found)
