"""A question again from what a study keeps of it, and the front of its rows: the same as the search's own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.errors import InvalidInput
from dovetail.hardware.catalog import chips
from dovetail.search.codesign.kept import front_of_scores, question_again
from dovetail.search.codesign.networks import network_named
from dovetail.search.codesign.pareto import local_backend, pareto_front
from dovetail.search.codesign.question import Budget, Case, JointQuestion, system_space
from dovetail.search.codesign.rows import question_facts
from dovetail.search.codesign.scoring import Scorer, SystemScore
from dovetail.search.metrics import metrics
from dovetail.workload.models import models
from dovetail.workload.workload import Workload
from tests.codesign_questions import PLANS

AXES = ("throughput", "area", "power", "cost")


def question() -> JointQuestion:
    base = chips["tpuv4-like"]()
    values = {"num_tensor": (1, 2, 4), "num_rows": (64, 128), "hbm_stacks": (2, 4), "endpoint": (1, 2)}
    return JointQuestion(
        cases=(Case(workload=Workload(model=models["gpt2-345m"](), global_batch=16, seq=256), plans=PLANS),),
        base=base,
        network=network_named("torus"),
        space=system_space(base, 4, values),
        budget=Budget(area_mm2=900.0),
        metric=metrics["throughput"],
        reference_losses=(1.0,),
    )


def facts(asked: JointQuestion) -> dict[str, object]:
    return question_facts(asked, metric="throughput", network="torus", rule="chip")


def test_a_question_comes_back_from_its_facts():
    again = question_again(facts(question()))
    assert facts(again) == facts(question())
    assert again.space == question().space
    assert again.cases == question().cases


def test_the_front_of_what_was_scored_is_the_front():
    asked = question()
    kept: list[SystemScore] = []
    scorer = Scorer(asked)
    hands = replace(local_backend(scorer), keep=kept.extend)
    whole = pareto_front(asked, hands, AXES)
    found = front_of_scores(question_again(facts(asked)), kept, AXES)
    assert {one.score.point for one in found.systems} == {one.score.point for one in whole.systems}
    assert found.systems
    assert {one.area_mm2 for one in found.systems} == {one.area_mm2 for one in whole.systems}


@pytest.mark.parametrize(
    "changed", [{"base": {"name": "my-chip", "digest": ""}}, {"base": {"name": "tpuv4-like", "digest": "x"}}]
)
def test_a_question_of_something_else_than_the_catalogue_has_is_refused(changed):
    with pytest.raises(InvalidInput):
        question_again(facts(question()) | changed)
