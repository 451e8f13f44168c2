"""Chips: by catalogue name, written out, or a catalogue chip with some figures changed."""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any

from pydantic import Field, create_model

from dovetail.cost.engines import with_endpoint
from dovetail.cost.tdp import idle_w as silicon_idle_w
from dovetail.errors import did_you_mean
from dovetail.files.entry import Entry, described, followed, placed, spoken
from dovetail.files.schema import (
    MAX_LIST,
    Number,
    Sentence,
    Shape,
    Text,
    built,
    checked,
    hints_of,
    shape_of,
    written_keys,
)
from dovetail.files.sourced import Found, unsourced
from dovetail.files.tree import Node
from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import Calibration, Chip, EnergyCosts
from dovetail.hardware.die import MEMORY_TECHNOLOGIES, Die
from dovetail.hardware.endpoints import SM_DRIVEN
from dovetail.hardware.energy_models import IDLE_BY_AREA_SOURCE, IDLE_SOURCE, energy_models, idle_estimate_w
from dovetail.hardware.families import families
from dovetail.hardware.implied_die import IMPLIED, IMPLIED_SOURCE, implied_die
from dovetail.units import GIGA, format_bytes, format_rate

_BASE_HINT = "; give it, or name a base to take it from"
_NOT_FIGURES = {"name", "vendor", "process", "endpoint", "calibration.fitted_on", "calibration.family"}
FACTS, DEVICE_NAMES = "facts", "device_names"
CLOSE_FRAC = 1e-6  # style: a tolerance; of capacities that are the same
MAX_OVER_PEAK = 1.05  # of multipliers times clock: data sheets round both
_OPEN = frozenset({FACTS, DEVICE_NAMES, "base"})  # what stands there is no figure
# Of a chip whose energies follow from the rest of it, until that is there.
_NO_ENERGY = EnergyCosts(
    tensor_j_per_flop=0.0,
    vector_j_per_flop=0.0,
    sram_j_per_byte=0.0,
    hbm_j_per_byte=0.0,
    link_j_per_byte=0.0,
    idle_w=0.0,
    vector_memory_j_per_byte=1.0,
)

_OF_FAMILY = {"family", "host_slower"}

Sources = tuple[tuple[str, str], ...]
SourceByPath = dict[str, str]


class FactShape(Shape):
    """Something known of a chip beyond its figures."""

    what: Sentence
    value: Sentence
    source: Sentence


def load_chip(reference: str) -> Chip:
    """The chip that `reference` names: a catalogue name, or a YAML or JSON chip file."""
    return chip_of(spoken(reference))


def chip_of(entry: Entry) -> Chip:
    """The chip `entry` names or describes."""
    entry = followed(entry, "chip", chips)
    if isinstance(entry.value, str):
        with placed(entry):
            return chips[entry.value]()
    return _described(entry, chip_of(entry.child("base")) if entry.has("base") else None)


def changed_chip(chip: Chip, entry: Entry) -> Chip:
    """`chip` with the figures that `entry` writes in place of its own."""
    return _described(entry, chip)


def _described(entry: Entry, base: Chip | None) -> Chip:
    entry, sourced = unsourced(entry, _OPEN)
    entry = _with_technology(entry, sourced)
    shape = checked(entry, _chip_shape(), written=_with_defaults(entry, base))
    if base is None:
        _check_whole(entry, shape)
    given = dict(_given(entry, sourced))
    more: dict[str, Any] = {"sources": _sources(base.sources if base else (), given, shape)}
    if entry.has(FACTS):
        more[FACTS] = tuple((fact.what, fact.value, fact.source) for fact in shape.facts)
    if base is None and not entry.has("die"):
        more["die"] = Die()
    chip = built(Chip, shape, entry, base, _starts(shape, entry, base), **more)
    chip = chip if base else _with_implied_die(chip, given)
    chip = _with_core_buffer(chip, given, entry)
    _check_peak(chip, entry)
    before = base.endpoint if base else SM_DRIVEN
    return _with_engines(_with_energy(chip, shape, entry, before), before, entry)


