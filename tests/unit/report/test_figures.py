"""An answer is made of labelled figures: what text says is in JSON, or is one of a few things that have a name."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest

from dovetail.comm.one_collective import network_answer
from dovetail.evaluate import Infeasible, Outcome, evaluate
from dovetail.hardware.clusters import clusters
from dovetail.hardware.heterogeneous import HeterogeneousCluster
from dovetail.parallel.plan import Plan
from dovetail.report.codesigned import codesigned_figures
from dovetail.report.figures import (
    Figure,
    FigureList,
    FigureRow,
    FigureTable,
    Phrase,
    Sentences,
    TextOnly,
    hidden,
    labelled,
    phrase,
    record_of,
    table_of,
    tables_of,
    under,
)
from dovetail.report.fronts import front_figures
from dovetail.report.goodput import Budget
from dovetail.report.mined import mined_figures
from dovetail.report.network import network_figures, sweep_figures
from dovetail.report.outcome import headline, outcome_figures
from dovetail.report.planned import planned_figures
from dovetail.search.planners.ranking import Choice
from dovetail.workload.models import models
from dovetail.workload.workload import Workload
from tests.unit.comm.test_one_collective import asked
from tests.unit.report import test_codesigned, test_fronts, test_goodput, test_mined, test_planned
from tests.unit.report.conftest import evaluated

# Text alone has these: bars and shares that follow from two figures of the JSON, counts of what is shown, figures of
# what was asked, and the sentence that `mine` begins with.
TEXT_ONLY = {
    "answer",
    "bar",
    "behind the best",
    "closed_form_s against events",
    "devices of every pool",
    "gain of one model",
    "interval_s and write_s",
    "levers",
    "levers shown",
    "memory_bytes_per_s",
    "need_bytes against limit_bytes",
    "need_bytes of a pool",
    "num_parameters",
    "operators left out",
    "raised_frac",
    "reserve_bytes and runtime_bytes",
    "share of a limit",
    "share of compute",
    "share of the step",
    "shorter seq",
    "systems shown",
    "taken of a limit",
    "tdp_w",
    "tokens_per_s per device",
    "ways",
}
# Words with a digit in them that is no figure.
WORDS = ("below 1", "mm2", "1f1b", "100 %", "x86")
SCALES = [1.0, 100.0, *(10.0**power for power in range(-15, 16, 3)), *(2.0**-power for power in (10, 20, 30, 40, 50))]
SCALES += [1 / 60, 1 / 3600, 1 / 86400]
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")


def on_pools() -> Outcome | Infeasible:
    parts = tuple(clusters[name].build(8) for name in ("dgx-h100", "selene"))
    cluster = HeterogeneousCluster(name="both", pools=parts, between=parts[0].topology.dimensions[-1].link)
    workload = Workload(model=models["llama3-8b"](), global_batch=16, seq=2048)
    plan = Plan(tensor_parallel=8, pipeline_parallel=2, stage_pools=(0, 1))
    return evaluate(workload, cluster, plan)


def planned(result):
    by_place = test_planned.answers(result) if isinstance(result, Choice) else ()
    return planned_figures(result, by_place, test_planned.TOLD)


PLAN = Plan(tensor_parallel=2, pipeline_parallel=4, data_parallel=2, zero_stage=1, recompute=("selective",))
SIZES = (2.0**20, 2.0**24)
# An answer of each command, and of what else they may have to say.
ANSWERS = {
    "simulate": lambda: outcome_figures(evaluated(PLAN), "a job"),
    "simulate, images": lambda: outcome_figures(evaluated(Plan(data_parallel=8, microbatch=8), model="vit-l-16")),
    "simulate, several pools": lambda: outcome_figures(on_pools()),
    "simulate, failures": lambda: outcome_figures(test_goodput.outcome_of(), budget=Budget(num_tokens=3e11)),
    "simulate, no room": lambda: outcome_figures(evaluated(Plan(data_parallel=64), model="llama3-70b"), "a job"),
    "plan": lambda: planned(test_planned.chosen("tokens/J", (test_planned.OWN,))),
    "plan, by time": lambda: planned(test_planned.chosen()),
    "plan, none fits": lambda: planned(test_planned.found(model="llama3-405b")),
    "codesign": lambda: codesigned_figures(replace(test_codesigned.report(("tied", "dense")), assumed=("area_mm2",))),
    "mine": lambda: mined_figures(test_mined.report()),
    "pareto": lambda: front_figures(test_fronts.report()),
    "network": lambda: network_figures(network_answer(asked())),
    "network, a sweep": lambda: sweep_figures([network_answer(replace(asked(), payload_bytes=n)) for n in SIZES]),
}


@cache
def answer_of(name):
    return ANSWERS[name]()


def parts_of(part):
    """A part and all that it is made of."""
    yield part
    if isinstance(part, Phrase):
        for inner in part.parts:
            yield from parts_of(inner)
    if isinstance(part, FigureRow):
        for cell in part.cells:
            yield from parts_of(cell)
    if isinstance(part, Figure | TextOnly | Phrase) and part.label is not None:
        yield from parts_of(part.label)


def shown_entries(table):
    """What a table shows, each with the place of its record, if it has one of its own."""
    if isinstance(table, FigureList):
        chosen = table.items if table.shown is None else table.shown
        for item in chosen:
            place = f"{table.key}[{list(table.items).index(item)}]"
            for entry in table.figures(item):
                if entry.label is not None:
                    yield entry, place
    else:
        for row in table.rows:
            if row.is_shown if isinstance(row, FigureRow) else row.label is not None:
                yield row, ""
        yield from ((column, "") for column in table.columns)
    yield from ((part, "") for part in (table.title, *table.notes))


def said(answer):
    """Every part that text is made of, and where its keys begin."""
    for table in answer:
        if table.title:
            for entry, place in shown_entries(table):
                for part in parts_of(entry):
                    yield part, [".".join(filter(None, (table.within, one))) for one in dict.fromkeys((place, ""))]


def found_in(record, path):
    for key in filter(None, path.replace("[", ".[").split(".")):
        record = record[int(key[1:-1])] if key.startswith("[") else record[key]
    return record


def is_in(record, figure, places):
    """Whether the record has a figure, where it says that it is."""
    for place in places:
        try:
            return bool(found_in(record, f"{place}.{figure.key}") == figure.value)
        except (KeyError, IndexError, TypeError):
            continue
    return False


def agrees(text, value):
    """Whether a number in `text` is `value`, rounded, in some unit."""
    for word in NUMBER.findall(text):
        digits = word.replace(",", "")
        shown = float(digits)
        if text.startswith("over ") and abs(value) * 100 > shown:  # a share beyond what is told apart
            return True
        if text.startswith("under ") and abs(value) * 100 < shown:
            return True
        mantissa, _, power = digits.partition("e")
        step = 10.0 ** (int(power or 0) - len(mantissa.partition(".")[2]))
        significant = 10.0 ** -(len(mantissa.replace(".", "").lstrip("0")) - 1) * abs(shown)
        if any(abs(abs(value) * scale - shown) <= 0.51 * max(step, significant / 10) for scale in SCALES):
            return True
    return False


@pytest.mark.parametrize("name", ANSWERS)
def test_every_figure_that_text_shows_is_in_the_json(name):
    answer = answer_of(name)
    record = record_of(answer)
    figures = [(part, places) for part, places in said(answer) if isinstance(part, Figure) and part.text]
    assert len(figures) > 5
    assert [figure.key for figure, places in figures if not is_in(record, figure, places)] == []


@pytest.mark.parametrize("name", ANSWERS)
def test_numbers_come_from_figures_and_what_text_alone_has_is_named(name):
    for part, _ in said(answer_of(name)):
        if isinstance(part, TextOnly):
            assert part.name in TEXT_ONLY
        elif isinstance(part, str | Phrase):
            words = part if isinstance(part, str) else part.template
            for known in WORDS:
                words = words.replace(known, "")
            assert not re.search(r"\d", words), f"{words!r} has a number that is no figure"


@pytest.mark.parametrize("name", ANSWERS)
def test_a_figure_reads_as_its_value(name):
    for part, _ in said(answer_of(name)):
        if not isinstance(part, Figure) or not part.text:
            continue
        if isinstance(part.value, str):
            assert part.text in part.value or not re.search(r"\d", part.text), part
        elif isinstance(part.value, int | float) and NUMBER.search(part.text):
            assert agrees(part.text, part.value), part


def test_a_figure_that_is_added_to_an_answer_is_in_json_and_text(outcome):
    answer = headline(outcome)
    more = replace(answer, rows=(*answer.rows, Figure("cost_usd", 12.5, "12.50 $", "cost")))
    assert record_of((more,)) == record_of((answer,)) | {"cost_usd": 12.5}
    assert table_of(more).rows == (*table_of(answer).rows, ("cost", "12.50 $"))


def test_a_figure_without_a_label_is_in_json_alone_and_a_row_that_is_not_shown_too():
    time = Figure("time_s", 2.0, "2 s")
    table = FigureTable(title="A", rows=(time, FigureRow(("late", Figure("late_s", 0.0, "0 s")), is_shown=False)))
    assert table_of(table).rows == ()
    assert record_of((table,)) == {"time_s": 2.0, "late_s": 0.0}


def test_a_figure_said_twice_must_say_the_same():
    twice = FigureTable(rows=(Figure("memory.need_bytes", 1.0), Figure("memory", {"need_bytes": 2.0})))
    with pytest.raises(AssertionError, match="need_bytes"):
        record_of((twice,))


def test_a_list_has_a_record_and_a_row_for_each_thing_and_a_column_for_each_label():
    listed = FigureList(
        key="stages",
        title="Stages",
        items=(1, 2, 3),
        shown=(1, 3),
        figures=lambda stage: (
            Figure("stage", stage, str(stage), "stage"),
            labelled("chip", "a"),
            TextOnly("x", "-", ""),
        ),
    )
    table = table_of(listed)
    assert (table.columns, table.rows, table.align) == (("stage", ""), (("1", "-"), ("3", "-")), "rr")
    assert record_of((listed,)) == {"stages": [{"stage": stage, "chip": "a"} for stage in (1, 2, 3)]}


def test_an_answer_within_another_lies_under_its_key_and_can_be_hidden():
    one = (FigureTable(title=labelled("answer", "yes"), notes=(Sentences("notes", ("a", "b")),)),)
    assert record_of(under("best", one)) == {"best": {"answer": "yes", "notes": ["a", "b"]}}
    assert record_of((*under("own[1]", one), *under("own[0]", hidden(one)))) == {"own": [record_of(one)] * 2}
    assert tables_of(hidden(one)) == ()
    assert table_of(one[0]).notes == ("- a", "- b")


def test_long_values_are_made_for_json_alone():
    made = iter(([1],))
    table = FigureTable(title="A", rows=(Figure("links", lambda: next(made)), phrase("{}", "a", label="b")))
    assert table_of(table).rows == (("b", "a"),)
    assert record_of((table,)) == {"links": [1]}
