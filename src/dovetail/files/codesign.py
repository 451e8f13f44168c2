"""The question of a joint search, read from a spec: models, a chip to build on, what may be chosen, and limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dovetail.errors import InvalidInput, did_you_mean
from dovetail.files.built_on import sized_workload, template_base, workload_entries
from dovetail.files.codesign_budget import BASE, Limits, limits_of_request
from dovetail.files.entry import Entry, described
from dovetail.files.job import check_dtype, countable, spec_name
from dovetail.files.plan_space import space_of
from dovetail.files.python_values import ModelHolder, ModelLike, SpecLike, as_model, as_spec
from dovetail.files.schema import MAX_LIST, MAX_WHOLE, Number, Shape, Text, checked
from dovetail.files.value_formats import Words
from dovetail.hardware.chip import Chip
from dovetail.hardware.endpoints import endpoint_coded, endpoint_codes, endpoint_named
from dovetail.hardware.template import dataflow_codes
from dovetail.search.codesign.networks import can_be_joined, network_kind, own_network
from dovetail.search.codesign.presets import PRESETS, Preset
from dovetail.search.codesign.question import Budget, Case, Rule, base_budget, system_space
from dovetail.search.codesign.system_labels import DERIVED
from dovetail.search.codesign.systems import KNOBS, LEAST, check_knobs, system_of
from dovetail.search.planners.constraints import Constraint, are_stages_even, space_under
from dovetail.search.planners.plan_space import PlanSpace
from dovetail.search.space import Space
from dovetail.workload.model import Model
from dovetail.workload.workload import Workload

DEFAULT_PRESET = "chip"
MAX_POINTS = 50_000_000  # style: a space that is bounded in minutes
SPEC_KEYS = ("workload", "models", "chip", "preset")
_KEYS = tuple(name for name in KNOBS if name not in ("num_devices", "network"))  # which have keys of their own
Knobs = Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CodesignOverrides:
    """What a request says in place of its spec; empty or 0 where it says nothing."""

    preset: str = ""
    base: str = ""
    network: str = ""
    devices: int = 0
    area: str = ""
    power: str = ""
    batch: int = 0
    seq: int = 0
    endpoint: str = ""
    headroom: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CodesignSpec:
    """Everything a joint search needs but what it is best by."""

    name: str
    cases: tuple[Case, ...]
    base: Chip
    network: str
    space: Space
    limits: Limits
    preset: str
    rule: Rule
    num_devices: tuple[int, ...]
    plan_words: Words = field(default_factory=dict)  # what the spec says of plans, as it says it

    @property
    def budget(self) -> Budget:
        return self.limits.budget


class _Spec(Shape):
    name: Text = ""
    preset: Text = ""
    workload: object = None
    models: list[Any] | None = None
    weights: list[Number] | None = None
    chip: object = None
    devices: object = None
    network: object = None
    budget: object = None
    space: object = None


def load_codesign(reference: SpecLike, overrides: CodesignOverrides) -> CodesignSpec:
    """The spec in a file, or a model by name or file; what the command line says goes before what the spec says."""
    spec = as_spec(reference, SPEC_KEYS)
    if spec is None or isinstance(reference, Model | ModelHolder):
        return _of_model(reference, overrides)
    given = checked(spec, _Spec)
    preset_name = overrides.preset or given.preset or DEFAULT_PRESET
    preset = _preset(preset_name, "--preset" if overrides.preset else spec.at("preset").where)
    own_base = spec.child("chip").child("base") if _has(spec, "chip", "base") else None
    base = template_base(overrides.base, own_base, preset.base, "systems", overrides.headroom)
    entries = workload_entries(spec, "co-design for", has_own_size=bool(overrides.batch or overrides.seq))
    weights = _weights(spec, given.weights, len(entries))
    num_devices = (overrides.devices,) if overrides.devices else _devices(spec, preset)
    constraints = space_of(spec.child("space")) if spec.has("space") else ()
    network = _networks(overrides, spec, preset, base)
    knobs = {**_knobs(spec, base, preset, overrides), "network": _codes(network)}
    space = _space(base, num_devices, knobs, spec.child("chip").where)
    with countable():
        workloads = [sized_workload(entry, overrides.batch, overrides.seq, base) for entry in entries]
    return CodesignSpec(
        name=given.name or spec_name(reference),
        cases=_cases(workloads, weights, constraints, num_devices, preset),
        base=base,
        network=network,
        space=space,
        limits=_limits(overrides, spec, preset, base, space),
        preset=preset_name,
        rule=preset.rule,
        num_devices=num_devices,
        plan_words=spec.child("space").node.plain() if spec.has("space") else {},
    )


def _cases(
    workloads: Sequence[Workload],
    weights: Sequence[float],
    constraints: tuple[Constraint, ...],
    num_devices: tuple[int, ...],
    preset: Preset,
) -> tuple[Case, ...]:
    is_even_only = are_stages_even(constraints)
    plans = [_plans(constraints, workload, num_devices, preset) for workload in workloads]
    return tuple(
        Case(workload=workload, plans=some, weight=weight, is_even_only=is_even_only)
        for workload, some, weight in zip(workloads, plans, weights, strict=True)
    )


def _of_model(reference: ModelLike, overrides: CodesignOverrides) -> CodesignSpec:
    """A model alone, in a space by name."""
    preset_name = overrides.preset or DEFAULT_PRESET
    preset = _preset(preset_name, "--preset")
    model = as_model(reference, overrides.seq)
    base = template_base(overrides.base, None, preset.base, "systems", overrides.headroom)
    num_devices = (overrides.devices or preset.num_devices,)
    with countable():
        workload = Workload(model=model, global_batch=overrides.batch or model.batch, seq=overrides.seq or model.seq)
        check_dtype(workload, base)
    network = _networks(overrides, None, preset, base)
    knobs = {**_preset_knobs(preset, base), **_override_knobs(overrides), "network": _codes(network)}
    space = _space(base, num_devices, knobs, "chip")
    return CodesignSpec(
        name="",
        cases=(Case(workload=workload, plans=_plans((), workload, num_devices, preset)),),
        base=base,
        network=network,
        space=space,
        limits=_limits(overrides, None, preset, base, space),
        preset=preset_name,
        rule=preset.rule,
        num_devices=num_devices,
    )


def _has(spec: Entry, section: str, key: str) -> bool:
    return spec.has(section) and isinstance(spec.child(section).value, dict) and spec.child(section).has(key)


def _preset(name: str, where: str) -> Preset:
    if name not in PRESETS:
        raise InvalidInput(f"no space of systems is named {described(name)}{did_you_mean(name[:100], PRESETS)}", where)
    return PRESETS[name]


def _weights(spec: Entry, given: list[float] | None, num_cases: int) -> list[float]:
    if given is None:
        return [1.0] * num_cases
    if len(given) != num_cases:
        raise spec.child("weights").refused(f"weights must be one for each of {num_cases} models; got {len(given)}")
    for place, weight in enumerate(given):
        if not 0 < weight < float("inf"):
            raise spec.child("weights").child(place).refused(f"a weight must be above 0; got {described(weight)}")
    return [float(weight) for weight in given]


def _devices(spec: Entry, preset: Preset) -> tuple[int, ...]:
    if not spec.has("devices"):
        return (preset.num_devices,)
    return _wholes(spec.child("devices"))


def _knob(name: str, entry: Entry, own: float) -> tuple[float, ...]:
    """The values of one knob, each once and from small to large; `base` stands for what the base chip has."""
    words = {"endpoint": endpoint_codes(), "dataflow": dataflow_codes()}
    items = _items(entry)
    if name in words:
        if not items:
            raise entry.refused(f"{entry.key} needs at least one of {', '.join(_names(words[name]))}; got none")
        return tuple(sorted({own if item.value == BASE else _word_code(name, item, words[name]) for item in items}))
    others = [item for item in items if item.value != BASE]
    if len(others) == len(items):
        return _wholes(entry, 1 if name in DERIVED else int(LEAST.get(name, 1.0)))
    return tuple(sorted({own, *(value for item in others for value in _wholes(item))}))


def _word_code(name: str, item: Entry, words: Mapping[str, int]) -> int:
    if not isinstance(item.value, str) or item.value not in words:
        article = "an" if name == "endpoint" else "a"
        hint = did_you_mean(str(item.value)[:100], words)
        raise item.refused(f"{article} {name} is {', '.join(_names(words))}; got {described(item.value)}{hint}")
    return words[item.value]


def _names(words: Mapping[str, int]) -> list[str]:
    """Each code once, by its first word: aliases come after names."""
    first: dict[int, str] = {}
    for word, code in words.items():
        first.setdefault(code, word)
    return list(first.values())


def _items(entry: Entry) -> list[Entry]:
    return [entry.child(place) for place in range(len(entry.value))] if isinstance(entry.value, list) else [entry]


def _wholes(entry: Entry, least: int = 1) -> tuple[int, ...]:
    """One whole number or a list of them, each once, from small to large."""
    items = _items(entry)
    if not items or len(items) > MAX_LIST:
        raise entry.refused(f"{entry.key} needs 1 to {MAX_LIST:,} values; got {len(items)}")
    for item in items:
        value = item.value
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MAX_WHOLE:
            message = f"{entry.key} must be whole numbers from {least} to {MAX_WHOLE:,}"
            raise item.refused(f"{message}; got {described(value)}")
    return tuple(sorted({item.value for item in items}))


def _override_knobs(overrides: CodesignOverrides) -> Knobs:
    """Those of the command line, beside devices."""
    if not overrides.endpoint:
        return {}
    names = [name.strip() for name in overrides.endpoint.split(",")]
    return {"endpoint": tuple(sorted({_endpoint_code(name, "--endpoint") for name in names}))}


def _endpoint_code(name: str, where: str) -> int:
    return endpoint_named(name, where).code


def _knobs(spec: Entry, base: Chip, preset: Preset, overrides: CodesignOverrides) -> Knobs:
    """All that may be chosen but devices: the command line goes before the spec, and that before the preset."""
    return {**_preset_knobs(preset, base), **_spec_knobs(spec, base), **_override_knobs(overrides)}


def _spec_knobs(spec: Entry, base: Chip) -> Knobs:
    """The knobs of a spec's `chip` section, if it has one."""
    entry = spec.child("chip")
    if not spec.has("chip"):
        return {}
    if not isinstance(entry.value, dict):
        raise entry.refused(f"chip must be a mapping of keys to values; got {described(entry.value)}")
    known = ("base", *_KEYS)
    for key in entry.value:
        if key not in known:
            raise entry.child(key).refused(f"no key of chip is named {described(key)}{did_you_mean(str(key), known)}")
    own = system_of(base, 1)
    found = {key: _knob(key, entry.child(key), own[key]) for key in entry.value if key != "base"}
    try:
        check_knobs(base, found)
    except InvalidInput as error:
        raise entry.child(str(error.where)).refused(error.message) from None
    return found


