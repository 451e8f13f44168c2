"""What a joint search is asked, read from a spec: models, a chip to build on, what may be chosen, and limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dovetail.errors import InvalidInput, did_you_mean
from dovetail.files.built_on import said_amount, said_workload, template_base, workload_entries
from dovetail.files.entry import Entry, described, is_file_name, opened
from dovetail.files.job import check_dtype, countable
from dovetail.files.model import load_model
from dovetail.files.schema import MAX_LIST, MAX_WHOLE, Shape, Text, amount, checked
from dovetail.files.space import space_of
from dovetail.files.text import one_line
from dovetail.hardware.chip import Chip
from dovetail.search.codesign.networks import network_named
from dovetail.search.codesign.presets import PRESETS, Preset
from dovetail.search.codesign.question import Budget, Case, Rule, system_space
from dovetail.search.codesign.systems import KNOBS
from dovetail.search.constraints import Constraint, space_under
from dovetail.search.plan_space import PlanSpace
from dovetail.search.space import Space
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

DEFAULT_PRESET = "chip"
MAX_POINTS = 50_000_000  # style: a space that is bounded in minutes
SPEC_KEYS = ("workload", "models", "chip", "preset")
_KEYS = tuple(name for name in KNOBS if name != "num_devices")


@dataclass(frozen=True, slots=True, kw_only=True)
class CodesignSaid:
    """What the command line says beside the spec; empty or 0 where it says nothing."""

    preset: str = ""
    base: str = ""
    network: str = ""
    devices: int = 0
    area: str = ""
    power: str = ""
    batch: int = 0
    seq: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CodesignSpec:
    """Everything a joint search needs but what it is best by."""

    name: str
    cases: tuple[Case, ...]
    base: Chip
    network: str
    space: Space
    budget: Budget
    preset: str
    rule: Rule
    num_devices: tuple[int, ...]


class _Spec(Shape):
    name: Text = ""
    preset: Text = ""
    workload: object = None
    models: list[Any] | None = None
    weights: list[float | int] | None = None
    chip: object = None
    devices: object = None
    network: Text = ""
    budget: object = None
    space: object = None


class _Budget(Shape):
    area: amount("mm2") = float("inf")  # type: ignore[valid-type]
    power: amount("w") = float("inf")  # type: ignore[valid-type]
    total_area: amount("mm2") = float("inf")  # type: ignore[valid-type]
    total_power: amount("w") = float("inf")  # type: ignore[valid-type]
    total_usd: float | int = float("inf")


def load_codesign(reference: str, said: CodesignSaid) -> CodesignSpec:
    """The spec in a file, or a model by name or file; what the command line says goes before what the spec says."""
    is_file = is_file_name(reference) or (reference not in models and Path(reference).is_file())
    spec = opened(Path(reference)) if is_file else None
    if spec is None or not any(spec.has(key) for key in SPEC_KEYS):
        return _of_model(reference, said)
    given = checked(spec, _Spec)
    preset_name = said.preset or given.preset or DEFAULT_PRESET
    preset = _preset(preset_name, "--preset" if said.preset else spec.at("preset").where)
    own_base = spec.child("chip").child("base") if _has(spec, "chip", "base") else None
    base = template_base(said.base, own_base, preset.base, "systems")
    entries = workload_entries(spec, "co-design for", has_own_size=bool(said.batch or said.seq))
    weights = _weights(spec, given.weights, len(entries))
    num_devices = (said.devices,) if said.devices else _devices(spec, preset)
    constraints = space_of(spec.child("space")) if spec.has("space") else ()
    with countable():
        workloads = [said_workload(entry, said.batch, said.seq, base) for entry in entries]
    return CodesignSpec(
        name=given.name or one_line(Path(reference).stem),
        cases=tuple(
            Case(workload=workload, plans=_plans(constraints, workload, num_devices, preset), weight=weight)
            for workload, weight in zip(workloads, weights, strict=True)
        ),
        base=base,
        network=_network(said.network or given.network or preset.network, said, spec),
        space=_space(base, num_devices, {**preset.values, **_knobs(spec)}, spec.child("chip").where),
        budget=_budget(said, spec),
        preset=preset_name,
        rule=preset.rule,
        num_devices=num_devices,
    )


def _of_model(reference: str, said: CodesignSaid) -> CodesignSpec:
    """A model alone, in a space by name."""
    preset_name = said.preset or DEFAULT_PRESET
    preset = _preset(preset_name, "--preset")
    model, base = load_model(reference, said.seq), template_base(said.base, None, preset.base, "systems")
    num_devices = (said.devices or preset.num_devices,)
    with countable():
        workload = Workload(model=model, global_batch=said.batch or model.batch, seq=said.seq or model.seq)
        check_dtype(workload, base)
    return CodesignSpec(
        name="",
        cases=(Case(workload=workload, plans=_plans((), workload, num_devices, preset)),),
        base=base,
        network=_network(said.network or preset.network, said, None),
        space=_space(base, num_devices, preset.values, "chip"),
        budget=_budget(said, None),
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


def _weights(spec: Entry, given: list[float | int] | None, num_cases: int) -> list[float]:
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


def _wholes(entry: Entry) -> tuple[int, ...]:
    """One whole number or a list of them, each once, from small to large."""
    items = [entry.child(place) for place in range(len(entry.value))] if isinstance(entry.value, list) else [entry]
    if not items or len(items) > MAX_LIST:
        raise entry.refused(f"{entry.key} needs 1 to {MAX_LIST:,} values; got {len(items)}")
    for item in items:
        value = item.value
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_WHOLE:
            told = f"{entry.key} must be whole numbers from 1 to {MAX_WHOLE:,}"
            raise item.refused(f"{told}; got {described(value)}")
    return tuple(sorted({item.value for item in items}))


def _knobs(spec: Entry) -> Mapping[str, tuple[int, ...]]:
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
    return {key: _wholes(entry.child(key)) for key in entry.value if key != "base"}


def _plans(
    constraints: tuple[Constraint, ...], workload: Workload, num_devices: tuple[int, ...], preset: Preset
) -> PlanSpace:
    """The preset's plans, but for what the spec says of them."""
    asked = space_under(constraints, workload.forward_graph(), num_devices[0]) if constraints else PlanSpace()
    said = {one.key.partition(".")[0] for one in constraints}
    return replace(preset.plans, **{name: getattr(asked, name) for name in said if hasattr(asked, name)})


