"""A call and a command have the same words: arguments and options, their defaults, and what they answer."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

import dovetail as dv
from dovetail import api
from dovetail.cli.capture import capture
from dovetail.cli.codesign import codesign
from dovetail.cli.launch import launch
from dovetail.cli.mine import mine
from dovetail.cli.network import network
from dovetail.cli.op import op
from dovetail.cli.options import add_options
from dovetail.cli.pareto import pareto
from dovetail.cli.plan import plan
from dovetail.cli.reproduce import reproduce
from dovetail.cli.schedule import schedule
from dovetail.cli.show import show
from dovetail.cli.simulate import simulate
from dovetail.cli.studies import studies
from dovetail.cli.validate import validate

COMMANDS: dict[str, Callable[..., None]] = {
    "capture": capture, "codesign": codesign, "launch": launch, "mine": mine, "network": network, "op": op,
    "pareto": pareto, "plan": plan, "reproduce": reproduce, "schedule": schedule, "show": show, "simulate": simulate,
    "studies": studies, "validate": validate,
}  # fmt: skip
# What a command writes is a method of the answer, and how it shows it the caller's business.
OF_COMMANDS = {
    "as_json", "html", "perfetto", "ranks", "csv", "svg", "plot", "astra_sim", "plan_file", "output", "force",
    "markdown", "spec_file", "figures", "rescue", "out",
}  # fmt: skip
OF_CALLS = {"progress"}
NUMBER = re.compile(r"\d+(\.\d+)?")
BY_PLACE = {"capture": 2}  # a module and what it is called with, as PyTorch's own tools have them


def arguments_of(call: Callable[..., Any]) -> dict[str, Any]:
    add_options(call)
    return {name: each.default for name, each in inspect.signature(call).parameters.items()}


def as_value(default: Any) -> Any:
    """A default of the command line as Python has it: numbers are text there, and nothing may be said as None."""
    return float(default) if isinstance(default, str) and NUMBER.fullmatch(default) else default or None


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_call_has_the_options_of_its_command_by_the_same_words_and_defaults(name):
    typed, called = arguments_of(COMMANDS[name]), arguments_of(getattr(api, name))
    typed = {option: value for option, value in typed.items() if not option.startswith("old_")}
    assert set(typed) - (OF_COMMANDS - set(called)) == set(called) - OF_CALLS
    gathered = {"dims", "target"}  # one after the other, as *dims
    for option in (set(typed) & set(called)) - gathered:
        assert as_value(called[option]) == as_value(typed[option]), option


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_call_takes_one_thing_by_place_and_the_rest_by_name(name):
    kinds = [each.kind for each in inspect.signature(getattr(api, name)).parameters.values()]
    assert kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD) <= BY_PLACE.get(name, 1)
    assert all(kind is not inspect.Parameter.POSITIONAL_ONLY for kind in kinds)


@pytest.mark.parametrize("name", sorted(set(dv.__all__) - {"__version__"}))
def test_every_name_says_what_it_is(name):
    assert len((getattr(api, name).__doc__ or "").split(".")[0]) > 10, name