def _with_core_buffer(chip: Chip, given: SourceByPath, entry: Entry) -> Chip:
    """A vector core's buffer is its vector memory where it has some: it follows from that, or must agree with it."""
    memory, num_cores = chip.vector_memory, chip.vector.num_units
    if memory is None or chip.die.buffered_units != "vector":
        return chip
    own_bytes = memory.capacity_bytes / num_cores
    if math.isclose(chip.core_buffer_bytes, own_bytes, rel_tol=CLOSE_FRAC):
        return chip
    if "core_buffer_bytes" in given:
        message = f"core_buffer is the vector memory of a core, {format_bytes(own_bytes)} of each of {num_cores}"
        got = f"got {format_bytes(chip.core_buffer_bytes)}; leave it out, or set vector_memory.capacity"
        raise entry.child("core_buffer").refused(f"{message}; {got}")
    return dataclasses.replace(chip, core_buffer_bytes=own_bytes)


def _check_peak(chip: Chip, entry: Entry) -> None:
    """Refuses 16-bit rates above what the arrays reach at their clock: a 16-bit product takes a multiplier for a clock.

    Narrower ones may take less. Units of GPUs are a product of rows and columns only in number.
    """
    arrays, known = chip.tensor, dict(chip.tensor.rates)
    if not arrays.tiling.is_array:
        return
    peak_flop_per_s = 2 * arrays.num_units * arrays.num_rows * arrays.num_cols * chip.clock_hz
    for dtype in ("bf16", "fp16"):
        if known.get(dtype, 0.0) > MAX_OVER_PEAK * peak_flop_per_s:
            shape = f"{arrays.num_rows:,} x {arrays.num_cols:,}"
            has = f"{arrays.num_units:,} arrays of {shape} at {chip.clock_hz / GIGA:g} GHz"
            rates = [format_rate(rate, "FLOP/s") for rate in (peak_flop_per_s, known[dtype])]
            message = f"{has} do {rates[0]} at most; got {rates[1]} for {dtype}"
            raise entry.child("tensor").refused(f"{message}; give less, or more arrays or clock")


def _with_engines(chip: Chip, before: str, entry: Entry) -> Chip:
    """`chip` with what its endpoint draws, beyond that of the endpoint that its figures are of."""
    if chip.endpoint == before:
        return chip
    with placed(entry):
        return with_endpoint(dataclasses.replace(chip, endpoint=before), chip.endpoint)


@cache
def _chip_shape() -> type[Shape]:
    """One shape for all chips, in which any key may be left out: what is missing is found by `_check_whole`."""
    calibration = create_model(
        "CalibrationShape", __base__=shape_of(Calibration, is_partial=True), host_slower=(Number, None)
    )
    energy = create_model("EnergyShape", __base__=shape_of(EnergyCosts, is_partial=True), model=(Text, ""))
    return create_model(
        "ChipShape",
        __base__=shape_of(Chip, is_partial=True),
        base=(Text, ""),
        calibration=(calibration, Field(None, alias="calibration")),
        energy=(energy, Field(None, alias="energy")),
        facts=(Annotated[list[FactShape], Field(max_length=MAX_LIST)], []),
        device_names=(Annotated[list[Text], Field(max_length=MAX_LIST)], []),
    )


def _check_whole(entry: Entry, shape: Shape) -> None:
    """Raises where a chip without a base leaves something out, at the first line that should hold it."""
    missing = sorted(_missing(entry, Chip, shape), key=lambda one: one.line)
    if missing:
        raise missing[0].refused(f"{missing[0].key} is missing{_BASE_HINT}")


def _missing(entry: Entry, value_type: type[Any], shape: Any) -> Iterator[Entry]:
    parts, keys = parts_of(value_type), written_keys(value_type)
    for field in dataclasses.fields(value_type):
        key = keys.get(field.name)
        has_default = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        if key is None or (field.name == "die" and value_type is Chip):
            continue
        if field.name not in shape.model_fields_set:
            if not has_default:
                yield entry.child(key)
        elif field.name in parts and not _is_derived(getattr(shape, field.name)):
            yield from _missing(entry.child(key), parts[field.name], getattr(shape, field.name))


