"""Charts of measurements, networks, traces, schedules and papers: what is drawn is what was found."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from dovetail.accuracy.compared import Compared, score
from dovetail.accuracy.one_operator import OperatorQuery, op_answer
from dovetail.accuracy.validation import Scored, ScoredSet, Validation
from dovetail.comm.trace.outcome import RankEnd, TraceOutcome
from dovetail.hardware.catalog import chips
from dovetail.report.accuracy import validation_record
from dovetail.report.charts.bars import LETTER_PX, NARROW_PX, ranked
from dovetail.report.charts.beside_paper import BesidePaper, beside_paper
from dovetail.report.charts.chart import HIGH_PX, LINE_PX, box_style, layout, log_marks, said, spread_axis
from dovetail.report.charts.counters import held_over_time
from dovetail.report.charts.curves import curves_chart
from dovetail.report.charts.estimates import estimates
from dovetail.report.charts.link_load import LinkLoad, link_load
from dovetail.report.charts.measured import MOST_DOTS, predicted_measured
from dovetail.report.charts.palette import MEMORY, PASSES, TIME, series
from dovetail.report.charts.ranks import ranks_ends
from dovetail.report.charts.set_errors import errors_by_set
from dovetail.report.charts.themes import INKS, template
from dovetail.report.charts.tracks import MOST_SLICES, tracks_chart
from dovetail.report.curves import Curve, Panel
from dovetail.report.pages.accuracy import accuracy_page
from dovetail.report.pages.operator import op_page
from dovetail.report.pages.reproduction import reproduction_page
from dovetail.report.pages.trace import dimension_loads, trace_page
from dovetail.report.table import Table
from dovetail.report.tracks import Counter, Process, Slice, Track
from dovetail.units import format_s
from tests.chart_checks import check_chart, trace_named


def scored_set(name: str, unit: str, pairs: list[tuple[float, float]]) -> ScoredSet:
    rows = tuple(
        Compared(set=name, kind="k", what=f"row {i}", measured=m, predicted=p, unit=unit)
        for i, (m, p) in enumerate(pairs)
    )
    whole = Scored(kind="", score=score(rows, 1), judged=())
    return ScoredSet(name=name, chip="h200-sxm", unit=unit, rows=rows, scored=(whole,), skipped=())


TEN = [(1.0 * i, 1.1 * i) for i in range(1, 10)] + [(10.0, 20.0)]


def test_nine_of_ten_rows_lie_in_the_interval_that_is_drawn():
    [chart] = predicted_measured([scored_set("runs", "s", TEN)])
    check_chart(chart)
    band = next(trace for trace in chart.figure["data"] if trace.get("fill") == "toself")
    factor = band["y"][0] / band["x"][0]
    assert factor == pytest.approx(1.1)
    dots = trace_named(chart, "runs (10)")
    inside = [1 / factor - 1e-9 <= y / x <= factor + 1e-9 for x, y in zip(dots["x"], dots["y"], strict=True)]
    assert sum(inside) == 9
    assert "within a factor of 1.10" in chart.alt


def test_sets_of_one_unit_share_a_chart_and_rows_without_a_logarithm_have_no_place():
    sets = [scored_set("a", "s", TEN), scored_set("b", "s", [(1.0, 1.0), (1.0, 0.0)]), scored_set("c", "cycles", TEN)]
    times, cycles = predicted_measured(sets)
    assert (times.name, cycles.name) == ("measured-s", "measured-cycles")
    assert len(trace_named(times, "b (1)")["x"]) == 1


def test_of_very_many_rows_some_are_drawn():
    [chart] = predicted_measured([scored_set("many", "s", [(1.0, 1.0)] * 5000)])
    assert len(trace_named(chart, "many (5,000)")["x"]) <= MOST_DOTS


def test_a_page_of_measurements_has_the_mean_over_all_rows():
    found = Validation(sets=(scored_set("a", "s", [(1.0, 1.1)]), scored_set("b", "s", [(1.0, 1.3)] * 3)))
    record = validation_record(found)
    [errors] = errors_by_set(record)
    check_chart(errors)
    assert trace_named(errors, "mean error")["x"] == pytest.approx([0.1, 0.3])
    page = accuracy_page(found, record)
    assert "off by 25.0 %" in page.sentence
    assert page.sentence.endswith("every documented bar of these sets holds.")


def test_a_page_of_measurements_names_the_sets_that_it_leaves_out():
    found = Validation(sets=(scored_set("a", "s", [(1.0, 1.1)]),))
    page = accuracy_page(found, validation_record(found), ("published",))
    assert "published is not among them: `dovetail validate published`" in page.sentence
    assert page.cards[-1].note == "hold; not looked at: published"


def test_links_of_a_dimension_are_taken_together():
    links = [
        {"dimension": "x", "busy_frac": 0.5},
        {"dimension": "x", "busy_frac": 0.1},
        {"dimension": "y", "busy_frac": 1.0},
    ]
    loads = dimension_loads(links)
    assert loads[0] == LinkLoad(dimension="x", mean_frac=0.3, most_frac=0.5)
    chart = link_load(loads)
    check_chart(chart)
    assert trace_named(chart, "busiest link")["x"] == [0.5, 1.0]


def test_ranks_that_end_alike_share_a_bar():
    ranks = tuple(RankEnd(rank=rank, end_s=2.0 if rank < 3 else 3.0, compute_s=1.0) for rank in range(4))
    outcome = TraceOutcome(engine="events", ranks=ranks, num_nodes=8)
    chart = ranks_ends(outcome)
    check_chart(chart)
    assert trace_named(chart, "computes")["y"] == ["ranks 0-2", "rank 3"]
    assert trace_named(chart, "waits for communication")["x"] == [1.0, 2.0]
    assert trace_page(outcome).sentence.startswith("The last of 4 ranks ends after 3.000 s; 66.7 %")


def slices(num: int, category: str = "c") -> tuple[Slice, ...]:
    return tuple(Slice(name=f"t{i}", begin_s=float(i), end_s=i + 0.5, category=category) for i in range(num))


def test_tracks_are_rows_and_categories_have_colours():
    tracks = (Track(name="a", slices=slices(3)), Track(name="b", slices=slices(2, "other")))
    chart = tracks_chart([Process(number=1, name="chip", tracks=tracks)], "rows", "Rows")
    check_chart(chart)
    assert trace_named(chart, "other")["base"] == [0.0, 1.0]
    assert chart.figure["layout"]["yaxis"]["categoryarray"] == ["b", "a"]
    assert "5 tasks on 2 tracks" in chart.alt


def test_of_very_many_tasks_the_longest_are_drawn():
    long = Slice(name="long", begin_s=0.0, end_s=9e9, category="c")
    chart = tracks_chart(
        [Process(number=1, name="chip", tracks=(Track(name="a", slices=(*slices(MOST_SLICES + 50), long)),))],
        "rows",
        "Rows",
    )
    [trace] = chart.figure["data"]
    assert len(trace["x"]) == MOST_SLICES
    assert "long" in trace["text"]


def test_what_is_held_has_its_mean_over_time():
    chart = held_over_time([Counter(name="cores held", unit="share", points=((0.0, 1.0), (1.0, 0.0), (4.0, 0.0)))])
    check_chart(chart)
    assert chart.table.rows == (("cores held", "25.0 %"),)


def test_curves_of_one_name_have_one_colour_and_bounds_are_dashed():
    solid = Curve(name="8 devices", points=((1.0, 2.0), (2.0, 3.0)), band=((1.0, 1.5, 2.5), (2.0, 2.5, 3.5)))
    dashed = Curve(name="8 devices", points=((1.0, 1.0), (2.0, 2.0)), is_dashed=True)
    panel = Panel(title="time", x_name="x", y_name="y", x_label=str, y_words=str, curves=(solid, dashed))
    chart = curves_chart(panel, "time")
    band, line, bound = check_chart(chart)
    assert line["line"]["color"] == bound["line"]["color"] == band["line"]["color"]
    assert (line["line"]["dash"], bound["line"]["dash"]) == ("solid", "dash")
    assert chart.figure["layout"]["yaxis"]["type"] == "log"


def test_every_mark_of_a_curve_has_its_unit():
    curve = Curve(name="8 devices", points=((1.0, 3e-5), (2.0, 4e-3)))
    time = Panel(title="t", x_name="x", y_name="time", x_label=str, y_words=format_s, curves=(curve,))
    rate = replace(time, y_name="bandwidth", is_y_log=False, y_unit="B/s")
    marks = curves_chart(time, "time").figure["layout"]["yaxis"]
    assert {5e-5, 1e-4, 2e-3} < set(marks["tickvals"])
    assert marks["ticktext"] == [format_s(value) for value in marks["tickvals"]]
    assert curves_chart(rate, "rate").figure["layout"]["yaxis"]["ticksuffix"] == "B/s"


def test_of_many_decades_each_has_one_mark():
    assert log_marks(3e-7, 2.0) == [1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0]
    assert log_marks(1.0, 10.0) == [1.0, 2.0, 5.0, 10.0, 20.0, 50.0]


@pytest.mark.parametrize(("values", "kind"), [([5_300.0, 8_400.0], None), ([10.0, 100.0], "log"), ([0.0, 9.0], None)])
def test_an_axis_within_a_decade_has_marks_of_its_own(values, kind):
    assert spread_axis("area", values).get("type") == kind


def test_texts_at_the_ends_of_bars_have_room_on_a_telephone():
    texts = ["+20.7 %", "-0.2 %"]
    low, high = ranked(["a", "b"], [0.3, -0.05], texts, ["#000", "#000"], "gain", hover="%{y}")["layout"]["xaxis"][
        "range"
    ]
    px = NARROW_PX / (high - low)
    assert (high - 0.3) * px >= LETTER_PX * len(texts[0]) - 1e-9
    assert (-0.05 - low) * px >= LETTER_PX * len(texts[1]) - 1e-9
    nothing = ranked(["a"], [0.0], ["+0.0 %"], ["#000"], "gain", hover="%{y}")["layout"]["xaxis"]["range"]
    assert nothing[0] == 0.0 < nothing[1]


def test_a_box_has_room_for_a_line_of_everything_in_the_legend():
    figure: dict[str, Any] = {
        "data": [{"name": "a"}, {"name": "b"}, {"name": "c", "showlegend": False}, {}],
        "layout": layout(height=200, shapes=[{"showlegend": True}, {"showlegend": False}]),
    }
    assert box_style(figure) == f"--high:200px;--legend:{3 * LINE_PX}px"
    assert box_style({"data": [{"name": "a"}], "layout": {}}) == f"--high:{HIGH_PX}px;--legend:0px"
    assert figure["layout"]["legend"]["maxheight"] == 1


def test_an_operator_is_under_its_roof_and_beside_other_models():
    answer = op_answer(OperatorQuery(kind="matmul", dims=(1024, 1024, 1024)), chips["h100-sxm"](), is_compared=True)
    page = op_page(answer)
    for chart in page.charts:
        check_chart(chart)
    roof, beside = page.charts
    [dot] = [trace for trace in roof.figure["data"] if trace["mode"] == "markers"]
    assert dot["y"] == [answer.flop_per_s]
    assert beside.figure["data"][0]["x"][0] == answer.time_s
    assert estimates(op_answer(OperatorQuery(kind="matmul", dims=(64, 64, 64)), chips["h100-sxm"]())) == ()


def test_numbers_of_a_paper_are_ratios_and_a_missed_one_stands_out():
    rows = [
        BesidePaper(what="a", ours=2.0, reported=1.0, holds=False),
        BesidePaper(what="b", ours=1.0, reported=1.0, holds=True),
    ]
    chart = beside_paper([*rows, BesidePaper(what="nothing", ours=0.0, reported=0.0, holds=True)])
    check_chart(chart)
    assert trace_named(chart, "missed")["x"] == [2.0]
    assert trace_named(chart, "as it must be")["y"] == ["b"]
    assert "1 missed" in chart.alt
    low, high = chart.figure["layout"]["xaxis"]["range"]
    assert low < 1 < 2 < high


def test_a_span_that_a_paper_reports_is_met_anywhere_in_it():
    claims = [
        {"what": "in it", "paper_mapper": 2.0, "reported": [1.0, 3.0], "verdict": "reproduced"},
        {"what": "above", "paper_mapper": 4.0, "reported": [1.0, 3.0], "verdict": "not comparable"},
        {"what": "far above", "paper_mapper": 9.0, "reported": [1.0, 3.0], "verdict": "not reproduced"},
        {"what": "not measured", "paper_mapper": None, "reported": [1.0], "verdict": "not comparable"},
    ]
    page = reproduction_page({"paper": "X", "holds": True, "claims": claims}, (Table(title="t", rows=(("a",),)),))
    [chart] = page.charts
    assert trace_named(chart, "as it must be")["x"] == [1.0, pytest.approx(4 / 3)]
    assert trace_named(chart, "missed")["y"] == ["far above"]


def test_a_label_holds_no_markup_but_its_lines():
    assert said('<a href="x">&\nb') == '&lt;a href="x"&gt;&amp;<br>b'


def test_categories_of_a_chart_look_apart():
    for looks in (TIME, MEMORY, PASSES):
        assert len(set(looks.values())) == len(looks)
    assert len({series(index) for index in range(40)}) == 40


def luminance(colour: str) -> float:
    channels = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue  # WCAG 2.2: relative luminance


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_text_is_read_on_its_paper(mode):
    inks = INKS[mode]
    paper = luminance(inks["paper"])
    for ink, least in (("ink", 7.0), ("dim", 4.5)):
        high, low = sorted((luminance(inks[ink]), paper), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= least
    assert template(mode)["layout"]["paper_bgcolor"] == inks["paper"]
    assert not math.isclose(paper, luminance(INKS["dark" if mode == "light" else "light"]["paper"]))
