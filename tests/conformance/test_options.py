"""Command line, Python and explorer are three ways to one request: what one can be asked, the others can.

Options are read off the commands as Click has them, arguments off the signatures of `dovetail`, words off the
explorer's addresses. What is missing somewhere fails by its name, or stands in a table below with a reason.
"""

from __future__ import annotations

import inspect
from dataclasses import fields, replace
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest

import dovetail as dv
from dovetail.cli.commands import command
from dovetail.evaluate import Outcome
from dovetail.explorer import search_work
from dovetail.explorer.answers import found_for_state, result_of_state
from dovetail.explorer.figures import measures_of
from dovetail.explorer.packed import packed
from dovetail.explorer.search_asked import CODESIGN, FRONT, SearchAsked, search_asked, search_query
from dovetail.explorer.state import WORDS, State, query_of, states_of
from dovetail.files.plan_text import plan_text
from dovetail.plan.plan import Plan
from dovetail.units import GIBI, format_bytes

# Options that say where or how an answer is shown. From Python these are methods of the answer, or the caller's affair.
SHOWN = {
    "as_json": "the answer's record",
    "html": "the answer's page",
    "perfetto": "the answer's trace",
    "ranks": "of the trace: which ranks it shows",
    "csv": "a table that the answer writes",
    "plot": "a chart that the answer draws",
    "markdown": "the answer as Markdown",
    "figures": "charts that the answer draws",
    "plan_file": "the plan as text, which the answer has",
    "spec_file": "the winner as a spec, which the answer has",
    "astra_sim": "files for another simulator, which the answer writes",
    "out": "a file that the answer writes",
    "force": "whether files that are there are written over",
    "rescue": "a file that the answer writes",
    "quiet": "what is printed meanwhile",
    "verbose": "what is printed meanwhile",
    "no_color": "how it is printed",
    "plugin": "use_plugin is a call of its own",
}
OF_CALLS = {"progress": "a command prints its progress"}
COMMANDS_ALONE = {
    "export": "the studies of a store as files: dv.studies has them as values",
    "calibrate": "writes a spec file from measurements",
    "ui": "starts the explorer",
    "completion": "sets up a shell",
    "trace": "runs and imports files of traces",
}
GATHERED = ("dims", "target")  # in Python given one after the other, as *dims

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
_LONG = "a search of the explorer is stored where the server was started, and runs there"
NOT_EXPLORED = {
    "simulate": {
        "spec": "a page's state is its own spec",
        "tokens": "a page shows a step, not a run",
        "profile": "a measured cluster is uploaded as a file",
    },
    "plan": {
        "spec": "a page's state is its own spec",
        "profile": "a measured cluster is uploaded as a file",
        "top": "a page opens the best plan",
        "limit": "of alternatives that are listed, and none are",
        "fix": "the plan page edits the plan itself",
        "forbid": "the plan page edits the plan itself",
    },
    "codesign": {
        "endpoint": "as the base chip has it",
        "algorithm": "the exact search, which has a proof",
        "budget": "of searches that are not exact",
        "seed": "of searches that are not exact",
        "exhaustive": "a check of the exact search",
        "compare": "a second and a third search beside this",
        "sensitivity": "further searches beside this",
        "own_best": "further searches beside this",
        "top": "a page opens the best design",
        "store": _LONG,
        "workers": _LONG,
        "dask": _LONG,
    },
    "pareto": {
        "endpoint": "as the base chip has it",
        "top": "a front is drawn whole",
        "store": _LONG,
        "workers": _LONG,
        "dask": _LONG,
    },
}
PAGES_ALONE = {
    "model-name": "of a model that is uploaded",
    "model-text": "of a model that is uploaded",
    "cluster-name": "of a cluster that is uploaded",
    "cluster-text": "of a cluster that is uploaded",
    "design": "a cluster of a chip that a search found",
    "pin": "designs side by side",
    "kind": "which of three searches",
    "state": "what a plan is searched for, as the plan page had it",
}


@cache
def commands() -> dict[str, Any]:
    every = command()
    return {name: every.get_command(None, name) for name in every.list_commands(None)}


def arguments_of(name: str) -> dict[str, Any]:
    return {key: each.default for key, each in inspect.signature(getattr(dv, name)).parameters.items()}


