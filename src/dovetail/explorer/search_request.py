"""What a search is asked, as words of an address and back: every word is a name of a catalogue or a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any
from urllib.parse import urlencode

from dovetail.api.requests.option import Parameter, Request, form_options
from dovetail.api.requests.searches import CodesignRequest, ParetoRequest
from dovetail.errors import InvalidInput, did_you_mean
from dovetail.explorer.answers import job_of_state
from dovetail.explorer.state import FIRST, State, check_keys, read_options, whole
from dovetail.files.codesign import CodesignOverrides, load_codesign
from dovetail.files.model import model_of
from dovetail.files.uploaded import catalogue_entry
from dovetail.hardware.catalog import chips
from dovetail.registry import Registry
from dovetail.search.codesign.networks import networks
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
CALLS: dict[str, type[Request]] = {CODESIGN: CodesignRequest, FRONT: ParetoRequest}
LABELS = {name: each.option.form for name, each in form_options(*CALLS.values()).items()}  # of the form, by address
# Options that the form offers and no control of its own is made for: a field each.
OPTIONS = form_options(*CALLS.values(), but=(*COUNTED, *WRITTEN, "preset", "base", "network", "metric", "axes"))
OTHERS = ("search", "point")  # of an address: which search, and which point of its answer is open


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
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
    options: Mapping[str, str] = field(default_factory=dict)
    state: State | None = None

    @property
    def request(self) -> CodesignRequest | ParetoRequest:
        """The same as the call has it, but for the model, which is no file that an address may name."""
        given = {name: getattr(self, name) for name in ("preset", "base", "network", "area", "power")}
        given |= {name: getattr(self, name) or None for name in ("devices", "batch", "seq")}
        read = {OPTIONS[name].name: OPTIONS[name].parse(text) for name, text in self.options.items()}
        if self.kind == FRONT:
            return ParetoRequest(axes=self.axes, **given).changed(**read)
        return CodesignRequest(metric=self.metric, **given).changed(**read)


_FIRST = SearchRequest()
_LABELS = tuple(one.name for one in fields(SearchRequest) if one.name not in ("axes", "options", "state"))


def checked(asked: SearchRequest) -> SearchRequest:
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
        _known("network", asked.network, networks)
    return replace(asked, axes=checked_axes(asked.axes))


def check_can_start(asked: SearchRequest) -> None:
    """Raises, before any process is started, what reading the question would raise in it."""
    if asked.kind == PLAN:
        job_of_state(asked.state or FIRST)
    else:
        overrides = asked.request.part(CodesignOverrides)
        load_codesign(model_of(catalogue_entry(checked(asked).model), asked.seq), overrides)


def search_request_of_form(asked: SearchRequest, form: Mapping[str, str]) -> SearchRequest:
    """`asked` with the words that stand in a form's fields, whether or not they were told before."""
    counts = {name: whole(name, form[name]) for name in COUNTED if name in form}
    texts = {name: form[name].strip()[:MAX_WORD] for name in WRITTEN if name in form}
    options = read_options({**asked.options, **form}, options_of(asked.kind))
    return replace(asked, **counts, **texts, options=options)  # type: ignore[arg-type]


def example_of(name: str) -> str:
    """What stands in the empty field of an option."""
    return form_options(*CALLS.values())[name].option.placeholder


def options_of(kind: str) -> dict[str, Parameter]:
    """Options that a search of this kind has."""
    own = {each.address for each in CALLS[kind].parameters} if kind in CALLS else set()
    return {name: each for name, each in OPTIONS.items() if name in own}


def _known(what: str, name: str, every: Mapping[str, Any] | Registry[Any]) -> None:
    names = every.names() if isinstance(every, Registry) else tuple(every)
    if name not in names:
        raise InvalidInput(f"no {what} is named {name[:MAX_WORD]!r}{did_you_mean(name[:MAX_WORD], names)}")


def search_query(asked: SearchRequest) -> str:
    """The words of an address that ask the same, those left out that are as usual; not those of a plan's state."""
    names = ("kind", "objective") if asked.kind == PLAN else _LABELS
    words = [(name, str(getattr(asked, name))) for name in names if getattr(asked, name) != getattr(_FIRST, name)]
    axes = [("axes", ",".join(asked.axes))] if asked.kind == FRONT and asked.axes != DEFAULT_AXES else []
    return urlencode([*words, *axes, *sorted(asked.options.items())])


def search_request(query: Sequence[tuple[str, str]]) -> SearchRequest:
    """What an address asks; raises in one line where it asks for nothing there is."""
    said = dict(query)
    if said.get("kind") != PLAN:
        check_keys(query, (*_LABELS, "axes", *OPTIONS, *OTHERS))
    counts = {name: whole(name, said[name]) for name in ("devices", "batch", "seq") if name in said}
    words = {
        name: said[name][:MAX_WORD] for name in _LABELS if name in said and name not in ("devices", "batch", "seq")
    }
    axes = {"axes": tuple(filter(None, said["axes"].split(",")))} if said.get("axes") else {}
    options = read_options(said, options_of(words.get("kind", CODESIGN)))
    return checked(SearchRequest(**words, **counts, **axes, options=options))  # type: ignore[arg-type]