def _plans(
    constraints: tuple[Constraint, ...], workload: Workload, num_devices: tuple[int, ...], preset: Preset
) -> PlanSpace:
    """The preset's plans, but for what the spec says of them."""
    wanted = space_under(constraints, workload.forward_graph(), num_devices[0]) if constraints else PlanSpace()
    names = {one.key.partition(".")[0] for one in constraints}
    return replace(preset.plans, **{name: getattr(wanted, name) for name in names if hasattr(wanted, name)})


def _networks(overrides: CodesignOverrides, spec: Entry | None, preset: Preset, base: Chip) -> str:
    """Names of one network or several to choose from, in the order of their codes, with commas between them."""
    if overrides.network or spec is None or not spec.has("network"):
        words = [(name.strip(), "--network") for name in (overrides.network or preset.network).split(",")]
    else:
        items = _items(spec.child("network"))
        if not items:
            raise spec.child("network").refused("network needs at least one name; got none")
        words = [(_text(item), item.where) for item in items]
    kinds = []
    for name, where in words:
        try:
            kinds.append(network_kind(own_network(name, base)))
        except InvalidInput as error:
            raise InvalidInput(error.message, where) from None
    return ",".join(dict.fromkeys(kind.name for kind in sorted(kinds, key=lambda kind: kind.code)))