TWINS = [name for name in commands() if name not in COMMANDS_ALONE]


def test_every_command_has_a_call_or_a_reason() -> None:
    without = [name for name in commands() if not callable(getattr(dv, name, None))]
    assert sorted(without) == sorted(COMMANDS_ALONE)


@pytest.mark.parametrize("name", TWINS)
def test_a_command_and_its_call_have_the_same_options(name: str) -> None:
    options = {each.name for each in commands()[name].params} - set(SHOWN)
    arguments = set(arguments_of(name)) - set(OF_CALLS)
    assert not options - arguments, f"dv.{name} lacks {sorted(options - arguments)}"
    assert not arguments - options, f"dovetail {name} lacks {sorted(arguments - options)}"


@pytest.mark.parametrize("name", TWINS)
def test_a_command_and_its_call_have_the_same_defaults(name: str) -> None:
    def value(default: Any) -> Any:
        """As Python has it: numbers are text on a command line, and nothing said is None, empty or 0."""
        return int(default) if isinstance(default, str) and default.isdigit() else default or None

    arguments = arguments_of(name)
    for option in commands()[name].params:
        if option.name in arguments and option.name not in GATHERED:
            is_required = arguments[option.name] is inspect.Parameter.empty
            assert option.required == is_required, f"{name}: {option.name} is required by one alone"
            if not is_required:
                assert value(arguments[option.name]) == value(option.default), f"{name}: {option.name}"


def test_the_tables_of_exceptions_name_nothing_that_is_not_there() -> None:
    known = {each.name for each in commands().values() for each in each.params}
    assert set(SHOWN) <= known, f"no command has {sorted(set(SHOWN) - known)}"
    for name, reasons in NOT_EXPLORED.items():
        gone = set(reasons) - set(arguments_of(name))
        assert not gone, f"dv.{name} has no {sorted(gone)}"


@pytest.mark.parametrize("name", sorted(EXPLORED))
def test_the_explorer_has_every_option_of_a_call_or_a_reason(name: str) -> None:
    arguments = set(arguments_of(name)) - set(OF_CALLS)
    missing = arguments - set(EXPLORED[name]) - set(NOT_EXPLORED[name])
    assert not missing, f"the explorer cannot be asked {sorted(missing)} of {name}"
    assert not set(EXPLORED[name]) & set(NOT_EXPLORED[name])
    assert set(EXPLORED[name]) <= arguments, f"dv.{name} lacks {sorted(set(EXPLORED[name]) - arguments)}"


def test_every_word_of_an_address_is_an_option_or_has_a_reason() -> None:
    words = {*WORDS, *(field.name for field in fields(SearchAsked))}
    explored = {word for options in EXPLORED.values() for word in options.values()}
    assert words == explored | set(PAGES_ALONE)


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
    options = {"model": "bert-base", "cluster": "dgx-h100", "devices": 8, "global_batch": 32}
    page = found_for_state(state_of(options), objective=objective)
    assert page.plan == plan_text(dv.plan(**options, objective=objective).plan)


SEARCHED: dict[str, Any] = {
    "preset": "phaze", "base": "tpuv2-like", "network": "flat", "devices": 16, "area": "500 mm2", "power": "250 W",
    "batch": 32, "seq": 256, "metric": "perf/tdp", "axes": ("throughput", "area"), "model": "bert-large",
}  # fmt: skip


class Called(Exception):
    """What a search's process called, with what."""


@pytest.mark.parametrize(
    ("call", "kind", "option"),
    [(call, kind, option) for call, kind in (("codesign", CODESIGN), ("pareto", FRONT)) for option in EXPLORED[call]],
)
def test_a_search_asks_the_call_what_its_address_says(
    call: str, kind: str, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    word = EXPLORED[call][option]
    asked = replace(SearchAsked(kind=kind), **{word: SEARCHED[word]})
    again = search_asked(parse_qsl(search_query(asked)))
    assert again == asked

    def called(spec: Any, **options: Any) -> None:
        raise Called({"spec": spec.name, **options})

    monkeypatch.setattr(search_work, call, called)
    with pytest.raises(Called) as caught:
        search_work.ended(again, "", lambda _: None)
    [given] = caught.value.args
    inspect.signature(getattr(dv, call)).bind(**given)
    assert given[option] == SEARCHED[word]
