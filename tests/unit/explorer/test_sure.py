"""How sure an answer is reads the same by every way to it: `plan`, `simulate`, `compare`, Python and the explorer."""

from __future__ import annotations

from functools import cache
from typing import Any
from urllib.parse import parse_qsl

import pytest

import dovetail
from dovetail.errors import InvalidInput
from dovetail.explorer.answers import Found, found_for_state, page_of_state
from dovetail.explorer.state import FIRST, State, query_of, session_of
from dovetail.explorer.trust import Trusted, trusted
from dovetail.explorer.views import edited_shown, shown
from dovetail.report.figures import table_of
from dovetail.report.recipes import recipe_table

JOB: dict[str, Any] = {"model": "llama3-8b", "cluster": "dgx-h100", "devices": 16, "global_batch": 128}
STATE = State(model="llama3-8b", cluster="dgx-h100", devices=16, batch=128)


@cache
def planned() -> dovetail.Planning:
    return dovetail.plan(**JOB)


@cache
def found() -> Found:
    return found_for_state(STATE)


def state() -> State:
    return STATE.with_plan(found().plan, found().selection)


@cache
def trusted_page() -> Trusted:
    return trusted(state())


def test_one_interval_stands_beside_the_step_of_a_plan_that_was_searched_for():
    bounds = planned().best.interval.bounds
    assert planned().best.interval.selection.num_near > 1
    assert f"({bounds} in nine of ten runs)" in planned().headline
    best = planned().record["best"]["interval"]
    assert best["upper_s"] == planned().record["selection"]["upper_s"] > best["given_upper_s"]
    [row] = [row for table in planned().tables for row in table.rows if row[0] == "90 % interval"]
    assert row[1].startswith(f"{bounds}, widened for the choice among {best['num_near']} close plans; from")
    measure = shown(state()).measures[0]
    assert measure.interval.startswith(f"{bounds} in nine of ten runs, widened for the choice among")
    assert f"90 % interval {bounds}, widened for" in trusted_page().said
    assert f"({bounds} in nine of ten runs)" in page_of_state(state()).sentence
    sentences = [one for section in planned().page.sections if section.is_folded for one in section.sentences]
    assert any("had it been given" in one for one in sentences)


def test_a_plan_found_on_the_way_has_the_interval_of_a_plan_that_was_searched_for():
    wanted = planned().best.interval
    simulated = dovetail.simulate(**JOB, plan="auto")
    assert simulated.interval.bounds == wanted.bounds
    compared = dovetail.compare(**{**JOB, "cluster": ["dgx-h100", "dgx-h200"]}, plan="auto")
    assert compared.rows[0]["interval_upper_s"] == pytest.approx(wanted.upper_s)


def test_an_interval_does_not_depend_on_how_many_plans_are_shown():
    few = dovetail.plan(**JOB, top=2)
    assert len(few.ranking) == 2
    assert few.best.interval == planned().best.interval


def test_a_plan_by_hand_is_not_widened_for_a_choice():
    changed, now = edited_shown(state(), "microbatch", "2")
    assert "widened" not in now.measures[0].interval
    assert changed.selection.num_near == 1


def test_what_a_plan_was_chosen_among_comes_back_from_its_address():
    query = parse_qsl(query_of(state()))
    again = session_of(query).state
    assert again.selection.num_near == state().selection.num_near
    assert again.selection.shift_frac == pytest.approx(state().selection.shift_frac, rel=1e-4)
    for wrong in ("10", "1-0.1", "10-x", "99-0.1", "10--1", "10-nan"):
        with pytest.raises(InvalidInput, match="chosen"):
            session_of([("plan", dict(query)["plan"]), ("chosen", wrong)])
    assert FIRST.selection.num_near == 1


def test_the_accuracy_page_names_the_nearest_run_that_plan_names():
    near = planned().report_context.near
    assert trusted_page().nearest == table_of(recipe_table(near))
    assert trusted_page().runs.rows[0][0] == near.recipes[0].run.name == planned().record["nearest_run"]["name"]
    distances = [one.distance for one in near.recipes]
    assert distances == sorted(distances)


def test_memory_is_stated_the_same_way_in_text_and_on_cards():
    [row] = [row for table in planned().tables for row in table.rows if row[0] == "memory"]
    memory = planned().record["best"]["memory"]
    parts = ("limit_bytes", "kept_free_bytes", "driver_bytes")
    assert sum(memory[part] for part in parts) == pytest.approx(memory["capacity_bytes"])
    assert row[1].endswith(shown(state()).measures[1].interval)
    cards = {card.label: card.note for card in planned().page.cards}
    assert row[1].endswith(cards["Memory"])
