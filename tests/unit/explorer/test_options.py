"""What a form offers reaches the request of its call, from a field or from an address, and is in its address again."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

import pytest

from dovetail.api.jobs import JobRequest
from dovetail.api.requests.jobs import PlanRequest
from dovetail.api.requests.option import Parameter, form_options
from dovetail.errors import InvalidInput
from dovetail.explorer import answers
from dovetail.explorer.search_request import CALLS, search_query, search_request, search_request_of_form
from dovetail.explorer.state import OPTIONS, query_of, states_of
from dovetail.hardware.cluster import Cluster

# Options that are chosen from a list, not typed: a choice of each.
CHOSEN = {
    "compute": "fp16", "preset": "chip", "base": "tpuv4-like", "network": "flat", "metric": "tokens/J",
    "axes": "throughput,energy",
}  # fmt: skip
EXAMPLES = {name: CHOSEN.get(name) or each.example for name, each in form_options(PlanRequest, *CALLS.values()).items()}
SMALL = [("model", "gpt2-345m"), ("cluster", "dgx-h100")]


class Reached(Exception):
    pass


def is_refused(parameter: Parameter, text: str) -> bool:
    try:
        parameter.parse(text)
    except InvalidInput:
        return True
    return False


def asked_of_planner(query: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch) -> tuple[JobRequest, PlanRequest]:
    """What the plan page asks the planner for."""
    reached: list[Any] = []

    def best_plan(*asked: Any) -> None:
        reached.extend(asked)
        raise Reached

    monkeypatch.setattr(answers, "best_plan", best_plan)
    state = states_of(query)[0]
    assert states_of(parse_qsl(query_of(state)))[0] == state
    with pytest.raises(Reached):
        answers.found_for_state(state)
    return reached[0], reached[1]


@pytest.mark.parametrize("name", sorted(form_options(PlanRequest)))
def test_an_option_of_the_plan_page_reaches_the_planner(name, monkeypatch):
    parameter = form_options(PlanRequest)[name]
    job, plan = asked_of_planner([*SMALL, (name, EXAMPLES[name])], monkeypatch)
    wanted = parameter.parse(EXAMPLES[name])
    if name == "devices":  # the cluster is built with them
        assert isinstance(job.cluster, Cluster)
        assert job.cluster.num_devices == wanted
    else:
        assert wanted in (getattr(job, parameter.name, ""), getattr(plan, parameter.name))


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_what_is_typed_into_a_field_is_read_at_once(name):
    state = states_of(SMALL)[0].with_option(name, EXAMPLES[name])
    assert state.options == {name: EXAMPLES[name]}
    assert not state.with_option(name, " ").options
    if is_refused(OPTIONS[name], "no such thing"):
        with pytest.raises(InvalidInput):
            state.with_option(name, "no such thing")


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, call in CALLS.items() for name in sorted(form_options(call))]
)
def test_an_option_of_the_search_page_reaches_the_search(kind, name):
    parameter = form_options(CALLS[kind])[name]
    asked = search_request([("kind", kind), (name, EXAMPLES[name])])
    assert search_request(parse_qsl(search_query(asked))) == asked
    value = parameter.parse(EXAMPLES[name])
    assert getattr(asked.request, parameter.name) == value
    typed = search_request_of_form(search_request([("kind", kind)]), {name: EXAMPLES[name]})
    if name not in CHOSEN:
        assert getattr(typed.request, parameter.name) == value
