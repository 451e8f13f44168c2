"""A page's state: what is planned, on what, and what is changed of it; the same as words of an address and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

from dovetail.accuracy.evidence import GIVEN, Selection
from dovetail.api.requests.jobs import PlanRequest
from dovetail.api.requests.option import Parameter, form_options
from dovetail.errors import DovetailError, InvalidInput, did_you_mean
from dovetail.explorer.packed import packed, unpacked
from dovetail.files.schema import MAX_WHOLE
from dovetail.files.uploaded import upload_name
from dovetail.hardware.altered import MOST_TIMES
from dovetail.search.planners.ranking import NUM_COMPARED

DEFAULT_MODEL, DEFAULT_CLUSTER, DEFAULT_DEVICES = "llama3-8b", "dgx-h100", 64
TIMES = "x-"  # before a figure's key
DEVICES = "devices"  # among the factors: how many there are, over how many are asked for
PIN = "pin"
REFERENCE = "ref"
CHOSEN = "chosen"  # what a search chose the plan among: how many were close, and what that adds to the interval
MAX_PINS = 6  # designs whose columns can still be read
MAX_DIGITS = 12
DIGITS = 6  # of a factor
MAX_WORD = 60
MAX_NAME = 40
MOST_SHIFT_FRAC = 10.0  # style: a bound; no error of a pair is near it
_COUNTS = ("devices", "batch", "seq")
_FILES = tuple(f"{kind}-{part}" for kind in ("model", "cluster") for part in ("name", "text"))
LABELS = {name: each.option.form for name, each in form_options(PlanRequest).items()}  # of the form, by address
# Options of `plan` that the form offers and no control of its own is made for: a field each.
OPTIONS = form_options(PlanRequest, but=(*_COUNTS, "compute"))
QUERY_KEYS = ("model", "cluster", *_FILES, "design", *_COUNTS, "compute", *OPTIONS, "plan", CHOSEN, "name")
OF_EVERY_PAGE = ("theme", "token")


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file that was sent: its name to show, and its text."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What is asked for. A model or cluster is an entry of a catalogue, or was uploaded; `design` is a point of a
    search: the chip it builds on, the network, and its knobs. `options` are words for those of `OPTIONS` that were
    said. `plan` is the text of the plan that is looked at, empty where the best is wanted, and `selection` is what a
    search chose it among; `factors` are figures of the hardware over their own, by key, devices among them. `name` is
    what its user calls it.
    """

    model: str = DEFAULT_MODEL
    model_file: Upload | None = None
    cluster: str = DEFAULT_CLUSTER
    cluster_file: Upload | None = None
    design: str = ""
    devices: int = 0
    batch: int = 0
    seq: int = 0
    compute: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    plan: str = ""
    selection: Selection = GIVEN
    factors: Mapping[str, float] = field(default_factory=dict)
    name: str = ""

    @property
    def key(self) -> str:
        """The same for all states that have the same answer, whatever they are called."""
        return query_of(replace(self, name=""))

    def named(self, name: str) -> State:
        return replace(self, name=" ".join(name.split())[:MAX_NAME])

    def with_plan(self, text: str, selection: Selection = GIVEN) -> State:
        return replace(self, plan=text, selection=selection)

    def asking(self, **changes: object) -> State:
        """The same with other words, and so with the best plan for them."""
        return replace(self, plan="", selection=GIVEN, factors={}, name="", **changes)  # type: ignore[arg-type]

    def with_option(self, name: str, text: str) -> State:
        """The same with other words for an option, and so with the best plan for them."""
        return self.asking(options=read_options({**self.options, name: text}, OPTIONS))

    @property
    def requested(self) -> dict[str, Any]:
        """The options as a request has them, by parameter."""
        return {OPTIONS[name].name: OPTIONS[name].parse(text) for name, text in self.options.items()}

    def with_factor(self, key: str, factor: float) -> State:
        """The same plan, one figure of the hardware changed."""
        rest = {own: value for own, value in self.factors.items() if own != key}
        rounded = float(f"{factor:.{DIGITS}g}")
        return replace(self, factors={**rest, key: rounded} if rounded != 1 else rest)