def _is_derived(part: Any) -> bool:
    """Whether the rest of a chip says what is not written of this part: it names a family or an energy model."""
    return bool(getattr(part, "family", "") or getattr(part, "model", ""))


def parts_of(value_type: Any) -> dict[str, type[Any]]:
    """The fields of a dataclass that are dataclasses themselves, be it that they may be left out."""
    return _parts_of(value_type)


@cache
def _parts_of(value_type: Any) -> dict[str, type[Any]]:
    options = {name: typing.get_args(hint) or (hint,) for name, hint in hints_of(value_type).items()}
    return {name: one for name, some in options.items() for one in some if dataclasses.is_dataclass(one)}  # type: ignore[misc]


def _starts(shape: Any, entry: Entry, base: Chip | None) -> dict[str, Any]:
    """What parts of a chip begin as where that is not the base's: the calibration of its family at its own clock."""
    starts: dict[str, Any] = {}
    written = shape.calibration
    if written is not None and written.family:
        clock_hz = shape.clock_hz if "clock_hz" in shape.model_fields_set or base is None else base.clock_hz
        with placed(entry.child("calibration").child("family")):
            family = families[written.family]
        starts["calibration"] = family.calibration(
            clock_hz, 1.0 if written.host_slower is None else written.host_slower
        )
    elif written is not None and written.host_slower is not None:
        message = "host_slower is of a family's calibration; set family too, or give the times of the host"
        raise entry.child("calibration").child("host_slower").refused(message)
    if shape.energy is not None and shape.energy.model:
        with placed(entry.child("energy").child("model")):
            energy_models[shape.energy.model]
        starts["energy"] = _NO_ENERGY
    return starts


def _with_energy(chip: Chip, shape: Any, entry: Entry, endpoint: str) -> Chip:
    """`chip` with the energies of the model that it names, but for those that are given; idle with that endpoint."""
    written, place = shape.energy, entry.child("energy")
    if written is None or not written.model:
        return chip
    model = energy_models[written.model]
    with placed(entry):
        if "idle_w" in written.model_fields_set:
            idle_w = written.idle_w
        elif model.is_idle_by_area and chip.die.has_stacks:
            idle_w = silicon_idle_w(dataclasses.replace(chip, endpoint=endpoint))
        else:
            idle_w = idle_estimate_w(chip.tdp_w)
        energy = model.energy(chip, idle_w)
        return dataclasses.replace(chip, energy=built(EnergyCosts, written, place, energy))


def _with_implied_die(chip: Chip, given: SourceByPath) -> Chip:
    """`chip` with what was not given of its die taken from the rest of it."""
    names = [path.removeprefix("die.") for path in given if path.startswith("die.")]
    is_whole = set(names) >= IMPLIED
    if is_whole and "die" in given:
        return chip
    die = (
        chip.die
        if is_whole
        else dataclasses.replace(implied_die(chip), **{name: getattr(chip.die, name) for name in names})
    )
    # the source of a die speaks for what is given of it, and not for what is implied
    own = [(path, given.get(path) or given.get("die", "")) for path in given if path.startswith("die.")]
    others = [one for one in chip.sources if one[0].partition(".")[0] != "die"]
    return dataclasses.replace(chip, die=die, sources=(("die", IMPLIED_SOURCE), *others, *own))


