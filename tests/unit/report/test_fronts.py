"""What is said of a front: what its figure is of, whether models are measured by the base chip, and which way is up."""

from __future__ import annotations

import json
import math
from functools import cache

import pytest

from dovetail.report.figures import record_of, tables_of
from dovetail.report.fronts import FrontReport, front_figures, notes
from dovetail.report.fronts_picture import steps
from dovetail.report.table import WIDTH, text_of
from dovetail.search.codesign.answers import base_answer, with_reference
from dovetail.search.codesign.pareto import checked_axes, local_backend, pareto_front
from dovetail.search.codesign.scoring import Scorer
from tests.codesign_questions import question

VALUES = {"num_tensor": (2, 8, 1_000_000), "num_lanes": (64, 128), "num_devices": (4, 8)}


@cache
def report(names: tuple[str, ...] = ("tied", "dense"), metric: str = "throughput", *, is_base_fit: bool = True):
    asked = question(names, VALUES, metric=metric, weights=(3.0, 1.0)[: len(names)])
    asked = with_reference(asked, base_answer(asked) if is_base_fit else None)
    scorer, axes = Scorer(asked), checked_axes([metric, "cost"])
    return FrontReport(
        name="a front",
        question=asked,
        metric_name=metric,
        network="torus",
        preset="chip",
        found=pareto_front(asked, local_backend(scorer), axes),
        plan_of=scorer.even_plan,
        num_shown=5,
        is_base_fit=is_base_fit,
    )


@pytest.mark.parametrize("metric", ["throughput", "$/token"])
def test_where_the_base_cannot_run_all_models_the_figure_is_their_mean_in_its_own_unit(metric):
    some = report(metric=metric, is_base_fit=False)
    one = some.found.systems[0]
    tokens = [case.workload.training_graph().num_tokens for case in some.question.cases]
    if metric == "throughput":
        rates = [count / case.step_s for count, case in zip(tokens, one.score.cases, strict=True)]
        mean = math.exp((3 * math.log(rates[0]) + math.log(rates[1])) / 4)
        assert some.figure(one) == pytest.approx(mean)
        assert some.unit(metric) == "tokens/s"
    assert metric == "throughput" or some.unit(metric) == "$ of chips a token"
    assert any(note.startswith(f"{metric}: {some.unit(metric)}, the weighted geometric mean") for note in notes(some))
    assert any("tpuv4-like, by which each would be measured, cannot run them all" in note for note in notes(some))
    assert record_of(front_figures(some))["is_over_base"] is False
    assert some.is_more_better == (metric == "throughput")


@pytest.mark.parametrize("metric", ["throughput", "$/token"])
def test_several_models_are_told_as_times_as_good_as_the_base_whatever_the_metric(metric):
    some = report(metric=metric)
    assert some.unit(metric) == "times as good as tpuv4-like"
    assert some.is_more_better
    assert record_of(front_figures(some))["is_over_base"] is True
    figures = [some.figure(one) for one in some.found.systems]
    assert figures == sorted(figures, reverse=True)
    stairs = steps([(some.on("cost", one), some.figure(one)) for one in some.found.systems], some, metric)
    assert [y for _, y in stairs] == sorted(y for _, y in stairs)
    assert max(figures) == stairs[-1][1]


def test_of_one_model_the_figure_has_its_unit_in_the_text():
    some = report(("tied",))
    assert "throughput: tokens/s" in notes(some)
    assert json.loads(json.dumps(record_of(front_figures(some))))["unit"] == "tokens/s"


def test_a_front_is_told_on_a_narrow_screen_with_counts_in_whole():
    text = text_of(tables_of(front_figures(report())))
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "e+06" not in text
    assert "1,000,000 x (" in text
