"""Every call is the one source of its options: what was forgotten of one is named here."""

# Annotations are evaluated here: the options in them are what rules look at.
import importlib
import inspect
import pkgutil
from typing import Annotated, Any

import pytest

from dovetail import api
from dovetail.api import requests
from dovetail.api.jobs import JobRequest
from dovetail.api.requests.evidence import ValidateRequest
from dovetail.api.requests.jobs import PlanRequest
from dovetail.api.requests.option import COUNT, EMPTY, Option, Parameter, Request, parameters_of
from dovetail.api.requests.searches import AXES, EXACT, ParetoRequest
from dovetail.api.validated import NUM_WORST
from dovetail.cli.commands import command
from dovetail.files.codesign import CodesignOverrides
from dovetail.files.mining import MineOverrides
from dovetail.files.mining_stages import StageOverrides
from dovetail.search.algorithms import algorithms
from dovetail.search.codesign.pareto import DEFAULT_AXES
from dovetail.search.planners.planner import NUM_REFINED
from tests.request_rules import speechless, unknown, unoffered, unread
from tests.source_tree import source_modules

for module in pkgutil.iter_modules(requests.__path__):
    importlib.import_module(f"{requests.__name__}.{module.name}")
REQUESTS = {
    request.function.__name__: request
    for request in Request.__subclasses__()
    if request.__module__.startswith(requests.__name__)
}
PARTS = {part.__name__: part for part in (JobRequest, MineOverrides, StageOverrides, CodesignOverrides)}
NO_OPTIONS = {"progress"}  # who is told of it is the caller's business
# What a command writes is a method of the answer, and how it shows it the caller's business.
OF_COMMANDS = {
    "as_json", "html", "perfetto", "ranks", "csv", "plot", "astra_sim", "plan_file", "force", "markdown", "spec_file",
    "figures", "rescue", "out", "help", "plugin", "quiet", "verbose", "no_color",
}  # fmt: skip
MODULES = source_modules()


def calls() -> list[str]:
    """Names of the API that are asked something."""
    plain = {"use_plugin", "operator_kinds", "model_version", "load", "save_chart"}
    named = [name for name in api.__all__ if inspect.isfunction(getattr(api, name)) and name not in plain]
    return [name for name in named if inspect.signature(getattr(api, name)).parameters]


@pytest.mark.parametrize("name", calls())
def test_every_call_has_its_request_and_every_argument_is_an_option(name):
    assert name in REQUESTS, f"write class {name.capitalize()}Request(Request, of={name})"
    called = set(inspect.signature(getattr(api, name)).parameters)
    assert called - NO_OPTIONS == {each.name for each in REQUESTS[name].parameters}


@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_every_option_has_help_and_is_read_and_nothing_else_is(name):
    request = REQUESTS[name]
    told = [*speechless(request), *unread(request, PARTS, MODULES), *unknown(request, MODULES)]
    assert not told, "\n" + "\n".join(told)


@pytest.mark.parametrize("name", ["plan", "codesign", "pareto"])
def test_a_page_of_the_explorer_offers_every_option_or_says_why_not(name):
    told = unoffered(REQUESTS[name])
    assert not told, "\n" + "\n".join(told)


@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_a_command_has_the_options_of_its_call_and_what_it_writes_beside(name):
    typed = {each.name for each in command(name).commands[name].params if not getattr(each, "hidden", False)}
    assert typed - OF_COMMANDS == {each.name for each in REQUESTS[name].parameters} - OF_COMMANDS


def sample(parameter: Parameter) -> tuple[Any, Any]:
    """A value as it is typed, and as a program gives it."""
    kind = parameter.option.kind
    if kind.is_flag:
        return True, True
    if kind.is_repeated:
        return ["one", "two"], ("one", "two")
    text = parameter.example
    try:
        value = parameter.parse(text)
    except api.InvalidInput as error:
        raise AssertionError(
            f"{parameter.name} cannot read its own example: {error}; give its Kind an example"
        ) from None
    try:
        return text, value if parameter.check(value) == value else text
    except api.InvalidInput:  # a quantity, which programs give as text too
        return text, text


@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_what_is_typed_and_what_a_program_gives_ask_the_same(name):
    request = REQUESTS[name]
    samples = {each.name: sample(each) for each in request.parameters}
    typed = request.parsed({name: text for name, (text, _) in samples.items()})
    assert typed == request(**{name: value for name, (_, value) in samples.items()})
    assert typed != request.parsed({name: text for name, (text, _) in list(samples.items())[:1]})


@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_what_is_left_out_has_the_default_of_the_signature(name):
    request = REQUESTS[name]
    must = {each.name: "x" for each in request.parameters if each.default is EMPTY}
    assert request.parsed(must) == request(**must)
    assert request(**must).given == must


def test_the_words_of_a_request_ask_for_it_again():
    request = PlanRequest(model="llama3-8b", devices=8, fix=("tp=8", "pp=1"), objective="tokens/J", limit=5)
    words = request.words(PlanRequest)
    assert words == "--model llama3-8b --devices 8 --objective tokens/J --limit 5 --fix tp=8 --fix pp=1"
    with command("plan").make_context("dovetail", ["plan", *words.split()]) as context:
        found = command("plan").commands["plan"].make_context("plan", words.split(), parent=context)
    assert PlanRequest.parsed({each.name: found.params[each.name] for each in PlanRequest.parameters}) == request


def test_defaults_that_may_not_be_imported_are_those_of_the_layers_below():
    assert PlanRequest().limit == NUM_REFINED
    assert ParetoRequest().axes == tuple(AXES.split(",")) == DEFAULT_AXES
    assert ValidateRequest().worst == NUM_WORST
    assert EXACT in algorithms


# --- each rule can fail -------------------------------------------------------------------------------------------


def bake(
    cake: Annotated[str, Option("A cake.", "NAME")],
    *,
    layers: Annotated[int, Option("How many layers it has.", "N", COUNT)] = 1,
    icing: Annotated[str, Option("", "NAME")] = "",
) -> None:
    """Bakes."""


class BakeRequest(Request, of=bake):
    """What is baked."""


def written_as_text(cake: "Annotated[str, Option('A cake.')]") -> None:
    """Bakes."""


def test_options_that_are_left_as_text_are_refused_and_not_lost():
    with pytest.raises(TypeError, match="cake of written_as_text is text"):
        parameters_of(written_as_text)


def test_a_rule_names_what_was_forgotten(tmp_path):
    package = tmp_path / "dovetail"
    package.mkdir()
    text = "def baked(request: BakeRequest) -> None:\n    return request.cake, request.sugar\n"
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "oven.py").write_text(text, encoding="utf-8")
    modules = source_modules(tmp_path)
    assert [line.partition(",")[0] for line in unread(BakeRequest, {}, modules)] == [
        "BakeRequest has layers",
        "BakeRequest has icing",
    ]
    assert unknown(BakeRequest, modules) == ["dovetail/oven.py:2: BakeRequest has no sugar"]
    assert [line.partition(":")[0] for line in speechless(BakeRequest)] == ["bake says nothing of icing"]
    assert [line.partition(":")[0] for line in unoffered(BakeRequest)][-1] == "the page of bake ignores icing"


def test_a_request_is_frozen_and_knows_its_options_alone():
    request = PlanRequest(model="x")
    with pytest.raises(AttributeError):
        request.model = "y"
    with pytest.raises(TypeError, match="PlanRequest has no colour"):
        PlanRequest(colour="red")
    assert hash(request) == hash(PlanRequest(model="x"))
    assert request.changed(devices=4) == PlanRequest(model="x", devices=4)