def _with_technology(entry: Entry, sourced: Found) -> Entry:
    """`hbm.technology` under the name that the die has for it; its word in any case of letters."""
    memory, die = entry.child("hbm"), entry.child("die")
    if not memory.has("technology"):
        return entry
    place = memory.child("technology")
    known = {word.lower(): word for word in MEMORY_TECHNOLOGIES}
    word = known.get(str(place.value).lower(), "")
    if not word:
        hint = did_you_mean(str(place.value)[:100], MEMORY_TECHNOLOGIES)
        message = f"technology must be one of {', '.join(MEMORY_TECHNOLOGIES)}; got {described(place.value)}"
        raise place.refused(f"{message}{hint}")
    if die.has("hbm_generation"):
        raise place.refused("hbm.technology and die.hbm_generation set the same thing; remove one")
    if die.value is not None and not isinstance(die.value, dict):
        return entry  # refused as what it is
    if "hbm.technology" in sourced:
        sourced["die.hbm_generation"] = sourced.pop("hbm.technology")
    rest = {key: node for key, node in memory.value.items() if key != "technology"}
    silicon = {**(die.value or {}), "hbm_generation": Node(word, place.line)}
    whole = {
        **entry.value,
        "hbm": dataclasses.replace(memory.node, value=rest),
        "die": dataclasses.replace(die.node, value=silicon),
    }
    return dataclasses.replace(entry, node=dataclasses.replace(entry.node, value=whole))


def _with_defaults(entry: Entry, base: Chip | None) -> dict[str, Any]:
    """What was written, with the name of a changed chip and the origin of a changed calibration."""
    written: dict[str, Any] = entry.node.plain()
    if base is not None:
        written.setdefault("name", f"{base.name}-changed")
    calibration = written.get("calibration")
    if isinstance(calibration, dict) and (calibration or base is None):
        family = calibration.get("family")
        if not family:
            rest = f"; the rest as {base.name}" if base is not None else ""
            calibration.setdefault("fitted_on", entry.document.source + rest)
        elif calibration.keys() - _OF_FAMILY:
            calibration.setdefault("fitted_on", f"{entry.document.source}; the rest as the family {family}")
    return written


def _given(entry: Entry, sourced: Found) -> SourceByPath:
    """Field paths of the figures that were written, such as `hbm.capacity_bytes`, and of parts that have a source.

    Each with its source, which is empty for a figure that the source of its part speaks for.
    """
    found: SourceByPath = {}

    def look(part: Entry, value_type: type[Any], keys: str, fields: str, default: str) -> None:
        for name, key in written_keys(value_type).items():
            if not part.has(key):
                continue
            inner, path, key_path = part.child(key), f"{fields}{name}", f"{keys}{key}"
            is_part, is_table = name in parts_of(value_type), isinstance(inner.value, dict)
            if (is_part or is_table) and key_path in sourced:
                found[path] = sourced[key_path]
            below = "" if key_path in sourced else default
            if is_part:
                look(inner, parts_of(value_type)[name], f"{key_path}.", f"{path}.", below)
            elif is_table:  # rates, each a figure of its own
                found.update((f"{path}.{dtype}", sourced.get(f"{key_path}.{dtype}", below)) for dtype in inner.value)
            elif path not in _NOT_FIGURES:
                found[path] = sourced.get(key_path, default)

    look(entry, Chip, "", "", sourced.get("", entry.document.source))
    return found


def _sources(base: Sources, given: SourceByPath, shape: Any) -> Sources:
    """The base's sources, but for what is given; a figure's own source says more than its part's."""
    given = _derived_sources(shape) | given
    again = tuple(f"{part}." for part in _derived_sources(shape))
    kept = [(path, given.get(path, text)) for path, text in base if not path.startswith(again) or path in given]
    known = {path for path, _ in base}
    whole = (*kept, *((path, text) for path, text in given.items() if path not in known))
    return tuple((path, text) for path, text in whole if text)


def _derived_sources(shape: Any) -> SourceByPath:
    """Of parts that follow from the chip: what their family or model says of itself, unless the file says more."""
    found: SourceByPath = {}
    if shape.calibration is not None and shape.calibration.family in families:
        found["calibration"] = families[shape.calibration.family].source
    if shape.energy is not None and shape.energy.model in energy_models:
        is_idle_given = "idle_w" in shape.energy.model_fields_set
        model = energy_models[shape.energy.model]
        idle_source = IDLE_BY_AREA_SOURCE if model.is_idle_by_area else IDLE_SOURCE
        found["energy"] = model.source + ("" if is_idle_given else f"; idle {idle_source}")
    return found
