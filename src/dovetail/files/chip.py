"""Chips: by catalogue name, written out, or a catalogue chip with some figures changed."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator
from functools import cache
from typing import Any

from pydantic import Field, create_model

from dovetail.cost.engines import with_endpoint
from dovetail.files.entry import Entry, followed, placed, spoken
from dovetail.files.schema import Shape, Text, built, checked, shape_of, written_keys
from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import Chip
from dovetail.hardware.die import Die
from dovetail.hardware.endpoints import SM_DRIVEN
from dovetail.hardware.implied_die import IMPLIED_SOURCE, implied_die

_BASE_HINT = "; give it, or name a base to take it from"
_NOT_FIGURES = {"name", "vendor", "process", "endpoint", "calibration.fitted_on"}

Sources = tuple[tuple[str, str], ...]


def load_chip(reference: str) -> Chip:
    """The chip that `reference` names: a catalogue name, or a YAML or JSON chip file."""
    return chip_of(spoken(reference))


def chip_of(entry: Entry) -> Chip:
    """The chip `entry` names or describes."""
    entry = followed(entry, "chip", chips)
    if isinstance(entry.value, str):
        with placed(entry):
            return chips[entry.value]()
    base = chip_of(entry.child("base")) if entry.has("base") else None
    shape = checked(entry, _chip_shape(has_base=base is not None), written=_with_defaults(entry, base), hint=_BASE_HINT)
    given = [path for path in _written_paths(entry, Chip) if path not in _NOT_FIGURES]
    sources = _sources(base.sources if base else (), given, entry.document.source)
    if base is not None:
        return _with_engines(built(Chip, shape, entry, base, sources=sources), base.endpoint, entry)
    more = {} if entry.has("die") else {"die": Die()}
    chip = built(Chip, shape, entry, None, sources=sources, **more)
    return _with_engines(_with_implied_die(chip, given), SM_DRIVEN, entry)


def _with_engines(chip: Chip, before: str, entry: Entry) -> Chip:
    """`chip` with what its endpoint draws, beyond that of the endpoint that its figures are of."""
    if chip.endpoint == before:
        return chip
    with placed(entry):
        return with_endpoint(dataclasses.replace(chip, endpoint=before), chip.endpoint)


@cache
def _chip_shape(*, has_base: bool) -> type[Shape]:
    shape = shape_of(Chip, is_partial=has_base)
    die_shape = shape_of(Die, is_partial=has_base)
    return create_model("ChipShape", __base__=shape, base=(Text, ""), die=(die_shape, Field(None, alias="die")))


def _with_implied_die(chip: Chip, given: list[str]) -> Chip:
    """`chip` with what was not said of its die taken from the rest of it."""
    names = [path.removeprefix("die.") for path in given if path.startswith("die.")]
    die = dataclasses.replace(implied_die(chip), **{name: getattr(chip.die, name) for name in names})
    return dataclasses.replace(chip, die=die, sources=(("die", IMPLIED_SOURCE), *chip.sources))


def _with_defaults(entry: Entry, base: Chip | None) -> dict[str, Any]:
    """What was written, with the name of a changed chip and the origin of a changed calibration."""
    written: dict[str, Any] = entry.node.plain()
    if base is not None:
        written.setdefault("name", f"{base.name}-changed")
    calibration = written.get("calibration")
    if isinstance(calibration, dict):
        rest = f"; the rest as {base.name}" if base is not None else ""
        calibration.setdefault("fitted_on", entry.document.source + rest)
    return written


def _written_paths(entry: Entry, value_type: type[Any], prefix: str = "") -> Iterator[str]:
    """Field paths of the figures that were written, such as `hbm.capacity_bytes`."""
    hints = typing.get_type_hints(value_type)
    for name, key in written_keys(value_type).items():
        if not entry.has(key):
            continue
        if dataclasses.is_dataclass(hints[name]):
            yield from _written_paths(entry.child(key), hints[name], f"{prefix}{name}.")
        elif isinstance(entry.child(key).value, dict):  # rates, each a figure of its own
            yield from (f"{prefix}{name}.{dtype}" for dtype in entry.child(key).value)
        else:
            yield prefix + name


def _sources(base: Sources, given: list[str], source: str) -> Sources:
    """The base's sources, but for the figures that were given; a figure's own source says more than its part's."""
    return (*((path, text) for path, text in base if path not in given), *((path, source) for path in given))
