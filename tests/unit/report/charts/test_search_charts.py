"""Charts of searches: how they came to their answer, and what they found."""

from __future__ import annotations

import math

import pytest

from dovetail.report.charts.convergence import convergence
from dovetail.report.charts.designs import designs_compared
from dovetail.report.charts.plans import plans_compared
from dovetail.report.charts.resources import resources_gain
from dovetail.report.charts.study_rows import best_rows
from dovetail.report.charts.systems import systems_by_area
from dovetail.report.charts.trail import MOST_POINTS, Mark, Trail, honest, thinned
from dovetail.report.labels import number
from dovetail.report.pages import planned
from dovetail.report.pages.codesigned import codesigned_page, trail_of
from dovetail.report.pages.mined import mined_page
from dovetail.report.pages.planned import planned_page
from dovetail.report.planned import PlanReportContext
from dovetail.search.codesign.joint import Standing
from dovetail.search.codesign.scoring import Scorer
from dovetail.search.codesign.sensitivity import sensitivity_of
from dovetail.units import format_s
from tests.chart_checks import check_chart, trace_named
from tests.unit.report import test_codesigned, test_mined, test_planned


def trail(*marks: tuple[int, float, float], is_more_better: bool = True) -> Trail:
    made = tuple(Mark(num_done=num, best=best, bound=bound) for num, best, bound in marks)
    return Trail(
        counted="systems", done="scored", unit="times base", is_more_better=is_more_better, marks=made, words=number
    )


def test_best_and_bound_are_drawn_until_they_meet():
    chart = convergence(trail((1, 1.0, 3.0), (5, 2.0, 2.5), (9, 2.2, 2.2)))
    check_chart(chart)
    assert trace_named(chart, "best so far")["y"] == [1.0, 2.0, 2.2]
    assert trace_named(chart, "none can be better: at most")["y"] == [3.0, 2.5, 2.2]
    assert "the bound has met it" in chart.alt


def test_a_gap_that_is_left_is_said():
    assert "by more than 10.00 %" in convergence(trail((1, 1.0, 3.0), (9, 2.0, 2.2))).alt
    assert "nothing bounds" in convergence(trail((1, 1.0, 0.0), (9, 2.0, 0.0))).alt


@pytest.mark.parametrize("is_more_better", [True, False])
def test_no_bound_is_tighter_than_a_later_one(is_more_better):
    bounds = (3.0, 2.0, 2.5, 2.4) if is_more_better else (1.0, 2.0, 1.5, 1.6)
    marks = [(index, 2.2, bound) for index, bound in enumerate(bounds)]
    kept = [mark.bound for mark in honest(trail(*marks, is_more_better=is_more_better)).marks]
    assert kept == sorted(kept, reverse=is_more_better)
    assert kept[-1] == bounds[-1]


def test_a_bound_that_is_known_at_the_end_alone_is_a_line_all_the_same():
    chart = convergence(trail((1, 1.0, 0.0), (4, 2.0, 0.0), (9, 2.0, 2.0)))
    bound = trace_named(chart, "none can be better: at most (known at the end)")
    assert (bound["x"], bound["y"]) == ([1, 9], [2.0, 2.0])


def test_a_search_says_what_it_did_to_how_many_and_the_best_as_its_page_does():
    found = test_planned.chosen()
    history = (Mark(num_done=10, best=2.0, bound=0.0), Mark(num_done=20, best=1.0, bound=0.0))
    chart = convergence(planned.trail_of(found, history))
    assert chart.figure["layout"]["xaxis"]["title"]["text"] == "plans evaluated or ruled out by a bound"
    assert format_s(found.best.step.step_s) in chart.alt
    assert chart.table.rows[-1][1].startswith(format_s(found.best.step.step_s))


def test_before_anything_fits_there_is_a_bound_and_no_best():
    chart = convergence(trail((1, math.inf, 0.5), (2, 1.0, 0.6), is_more_better=False))
    check_chart(chart)
    assert trace_named(chart, "best so far")["x"] == [2]
    assert chart.table.rows[0] == ("1", "-", "0.5")


