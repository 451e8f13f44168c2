"""A page: one file that says nothing of others, lets nothing of the user run, and can be read without pictures."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from dovetail.report.charts.chart import Chart, layout
from dovetail.report.figures import table_of
from dovetail.report.levers import levers_list
from dovetail.report.page import MAX_CHARACTERS, Card, Page, Provenance, Section, page_html
from dovetail.report.page_tables import table_html
from dovetail.report.pages.inputs import plain_inputs
from dovetail.report.pages.simulated import outcome_inputs, outcome_page
from dovetail.report.table import Table
from tests.chart_checks import check_chart

EVIL = "</script><script>alert(1)</script>\"'&"
MADE = Provenance(command=f"dovetail simulate {EVIL}", versions=(("dovetail", "1"), ("Python", "3")))


def chart(name: str = "one", words: str = "a") -> Chart:
    data = [{"type": "bar", "orientation": "h", "x": [1.0], "y": [words.replace("<", "&lt;")]}]
    table = Table(title=words, columns=(words, "b"), rows=((words, "1"),), align="lr")
    return Chart(name=name, title=words, alt=f"{words}.", figure={"data": data, "layout": layout()}, table=table)


def page(*charts: Chart, words: str = "a") -> Page:
    table = Table(title=words, rows=((words, "█▌"), ("  of it", "2")), notes=(words, f"- {words}"))
    section = Section(title=words, sentences=(words,), charts=charts, tables=(table,), code=words)
    return Page(title=words, sentence=words, cards=(Card(label=words, value=words, note=words),), sections=(section,))


class Scripts(HTMLParser):
    """The text of every script element, by whether it runs; and names of elements and attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.running: list[str] = []
        self.data: list[str] = []
        self.attributes: list[str] = []
        self.tags: list[str] = []
        self._into: list[str] | None = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        if tag == "script":
            self._into = self.data if ("type", "application/json") in attrs else self.running

    def handle_data(self, data):
        if self._into is not None:
            self._into.append(data)

    def handle_endtag(self, tag):  # noqa: ARG002  # as HTMLParser calls it
        self._into = None


def test_nothing_of_the_user_becomes_markup_or_script():
    text = page_html(page(chart(words=EVIL), words=EVIL), MADE)
    assert "<script>alert" not in text
    found = Scripts(text)
    assert len(found.running) == 1
    assert not [name for name in found.attributes if name.startswith("on")]


def test_the_policy_lets_one_script_run_and_nothing_be_fetched():
    text = page_html(page(chart()), MADE)
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    assert "default-src 'none'" in policy
    assert "connect-src" not in policy
    assert "http" not in policy
    for script in Scripts(text).running:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_a_page_names_no_other_place():
    text = page_html(page(chart()), MADE)
    assert not re.findall(r"(?:src|href)=\"(?!#)", text)
    assert not re.findall(r"url\((?!#)", text)
    assert "@import" not in text


def test_a_page_runs_a_script_only_for_charts_and_needs_none_to_draw_them():
    both = page_html(page(chart("one"), chart("two")), MADE)
    assert both.count("<script>") == 1
    assert both.count("data-chart=") == 2
    assert both.count("<svg") >= 4, "each is drawn wide and narrow"
    assert "<script>" not in page_html(page(), MADE)
    assert "script-src 'none'" in page_html(page(), MADE)


def test_words_in_backticks_are_code_and_bars_of_a_terminal_are_left_out():
    table = Table(
        title="t",
        columns=("part", "share", ""),
        rows=(("a", "1", "██▌"), ("b", "2", "···")),
        notes=("say `dovetail x`",),
    )
    text = page_html(replace(page(), sections=(Section(title="s", sentences=("`y` is code",), tables=(table,)),)), MADE)
    assert "`" not in text
    assert "<code>dovetail x</code>" in text
    assert "<code>y</code> is code" in text
    assert "█" not in text
    assert "···" not in text
    assert text.count('scope="col"') == 2


def test_what_was_asked_stands_before_the_answer_and_proof_is_folded():
    told = replace(
        page(),
        asked=(("Model", "llama3-8b"),),
        sections=(Section(title="drawn"), Section(title="proof", is_folded=True)),
    )
    text = page_html(told, MADE)
    assert text.index("llama3-8b") < text.index(">drawn<")
    assert '<details class="fold"><summary><h2 id="s1-title">proof</h2></summary>' in text
    assert 'href="#s0"' in text
    assert 'href="#s1"' not in text


def test_charts_of_one_name_are_our_mistake():
    with pytest.raises(AssertionError, match="names of their own"):
        page_html(page(chart(), chart()), MADE)


def test_a_chart_can_be_read_without_being_seen():
    text = page_html(page(chart(words="the words")), MADE)
    assert 'role="img" aria-label="the words. the words."' in text
    assert "<figcaption>the words.</figcaption>" in text
    assert '<th scope="col">the words</th>' in text


def test_a_cell_that_is_no_sentence_stays_on_its_line():
    rows = (("a name of many more letters", "compute +0.1 %", "what is written here is longer than a line"),)
    text = "".join(table_html(Table(title="t", columns=("a", "b", "c"), rows=rows), is_titled=False))
    assert '<th scope="row" class="long">a name' in text
    assert "<td>compute +0.1 %</td>" in text
    assert '<td class="long">what' in text


def test_what_it_takes_to_get_the_answer_again_is_there_but_for_what_is_too_long():
    said = Provenance(command="dovetail x", versions=(("dovetail", "9"),), inputs={"a": 1}, answer={"b": 2})
    text = page_html(page(), said)
    assert "<code>dovetail x</code>" in text
    assert "Made by Dovetail 9" in text
    assert '"a": 1' in text
    assert '"b": 2' in text
    long = Provenance(command="x", versions=(), answer={"b": "c" * MAX_CHARACTERS})
    assert "too long for a page" in page_html(page(), long)


def test_inputs_are_plain_whatever_they_are_made_of(outcome):
    json.dumps(
        plain_inputs({"a": (1, float("inf")), "b": {1: test_charts_of_one_name_are_our_mistake}}), allow_nan=False
    )
    found = outcome_inputs(outcome)
    json.dumps(found, allow_nan=False)
    assert found["plan"]["tensor_parallel"] == 2
    assert found["cluster"]["chip"]["name"] == "h100-sxm"


def test_a_step_has_every_chart_of_a_step(outcome):
    charts = outcome_page(outcome, "a job").charts
    names = [chart.name for chart in charts]
    assert names == [
        "pipeline", "memory-over-time", "memory-by-stage", "time-by-stage", "elasticities", "topology", "network-use",
        "roofline",
    ]  # fmt: skip
    for one in charts:
        check_chart(one)


def test_a_plan_that_does_not_fit_says_what_would(infeasible):
    found = outcome_page(infeasible, "a job")
    assert "does not fit" in found.sentence
    assert [chart.name for chart in found.charts] == ["memory-by-stage"]
    assert "What would make it fit" in [section.title for section in found.sections]
    hopeless = replace(infeasible, levers=tuple(replace(lever, fits=False) for lever in infeasible.levers))
    [changes] = [one for one in outcome_page(hopeless, "a job").sections if one.title == "Changes tried"]
    assert changes.tables == (table_of(levers_list(hopeless)),)
