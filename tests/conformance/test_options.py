"""An option given to the explorer has an effect, and the one that it has in Python.

`test_requests.py` holds command line, Python and explorer to the same options; this is about what they do.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest

import dovetail as dv
from dovetail.evaluate import Outcome
from dovetail.explorer import search_work
from dovetail.explorer.answers import found_for_state, result_of_state
from dovetail.explorer.figures import measures_of
from dovetail.explorer.packed import packed
from dovetail.explorer.search_request import CODESIGN, FRONT, SearchRequest, search_query, search_request
from dovetail.explorer.state import State, query_of, states_of
from dovetail.files.plan_text import plan_text
from dovetail.parallel.plan import Plan
from dovetail.units import GIBI, format_bytes

# The explorer's words by option, page by page.
PLAN_PAGE = {
    "model": "model", "cluster": "cluster", "devices": "devices", "global_batch": "batch", "seq": "seq",
    "compute": "compute", "plan": "plan",
}  # fmt: skip
CHIP_SEARCH = {name: name for name in ("preset", "base", "network", "devices", "area", "power", "batch", "seq")}
EXPLORED = {
    "simulate": PLAN_PAGE,
    "plan": {option: word for option, word in PLAN_PAGE.items() if option != "plan"} | {"objective": "objective"},
    "codesign": CHIP_SEARCH | {"spec": "model", "metric": "metric"},
    "pareto": CHIP_SEARCH | {"spec": "model", "axes": "axes"},
}

# --- what is given has an effect, and the same one ------------------------------------------------------------------

PLANNED = Plan(data_parallel=8, microbatch=4)
STEP: dict[str, Any] = {
    "model": "gpt2-345m", "cluster": "dgx-h100", "devices": 8, "global_batch": 64, "seq": 1024, "compute": "bf16",
    "plan": PLANNED,
}  # fmt: skip
OTHER_STEP: dict[str, Any] = {
    "model": "gpt2-1.5b", "cluster": "dgx-a100", "devices": 16, "global_batch": 128, "seq": 512, "compute": "fp8",
    "plan": Plan(data_parallel=8, microbatch=2),
}  # fmt: skip


def told(option: str, value: Any) -> str:
    return packed(plan_text(value)) if option == "plan" else str(value)


def state_of(options: dict[str, Any]) -> State:
    """By way of an address, as a browser asks."""
    return states_of([(PLAN_PAGE[option], told(option, value)) for option, value in options.items()])[0]


def steps_of(options: dict[str, Any]) -> tuple[Outcome, Outcome]:
    """Of the page, and of the call."""
    page, call = result_of_state(state_of(options)), dv.simulate(**options).outcome
    assert isinstance(page, Outcome)
    assert isinstance(call, Outcome)
    return page, call


@pytest.mark.parametrize("option", sorted(EXPLORED["simulate"]))
def test_a_step_of_the_plan_page_is_that_of_the_call_whatever_option_is_given(option: str) -> None:
    changed = STEP | {option: OTHER_STEP[option]}
    if option == "devices":
        changed["plan"] = replace(PLANNED, data_parallel=16)
    page, call = steps_of(changed)
    assert page.step == call.step
    assert page.memory == call.memory
    assert page.cluster == call.cluster
    assert page.workload == call.workload
    assert page.step != steps_of(STEP)[0].step, f"{option} changes nothing"


@pytest.mark.parametrize("option", sorted(EXPLORED["simulate"]))
def test_an_option_of_the_plan_page_comes_back_from_its_address(option: str) -> None:
    state = state_of(STEP | {option: OTHER_STEP[option]})
    words = dict(pair.split("=") for pair in query_of(state).split("&"))
    assert words[PLAN_PAGE[option]] == urlencode({"": told(option, OTHER_STEP[option])})[1:]


def test_the_memory_that_a_page_shows_is_that_which_the_plan_was_held_to() -> None:
    page, _ = steps_of(STEP)
    held = replace(page, memory=replace(page.memory, limits_bytes=(56 * GIBI,)))
    [memory] = [each for each in measures_of(held) if each.key == "memory"]
    assert format_bytes(56 * GIBI) in memory.note
    assert format_bytes(page.memory.limit_bytes) not in memory.note


@pytest.mark.parametrize("objective", ["time", "tokens/J", "headroom"])
def test_the_plan_that_the_explorer_finds_is_that_of_the_call(objective: str) -> None:
    options: dict[str, Any] = {"model": "bert-base", "cluster": "dgx-h100", "devices": 8, "global_batch": 32}
    page = found_for_state(state_of(options), objective=objective)
    assert page.plan == plan_text(dv.plan(**options, objective=objective).plan)


SEARCHED: dict[str, Any] = {
    "preset": "phaze", "base": "tpuv2-like", "network": "flat", "devices": 16, "area": "500 mm2", "power": "250 W",
    "batch": 32, "seq": 256, "metric": "perf/tdp", "axes": ("throughput", "area"), "model": "bert-large",
}  # fmt: skip


class CallContext(Exception):
    """What a search's process called, with what."""


@pytest.mark.parametrize(
    ("call", "kind", "option"),
    [(call, kind, option) for call, kind in (("codesign", CODESIGN), ("pareto", FRONT)) for option in EXPLORED[call]],
)
def test_a_search_asks_the_call_what_its_address_says(
    call: str, kind: str, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    word = EXPLORED[call][option]
    asked = replace(SearchRequest(kind=kind), **{word: SEARCHED[word]})
    again = search_request(parse_qsl(search_query(asked)))
    assert again == asked

    def called(spec: Any, **options: Any) -> None:
        raise CallContext({"spec": spec.name, **options})

    monkeypatch.setattr(search_work, call, called)
    with pytest.raises(CallContext) as caught:
        search_work.ended(again, "", lambda _: None)
    [given] = caught.value.args
    inspect.signature(getattr(dv, call)).bind(**given)
    assert given[option] == SEARCHED[word]
