"""What the explorer writes into a page: figures beside what they were, and no name read as HTML."""

from __future__ import annotations

from dataclasses import replace

from dovetail.accuracy.evidence import format_bounds
from dovetail.evaluate import Infeasible, Outcome, evaluate
from dovetail.explorer.compare_page import compared_html
from dovetail.explorer.comparing import compared
from dovetail.explorer.elements import options_html, tables_html
from dovetail.explorer.figures import (
    Measure,
    cards_html,
    change_frac,
    figure_label,
    largest_part,
    limit_of,
    measures_of,
    short,
)
from dovetail.explorer.state import State
from dovetail.files.plan_text import plan_text
from dovetail.hardware.altered import altered
from dovetail.hardware.clusters import clusters
from dovetail.parallel.plan import Plan
from dovetail.report.limits import limited_by
from dovetail.report.pages.simulated import outcome_page
from dovetail.report.table import Table
from dovetail.units import GIGA, TERA
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

EVIL = "<img src=x onerror=alert(1)>"
PLAN = Plan(data_parallel=8, microbatch=4)


def outcome(model: str = "gpt2-345m"):
    made = models[model]()
    return evaluate(Workload(model=made, global_batch=64, seq=made.seq), clusters["dgx-h100"].build(8), PLAN)


def test_html_in_names_is_shown_and_not_read():
    told = cards_html((Measure(key="step", label=EVIL, shown=EVIL, value=1.0, note=EVIL),))
    told += options_html({EVIL: [(EVIL, EVIL)]}, "")
    told += tables_html((Table(title=EVIL, columns=(EVIL,), rows=((EVIL,),), notes=(EVIL,)),))
    assert "<img" not in told
    assert told.count("&lt;img") >= 8


def test_quick_figures_are_those_of_the_whole_evaluation():
    whole = outcome()
    quick = evaluate(whole.workload, whole.cluster, whole.plan, has_changes=False)
    assert isinstance(quick, Outcome)
    first, second, *others = measures_of(quick)
    assert (first, second, limit_of(whole), *others) == measures_of(whole)
    assert quick.elasticities == ()
    assert replace(quick, elasticities=whole.elasticities) == whole


def test_a_plan_that_does_not_fit_shows_by_how_much_and_tries_no_lever_when_quick():
    made = models["llama3-70b"]()
    work = Workload(model=made, global_batch=64, seq=made.seq)
    quick = evaluate(work, clusters["dgx-h100"].build(8), PLAN, has_changes=False)
    assert isinstance(quick, Infeasible)
    assert quick.levers == ()
    step, memory = measures_of(quick)
    assert (step.shown, step.note) == ("none", "the plan does not fit")
    assert memory.share_frac > 1
    assert "does not fit" in cards_html((memory,))
    assert "over; 76.0 GiB usable of 80.0 GiB: " in memory.note


def test_changes_are_told_as_better_or_worse_by_what_is_wanted_of_the_figure():
    before = Measure(key="step", label="Step", shown="1 s", value=1.0, is_less_better=True)
    now = replace(before, shown="0.9 s", value=0.9)
    assert 'class="moved better">−10.0 %' in cards_html((now,), (before,))
    assert 'class="moved worse"' in cards_html((before,), (now,))
    assert change_frac(replace(before, value=1.0001), before) == 0.0


def test_the_largest_part_of_a_step_is_no_more_than_the_step():
    found = outcome()
    name, part_s = largest_part(found)
    assert name
    assert 0 < part_s <= found.step.step_s


def test_figures_of_hardware_read_as_datasheets_say_them():
    assert figure_label(3350 * GIGA, "bytes_per_s") == "3.35 TB/s"
    assert figure_label(700.0, "w") == "700 W"
    assert figure_label(2800.0, "w") == "2.80 kW"
    assert figure_label(1503 * TERA, "flop_per_s") == "1.50 PFLOP/s"
    assert figure_label(989.4 * TERA, "flop_per_s") == "989 TFLOP/s"


def test_what_limits_is_what_the_report_says_and_moves_with_the_hardware():
    found = outcome()
    assert isinstance(found, Outcome)
    limit = limit_of(found)
    assert limited_by(found).startswith(limit.shown)
    assert f"; limited by {limit.shown}" in outcome_page(found).sentence
    own = clusters["dgx-h100"].build(8)
    now = evaluate(found.workload, altered(own, {"hbm-bandwidth": 0.25}, "bf16"), found.plan)
    assert isinstance(now, Outcome)
    assert limit_of(now).shown == "HBM bandwidth"
    then = evaluate(found.workload, altered(own, {"hbm-bandwidth": 4.0}, "bf16"), found.plan)
    assert isinstance(then, Outcome)
    assert limit_of(then).shown != "HBM bandwidth"
    assert "was HBM bandwidth" in cards_html(measures_of(then), measures_of(now))


def test_designs_side_by_side_differ_where_they_differ_and_one_that_cannot_be_spoils_no_other():
    state = State(model="gpt2-345m", cluster="dgx-h100", devices=8, batch=64, plan=plan_text(PLAN))
    slow = state.with_factor("hbm-bandwidth", 0.5).named(EVIL)
    found = compared((state.named("mine"), slow, replace(state, model="no-such")))
    assert found.names == ("mine", EVIL, "design 3")
    facts = {row.label: [cell.shown for cell in row.cells] for row in found.facts}
    assert facts["model"] == ["gpt2-345m", "gpt2-345m", "no-such"]
    assert facts["HBM bandwidth"][:2] == ["3.35 TB/s", "1.68 TB/s"]
    two = compared((state, slow))
    assert [row.label for row in two.differing] == ["HBM bandwidth"]
    assert {row.label for row in two.same} >= {"model", "devices", "TP"}
    step = next(row for row in found.figures if row.label == "Step time")
    assert step.cells[0].interval
    assert (step.cells[1].word, step.cells[1].moved[-1]) == ("worse", "%")
    assert "no model is named" in step.cells[2].shown or "catalogue" in step.cells[2].shown
    assert [chart.name for chart in found.charts] == ["time-by-job", "memory-by-job"]
    told = compared_html(found, ["/", "/", "/"])
    assert "<img" not in told
    assert told.index("What it comes to") < told.index("What differs")


def test_a_figure_has_as_many_digits_as_its_interval_bears():
    assert short("12.537 s") == "12.5 s"
    assert short("1,234.5 ms") == "1,234 ms"
    assert short("60.0 GiB") == "60.0 GiB"
    assert format_bounds(8.053, 19.517) == "8.1 to 20 s"
    assert format_bounds(0.8, 1.234) == "800 ms to 1.2 s"