def _text(item: Entry) -> str:
    if not isinstance(item.value, str):
        raise item.refused(f"a network is a name; got {described(item.value)}")
    return item.value


def _codes(network: str) -> tuple[float, ...]:
    return tuple(float(network_kind(name).code) for name in network.split(","))


def _space(base: Chip, num_devices: tuple[int, ...], values: Knobs, where: str) -> Space:
    space = system_space(base, num_devices[0], {**values, "num_devices": num_devices})
    ends, joins = (
        np.array(knob.values) for name in ("endpoint", "network") for knob in space.knobs if knob.name == name
    )
    if not can_be_joined(*(some.ravel() for some in np.meshgrid(ends, joins)), has_own_switches=False).any():
        message = f"an {endpoint_coded(ends[0]).name} endpoint needs switches, which these networks have not"
        raise InvalidInput(f"{message}; take --network switch, or another endpoint", "--endpoint")
    if space.num_points > MAX_POINTS:
        message = f"a space has at most {MAX_POINTS:,} combinations; got {space.num_points:,}"
        raise InvalidInput(f"{message}; leave values out", where)
    return space


def _preset_knobs(preset: Preset, base: Chip) -> Knobs:
    """Those values of a preset that systems built on `base` have."""
    return {name: values for name, values in preset.values.items() if _is_known_to(base, name, values)}


def _is_known_to(base: Chip, name: str, values: tuple[float, ...]) -> bool:
    try:
        check_knobs(base, {name: values})
    except InvalidInput:
        return False
    return True


def _limits(overrides: CodesignOverrides, spec: Entry | None, preset: Preset, base: Chip, space: Space) -> Limits:
    most_mm2 = preset.die_mm2 * (base.die.num_dies + base.die.num_io_dies)
    return limits_of_request(overrides.area, overrides.power, spec, most_mm2, base_budget(base, space))