FIRST = State(devices=DEFAULT_DEVICES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """All that a tab of a user holds: what is looked at, what figures are compared with, and designs that were kept."""

    state: State = FIRST
    reference: tuple[State, ...] = ()  # one at most
    pins: tuple[State, ...] = ()

    @property
    def query(self) -> str:
        return query_of(self.state, self.pins, self.reference)


def query_of(state: State, pins: Iterable[State] = (), reference: Iterable[State] = ()) -> str:
    """The words of an address that give `state`, and pinned states, again."""
    others = [(REFERENCE, urlencode(_words(own))) for own in reference]
    return urlencode([*_words(state), *others, *((PIN, urlencode(_words(pin))) for pin in pins)])


def _words(state: State) -> list[tuple[str, str]]:
    words = []
    for name, file in (("model", state.model_file), ("cluster", state.cluster_file)):
        if name == "cluster" and state.design:
            words.append(("design", state.design))
        elif file is None:
            words.append((name, getattr(state, name)))
        else:
            words += [(f"{name}-name", file.name), (f"{name}-text", packed(file.text))]
    words += [(name, str(getattr(state, name))) for name in _COUNTS if getattr(state, name)]
    if state.compute:
        words.append(("compute", state.compute))
    if state.name:
        words.append(("name", state.name))
    words += sorted(state.options.items())
    if state.plan:
        words.append(("plan", packed(state.plan)))
    if state.plan and state.selection != GIVEN:
        words.append((CHOSEN, f"{state.selection.num_near}-{state.selection.shift_frac:.{DIGITS}g}"))
    return [*words, *((f"{TIMES}{key}", f"{value:.{DIGITS}g}") for key, value in sorted(state.factors.items()))]


def check_keys(query: Iterable[tuple[str, str]], known: Sequence[str]) -> None:
    """Raises at a word that no page of this kind takes: left out in silence, it would seem to have been heard."""
    for name, _ in query:
        if name not in known and name not in OF_EVERY_PAGE and not (name.startswith(TIMES) and "plan" in known):
            like = did_you_mean(name[:MAX_WORD], known)
            raise InvalidInput(f"nothing in an address of this page is called {name[:MAX_WORD]!r}{like}")


def session_of(query: Sequence[tuple[str, str]], own: Sequence[str] = ()) -> Session:
    """The session that an address gives; raises in one line where it gives none. `own` are words of this page alone."""
    pins = [value for name, value in query if name == PIN]
    references = [value for name, value in query if name == REFERENCE]
    if len(pins) > MAX_PINS:
        raise InvalidInput(f"at most {MAX_PINS} designs are kept at once; got {len(pins)}")
    if len(references) > 1:
        raise InvalidInput(f"figures are compared with one reference; got {len(references)}")
    within = [parse_qsl(words) for words in (*pins, *references)]
    check_keys(query, (*QUERY_KEYS, PIN, REFERENCE, *own))
    for words in within:
        check_keys(words, QUERY_KEYS)
    state = _state([(name, value) for name, value in query if name not in (PIN, REFERENCE, *own)])
    kept = tuple(map(_state, within))
    return Session(state=state, pins=kept[: len(pins)], reference=kept[len(pins) :])


def states_of(query: Sequence[tuple[str, str]]) -> tuple[State, tuple[State, ...]]:
    """The state that an address gives, and those pinned in it; raises in one line where it gives none."""
    found = session_of(query)
    return found.state, found.pins


def understood(query: Sequence[tuple[str, str]]) -> State:
    """What can be made of an address that gives no state: its words but those that are wrong by themselves."""
    said = dict(query)
    kept = []
    for name, value in query:
        beside = [(f"{kind}-name", said.get(f"{kind}-name", "")) for kind in ("model", "cluster") if kind in name]
        try:
            states_of([*(beside if name in _FILES else ()), (name, value)])
        except DovetailError:
            continue
        if name not in (PIN, REFERENCE):
            kept.append((name, value))
    return _state(kept)


def _state(words: Sequence[tuple[str, str]]) -> State:
    said = dict(words)
    state = State(
        model=said.get("model", DEFAULT_MODEL),
        model_file=_upload(said, "model"),
        cluster=said.get("cluster", DEFAULT_CLUSTER),
        cluster_file=_upload(said, "cluster"),
        design=said.get("design", ""),
        compute=said.get("compute", ""),
        options=read_options(said, OPTIONS),
        plan=unpacked(said["plan"]) if said.get("plan") else "",
        selection=_selection(said[CHOSEN]) if said.get("plan") and said.get(CHOSEN) else GIVEN,
        name=" ".join(said.get("name", "").split())[:MAX_NAME],
        factors={name.removeprefix(TIMES): _factor(value) for name, value in words if name.startswith(TIMES)},
        **{name: whole(name, said[name]) for name in _COUNTS if name in said},
    )
    is_first = not {"model", "model-text", "cluster", "cluster-text", "design"} & said.keys()
    return replace(state, devices=state.devices or DEFAULT_DEVICES) if is_first else state


def _upload(said: Mapping[str, str], name: str) -> Upload | None:
    if f"{name}-text" not in said:
        return None
    return Upload(name=upload_name(said.get(f"{name}-name", f"{name}.yaml")), text=unpacked(said[f"{name}-text"]))


def read_options(said: Mapping[str, str], known: Mapping[str, Parameter]) -> dict[str, str]:
    """Those of `known` that are said, each found to be readable; empty words are as if nothing was."""
    found = {name: said[name].strip()[:MAX_WORD] for name in known if name in said}
    for name, text in found.items():
        if text:
            known[name].parse(text)
    return {name: text for name, text in found.items() if text}


def whole(name: str, text: str) -> int:
    """A count that somebody wrote; 0 where nothing was."""
    text = text.strip().replace(",", "")
    if not text:
        return 0
    if not text.isascii() or not text.isdecimal() or len(text) > MAX_DIGITS or not 1 <= int(text) <= MAX_WHOLE:
        raise InvalidInput(f"{name} is a whole number from 1 to {MAX_WHOLE:,}; got {text[:40]!r}")
    return int(text)


def _selection(text: str) -> Selection:
    """What a search chose a plan among, as an address has it."""
    count, _, shift = text.partition("-")
    try:
        found = Selection(num_near=whole(CHOSEN, count), shift_frac=float(shift) if len(shift) <= MAX_DIGITS else -1.0)
    except ValueError:
        found = GIVEN
    if not (1 < found.num_near <= NUM_COMPARED and 0 <= found.shift_frac <= MOST_SHIFT_FRAC):
        raise InvalidInput(
            f"chosen is how many plans were close and what that adds, such as 10-0.13; got {text[:40]!r}"
        )
    return found


def _factor(text: str) -> float:
    try:
        value = float(text) if len(text) <= MAX_DIGITS else 0.0
    except ValueError:
        value = 0.0
    if not 1 / MOST_TIMES <= value <= MOST_TIMES:
        raise InvalidInput(f"a figure is {1 / MOST_TIMES:g} to {MOST_TIMES:g} times its own; got {text[:40]!r}")
    return value