def _network(name: str, said: CodesignSaid, spec: Entry | None) -> str:
    try:
        network_named(name)
    except InvalidInput as error:
        where = "--network" if said.network or spec is None else spec.at("network").where
        raise InvalidInput(error.message, where) from None
    return name


def _space(base: Chip, num_devices: tuple[int, ...], values: Mapping[str, tuple[int, ...]], where: str) -> Space:
    space = system_space(base, num_devices[0], {**values, "num_devices": num_devices})
    if space.num_points > MAX_POINTS:
        told = f"a space has at most {MAX_POINTS:,} combinations; got {space.num_points:,}"
        raise InvalidInput(f"{told}; leave values out", where)
    return space


def _budget(said: CodesignSaid, spec: Entry | None) -> Budget:
    given = checked(spec.child("budget"), _Budget) if spec is not None and spec.has("budget") else _Budget()
    area_mm2 = said_amount("--area", said.area, "mm2") if said.area else given.area
    power_w = said_amount("--power", said.power, "w") if said.power else given.power
    try:
        return Budget(
            area_mm2=area_mm2,
            power_w=power_w,
            total_area_mm2=given.total_area,
            total_power_w=given.total_power,
            total_usd=float(given.total_usd),
        )
    except InvalidInput as error:
        where = spec.at("budget").where if spec is not None else error.where
        raise InvalidInput(error.message, where) from None
