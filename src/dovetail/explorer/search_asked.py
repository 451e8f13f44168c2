"""What a search is asked, as words of an address and back: every word is a name of a catalogue or a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any
from urllib.parse import urlencode

from dovetail.errors import InvalidInput, did_you_mean
from dovetail.explorer.state import State, whole
from dovetail.files.codesign import CodesignSaid
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

    def said(self) -> CodesignSaid:
        return CodesignSaid(
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
    counts = {name: whole(name, said[name]) for name in ("devices", "batch", "seq") if name in said}
    words = {name: said[name][:MAX_WORD] for name in _WORDS if name in said and name not in ("devices", "batch", "seq")}
    axes = {"axes": tuple(filter(None, said["axes"].split(",")))} if said.get("axes") else {}
    return checked(SearchAsked(**words, **counts, **axes))  # type: ignore[arg-type]
