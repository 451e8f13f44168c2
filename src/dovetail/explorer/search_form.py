"""The form of the search page: what kind of search, and its words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

from nicegui import ui

from dovetail.explorer.catalogue import chip_groups, model_groups, named
from dovetail.explorer.elements import box, choice_field, text_field, words
from dovetail.explorer.frame import PageFrame
from dovetail.explorer.search_request import (
    CODESIGN,
    COUNTED,
    FRONT,
    KINDS,
    LABELS,
    OPTIONS,
    PLAN,
    WRITTEN,
    SearchRequest,
    checked,
    example_of,
    options_of,
    search_request_of_form,
)
from dovetail.explorer.state import FIRST
from dovetail.search.codesign.networks import networks as network_kinds
from dovetail.search.codesign.presets import PRESETS
from dovetail.search.metrics import metrics
from dovetail.search.objectives import objectives

# All that stands in the fields at this moment: what is started is what is read there.
FIELDS = f"""() => emit(Object.fromEntries({[*COUNTED, *WRITTEN, *OPTIONS]}
  .map((name) => [name, document.getElementById(name)?.value]).filter(([, value]) => value !== undefined)))"""
OPEN = {"devices": "from the space", "batch": "default"}  # what a field that is left empty stands for
AXES = (
    ("throughput,area,power,cost", "throughput, area, power and cost"),
    ("throughput,area", "throughput and area"),
    ("throughput,power", "throughput and power"),
    ("throughput,cost", "throughput and cost"),
    ("throughput,energy", "throughput and energy"),
)


class Asker(Protocol):
    """Who is asked by the form."""

    asked: SearchRequest
    frame: PageFrame

    def ask(self, asked: SearchRequest) -> None: ...


class SearchForm:
    """Controls that ask for a search; which there are depends on its kind."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        words("What to search", "h2")
        kinds = {"": [(kind, said) for kind, said in KINDS.items()]}
        choice_field("kind", "Look for", kinds, asker.asked.kind, self._choose("kind"))
        self._rest = ui.element("div")
        self._show()

    def _show(self) -> None:
        asked = self._asker.asked
        self._rest.clear()
        with self._rest:
            if asked.kind == PLAN:
                self._plan(asked)
            else:
                self._chips(asked)

    def _plan(self, asked: SearchRequest) -> None:
        state = asked.state or FIRST
        model = state.model_file.name if state.model_file else state.model
        cluster = state.cluster_file.name if state.cluster_file else state.cluster
        size = f" x {state.devices:,}" if state.devices else ""
        words(f"For {model} on {cluster}{size}, as on the Plan page. Change it there.", "p", "note")
        options = {"": named(objectives.names())}
        choice_field("objective", "Best by", options, asked.objective, self._choose("objective"))

    def _chips(self, asked: SearchRequest) -> None:
        choice_field("model", "Model", model_groups(), asked.model, self._choose("model"))
        spaces = {"": [(name, f"{name}: {preset.summary}") for name, preset in PRESETS.items()]}
        choice_field("preset", LABELS["preset"], spaces, asked.preset, self._choose("preset"))
        if asked.kind == CODESIGN:
            choice_field("metric", LABELS["metric"], {"": named(metrics.names())}, asked.metric, self._choose("metric"))
        if asked.kind == FRONT:
            choice_field("axes", LABELS["axes"], {"": list(AXES)}, ",".join(asked.axes), self._choose_axes)
        networks = {"": [("", "from the space"), *named(network_kinds.names())]}
        choice_field("network", LABELS["network"], networks, asked.network, self._choose("network"))
        choice_field("base", LABELS["base"], chip_groups(), asked.base, self._choose("base"))
        with box("pair"):
            for name in COUNTED:
                text = str(getattr(asked, name) or "")
                text_field(name, LABELS[name], text, self._write(name), inputmode="numeric", placeholder=OPEN[name])
            for name in WRITTEN:
                text_field(name, LABELS[name], getattr(asked, name), self._write(name), placeholder=example_of(name))
            for name in options_of(asked.kind):
                text = asked.options.get(name, "")
                text_field(name, LABELS[name], text, self._write(name), placeholder=example_of(name))

    def _write(self, name: str) -> Any:
        def write(text: str) -> None:
            with self._asker.frame.refusing():
                self._asker.ask(search_request_of_form(self._asker.asked, {name: text}))

        return write

    def _choose(self, name: str) -> Any:
        def choose(value: str) -> None:
            with self._asker.frame.refusing():
                changes: dict[str, Any] = {name: value.strip()}
                self._asker.ask(checked(replace(self._asker.asked, **changes)))
                if name == "kind":
                    self._show()

        return choose

    def _choose_axes(self, value: str) -> None:
        with self._asker.frame.refusing():
            self._asker.ask(checked(replace(self._asker.asked, axes=tuple(value.split(",")))))
