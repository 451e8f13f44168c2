"""What a search is asked, as words of an address and back: every word is a name of a catalogue or a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any
from urllib.parse import urlencode

from dovetail.errors import InvalidInput, did_you_mean
from dovetail.explorer.answers import job_of_state
from dovetail.explorer.state import FIRST, State, check_words, whole
from dovetail.files.codesign import CodesignOverrides, load_codesign
from dovetail.files.model import model_of
from dovetail.files.uploaded import catalogue_entry
from dovetail.hardware.catalog import chips
from dovetail.registry import Registry
from dovetail.search.codesign.networks import NETWORKS
from dovetail.search.codesign.pareto import DEFAULT_AXES, checked_axes
from dovetail.search.codesign.presets import PRESETS
from dovetail.search.metrics import metrics
from dovetail.search.objectives import objectives
from dovetail.workload.models import models

PLAN, CODESIGN, FRONT = "plan", "codesign", "front"
KINDS = {PLAN: "the best plan for a cluster", CODESIGN: "the best chip and plan", FRONT: "a Pareto front of chips"}
DEFAULT_CODESIGN_MODEL = "gpt2-1.5b"
MAX_WORD = 60
COUNTED, WRITTEN = ("devices", "batch"), ("area", "power")  # what is typed into a form's fields
OTHERS = ("search", "point")  # of an address: which search, and which point of its answer is open


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchAsked:
    """One search; `state` is for a plan, the other words for chips. Empty or 0 is as the preset has it."""

    kind: str = CODESIGN
    model: str = DEFAULT_CODESIGN_MODEL
    preset: str = "cores"
    base: str = ""
    network: str = ""
    metric: str = "throughput"
    objective: str = "time"
    axes: tuple[str, ...] = DEFAULT_AXES
    devices: int = 0
    batch: int = 0
    seq: int = 0
    area: str = ""
    power: str = ""
    state: State | None = None

    def said(self) -> CodesignOverrides:
        return CodesignOverrides(
            preset=self.preset,
            base=self.base,
            network=self.network,
            devices=self.devices,
            area=self.area,
            power=self.power,
            batch=self.batch,
            seq=self.seq,
        )


_FIRST = SearchAsked()
_WORDS = tuple(one.name for one in fields(SearchAsked) if one.name not in ("axes", "state"))


def checked(asked: SearchAsked) -> SearchAsked:
    """`asked`, once every name in it is known: so none is ever taken for a file."""
    _known("kind", asked.kind, KINDS)
    if asked.kind == PLAN:
        _known("objective", asked.objective, objectives)
        return asked
    _known("model", asked.model, models)
    _known("space", asked.preset, PRESETS)
    _known("metric", asked.metric, metrics)
    if asked.base:
        _known("base chip", asked.base, chips)
    if asked.network:
        _known("network", asked.network, NETWORKS)
    return replace(asked, axes=checked_axes(asked.axes))


def check_can_start(asked: SearchAsked) -> None:
    """Raises, before any process is started, what reading the question would raise in it."""
    if asked.kind == PLAN:
        job_of_state(asked.state or FIRST)
    else:
        load_codesign(model_of(catalogue_entry(checked(asked).model), asked.seq), asked.said())


def asked_by_form(asked: SearchAsked, form: Mapping[str, str]) -> SearchAsked:
    """`asked` with the words that stand in a form's fields, whether or not they were told before."""
    counts = {name: whole(name, form[name]) for name in COUNTED if name in form}
    texts = {name: form[name].strip()[:MAX_WORD] for name in WRITTEN if name in form}
    return replace(asked, **counts, **texts)  # type: ignore[arg-type]


def _known(what: str, name: str, every: Mapping[str, Any] | Registry[Any]) -> None:
    names = every.names() if isinstance(every, Registry) else tuple(every)
    if name not in names:
        raise InvalidInput(f"no {what} is named {name[:MAX_WORD]!r}{did_you_mean(name[:MAX_WORD], names)}")


def search_query(asked: SearchAsked) -> str:
    """The words of an address that ask the same, those left out that are as usual; not those of a plan's state."""
    names = ("kind", "objective") if asked.kind == PLAN else _WORDS
    words = [(name, str(getattr(asked, name))) for name in names if getattr(asked, name) != getattr(_FIRST, name)]
    axes = [("axes", ",".join(asked.axes))] if asked.kind == FRONT and asked.axes != DEFAULT_AXES else []
    return urlencode([*words, *axes])


def search_asked(query: Sequence[tuple[str, str]]) -> SearchAsked:
    """What an address asks; raises in one line where it asks for nothing there is."""
    said = dict(query)
    if said.get("kind") != PLAN:
        check_words(query, (*_WORDS, "axes", *OTHERS))
    counts = {name: whole(name, said[name]) for name in ("devices", "batch", "seq") if name in said}
    words = {name: said[name][:MAX_WORD] for name in _WORDS if name in said and name not in ("devices", "batch", "seq")}
    axes = {"axes": tuple(filter(None, said["axes"].split(",")))} if said.get("axes") else {}
    return checked(SearchAsked(**words, **counts, **axes))  # type: ignore[arg-type]