def test_a_long_history_keeps_its_ends_and_its_changes():
    many = thinned(Mark(num_done=index, best=float(index // 3), bound=9e9) for index in range(5000))
    assert len(many) <= MOST_POINTS
    assert (many[0].num_done, many[-1].num_done) == (0, 4999)
    few = thinned([Mark(num_done=index, best=1.0, bound=2.0) for index in range(100)])
    assert [mark.num_done for mark in few] == [0, 99]


def test_the_best_plans_are_there_with_the_users_own():
    found = test_planned.chosen(given=(test_planned.OWN,))
    [trace] = check_chart(plans_compared(found))
    assert trace["x"] == [one.candidate.step_s for one in found.ranking]
    assert [text for text in trace["text"] if text == "best"] == ["best"]
    assert sum("(yours)" in label for label in trace["y"]) == 1


def test_a_page_of_plans_tells_the_search_the_plans_and_the_best_plans_step():
    found = test_planned.chosen()
    history = (Mark(num_done=10, best=2.0, bound=0.0), Mark(num_done=20, best=1.0, bound=0.0))
    page = planned_page(
        found, test_planned.answers(found), PlanReportContext(name="a job", commands=("dovetail x",)), history
    )
    names = [chart.name for chart in page.charts]
    assert names[0] == "pipeline"
    assert {
        "plans",
        "plans-scatter",
        "convergence",
        "memory-over-time",
        "time-by-stage",
        "memory-by-stage",
        "roofline",
        "elasticities",
    } < set(names)
    for chart in page.charts:
        check_chart(chart)
    assert "dovetail x" in [section.code for section in page.sections]
    [proved] = [section for section in page.sections if "convergence" in [chart.name for chart in section.charts]]
    assert proved.is_folded
    assert [label for label, _ in page.asked][:2] == ["Model", "Cluster"]


def test_a_page_of_plans_says_why_none_fits():
    found = test_planned.found(model="llama3-70b", tensor=(1,))
    page = planned_page(found, (), PlanReportContext(name="a job"))
    assert page.sentence.startswith("None of ")
    assert [chart.name for chart in page.charts] == ["memory-by-stage"]


def test_systems_are_drawn_by_area_with_the_best_and_the_base():
    report = test_codesigned.report()
    chart = systems_by_area(report)
    check_chart(chart)
    assert trace_named(chart, "the best")["x"] == [report.best.area_mm2]
    assert trace_named(chart, "the best")["y"] == [report.figure(0, report.best)]
    assert trace_named(chart, "tpuv4-like, the base")["x"] == [report.base.area_mm2]


def test_what_more_of_a_resource_would_gain_is_drawn_the_most_useful_first():
    report = test_codesigned.report()
    found = sensitivity_of(Scorer(report.question), report.best)
    [chart] = resources_gain(found)
    [trace] = check_chart(chart)
    assert trace["x"] == [one.gain_frac for one in found.resources]
    assert trace["y"][0].endswith(f"more {found.resources[0].name}")


def test_the_phases_of_a_joint_search_follow_each_other():
    report = test_codesigned.report()
    history = (
        Standing(phase="systems", num_done=8, num_open=1, loss=0.5, bound=0.25),
        Standing(phase="uneven plans", num_done=2, num_open=0, loss=0.5, bound=0.5),
    )
    marks = trail_of(report, history).marks
    assert [(mark.num_done, mark.best, mark.bound) for mark in marks] == [(8, 2.0, 4.0), (10, 2.0, 2.0)]
    for chart in codesigned_page(report, history).charts:
        check_chart(chart)


def test_mined_chips_stand_beside_the_base_and_those_tuned_by_hand():
    report = test_mined.report()
    [trace] = check_chart(designs_compared(report))
    assert trace["x"][0] == pytest.approx(1 + report.gain_frac(report.best[0], report.reference))
    assert trace["x"][-1] == pytest.approx(1.0)
    assert [label for label in trace["y"] if "tpuv2-like" in label] == ["tpuv2-like, the base"]
    assert len(trace["x"]) == len(report.best) + len(report.rivals)
    for chart in mined_page(report).charts:
        check_chart(chart)


def test_rows_of_a_study_are_compared_where_there_are_two():
    [chart] = best_rows([("a <b>", 2.0), ("c", 3.0)])
    [trace] = check_chart(chart)
    assert trace["x"] == [1.0, 1.5]
    assert trace["y"][0] == "1. a &lt;b&gt;"
    assert best_rows([("a", 2.0)]) == ()
