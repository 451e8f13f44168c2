"""How fast searches converge: documents show what was recorded, and the measurement counts as it says."""

from __future__ import annotations

import math
import runpy
from pathlib import Path

import pytest

from benchmarks import convergence
from benchmarks.convergence import Calls, followed, looked_up, write_results
from benchmarks.convergence_table import converged, model_table, recorded, table
from dovetail.search.algorithms import Scored
from dovetail.search.space import Point

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "benchmarks" / "results" / "convergence.md"
FIGURE = ROOT / "docs" / "images" / "convergence.svg"


def test_the_page_shows_the_recorded_tables():
    text = PAGE.read_text(encoding="utf-8")
    assert table(recorded()) in text
    assert model_table(recorded()) in text


def test_the_figure_is_drawn_from_the_record():
    draw = runpy.run_path(str(FIGURE.with_name("convergence_svg.py")))["svg"]
    assert draw(recorded()) == FIGURE.read_text(encoding="utf-8")


def test_every_run_of_the_record_is_within_the_budget_and_ends_where_it_says():
    results = recorded()
    for model in results["models"].values():
        for name, runs in model["searches"].items():
            assert len(runs) == (1 if name in convergence.OURS else results["num_seeds"])
            for run in runs:
                assert run["num_evaluated"] <= results["budget"] or name in convergence.OURS
                if run["num_evaluated"] <= results["grid"][-1]:  # else the curve ends before the search does
                    assert run["is_reached"] == (run["curve"][-1] is not None and run["curve"][-1] <= 1.0101)
                assert run["thinking_s"] <= run["cpu_s"]


LOSSES = {(0,): 9.0, (1,): 4.0, (2,): math.inf, (3,): 1.0, (4,): 2.0}
TABLE: dict[Point, Scored] = {point: Scored(point=point, loss=loss) for point, loss in LOSSES.items()}
CALLS = Calls(beyond_s=1.0, first_s=10.0, further_s=3.0)


def asking(*parts):
    def search():
        for part in parts:
            told = yield part
            assert [one.point for one in told] == part

    return search()


def test_a_search_is_followed_until_it_is_near_enough():
    run = followed(asking([(0,), (1,)], [(2,)], [(3,), (4,)]), looked_up(TABLE, CALLS), 100, 1.5)
    assert (run.num_evaluated, run.loss, run.is_reached) == (4, 1.0, True)
    assert run.answering_s == pytest.approx((1 + 10 + 3) + 1 + (1 + 10 + 3))
    assert run.curve[:4] == (9.0, 4.0, 4.0, 1.0)
    assert set(run.curve[4:]) == {1.0}


@pytest.mark.parametrize(("num_most", "num_evaluated", "loss"), [(2, 2, 4.0), (3, 3, 4.0), (9, 5, 1.0)])
def test_a_search_that_is_not_near_enough_ends_with_its_budget_or_its_questions(num_most, num_evaluated, loss):
    run = followed(asking([(0,), (1,)], [(1,), (2,)], [(3,), (4,)]), looked_up(TABLE, CALLS), num_most, 0.5)
    assert (run.num_evaluated, run.loss, run.is_reached) == (num_evaluated, loss, False)


def test_what_was_told_is_not_paid_for_again():
    run = followed(asking([(0,)], [(0,)], [(0,), (2,)]), looked_up(TABLE, CALLS), 9, 0.5)
    assert run.answering_s == pytest.approx((1 + 10) + 1)


def test_runs_of_other_models_and_searches_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(convergence, "RESULTS", tmp_path / "results.json")
    monkeypatch.setattr("benchmarks.convergence_table.RESULTS", tmp_path / "results.json")
    first, second = ({"cpu_s": s, "num_evaluated": 2, "is_reached": True, "thinking_s": s / 2} for s in (1.0, 3.0))
    write_results(["a", "b"], {"b": {"searches": {"exact": [first]}}}, [{"model": "b"}])
    write_results(["a", "b"], {"a": {"searches": {"exact": [first]}}}, [])
    write_results(["a", "b"], {"b": {"searches": {"bayes": [second]}}}, [])
    results = recorded()
    assert list(results["models"]) == ["a", "b"]
    assert list(results["models"]["b"]["searches"]) == ["exact", "bayes"]
    assert results["check"] == [{"model": "b"}]
    bayes = converged(results, "bayes")
    assert (bayes.num_models, bayes.ratios, bayes.unthinking_ratios) == (1, (3.0,), (1.5,))
