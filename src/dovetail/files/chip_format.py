"""A whole chip as the YAML that describes it, with the source of every figure: what is read back is the same chip."""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from dovetail.cost.engines import with_endpoint
from dovetail.files.chip import DEVICE_NAMES, FACTS, parts_of
from dovetail.files.schema import unit_of, written_keys
from dovetail.files.sourced import SOURCE, VALUE
from dovetail.files.text import one_line
from dovetail.files.value_formats import Words, flow_text, quantity_text
from dovetail.hardware.chip import Calibration, Chip
from dovetail.hardware.endpoints import SM_DRIVEN
from dovetail.hardware.families import families
from dovetail.hardware.implied_die import IMPLIED
from dovetail.units import quantity

MAX_LINE = 120
NUM_DIGITS = 17  # that tell any two floats apart
_SYMBOLS = {
    "bytes": ("GiB", "MiB", "KiB", "B"),
    "bytes_per_s": ("TB/s", "GB/s", "GiB/s", "B/s"),
    "flop_per_s": ("TFLOP/s", "GFLOP/s", "FLOP/s"),
    "hz": ("GHz", "MHz"),
    "s": ("us", "ns", "s"),
    "j": ("pJ", "J"),
    "w": ("W",),
    "m": ("nm",),
}
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_ ./()+-]*")
_WORDS_OF_YAML = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
_TECHNOLOGY = ("die", "hbm_generation")


def chip_text(chip: Chip, device_names: tuple[str, ...] = (), remarks: tuple[str, ...] = ()) -> str:
    """`chip` as a file; the power of its engines is added when it is read."""
    lines = (f"# {one_line(remark)}" for remark in remarks)
    return "\n".join((*lines, *sourced_lines(sourced_entries(chip, device_names)))) + "\n"


def sourced_entries(chip: Chip, device_names: tuple[str, ...] = ()) -> Words:
    """Every figure of `chip` under the key it is written by, in a mapping with its source where it has one of its own.

    A calibration says its family and where it differs from it.
    """
    sources = dict(chip.sources)
    words = _part_entries(with_endpoint(chip, SM_DRIVEN), "", sources)
    words["endpoint"] = chip.endpoint
    generation = words["die"].pop(_TECHNOLOGY[1])
    words["hbm"]["technology"] = generation
    if chip.calibration.family:
        words["calibration"] = _family_entries(chip, sources)
    if chip.facts:
        words[FACTS] = [{"what": what, VALUE: value, SOURCE: source} for what, value, source in chip.facts]
    if device_names:
        words[DEVICE_NAMES] = list(device_names)
    return words


def _family_entries(chip: Chip, sources: Mapping[str, str]) -> Words:
    """A calibration as its family, and what differs from that at the chip's clock."""
    calibration = chip.calibration
    own = families[calibration.family].calibration(chip.clock_hz, 1.0)
    words: Words = {"family": calibration.family}
    if "calibration" in sources:
        words[SOURCE] = sources["calibration"]
    keys = written_keys(Calibration)
    differing = [name for name in keys if getattr(calibration, name) != getattr(own, name)]
    for name in (*differing, *(["fitted_on"] if differing and "fitted_on" not in differing else [])):
        words[keys[name]] = _sourced(_word(name, getattr(calibration, name)), sources.get(f"calibration.{name}"))
    return words


def _part_entries(value: Any, path: str, sources: Mapping[str, str]) -> Words:
    words: Words = {SOURCE: sources[path.rstrip(".")]} if path and path.rstrip(".") in sources else {}
    keys, parts = written_keys(type(value)), parts_of(type(value))
    for field in dataclasses.fields(value):
        here, part = f"{path}{field.name}", getattr(value, field.name)
        is_needed = here in sources or (path == "die." and field.name in IMPLIED)
        if field.name not in keys or part is None or (part == field.default and not is_needed):
            continue
        if field.name in parts:
            words[keys[field.name]] = _part_entries(part, f"{here}.", sources)
        elif field.name == "rates":
            table = {SOURCE: sources[here]} if here in sources else {}
            for dtype, rate in part:
                table[dtype] = _sourced(nice_quantity(rate, "flop_per_s"), sources.get(f"{here}.{dtype}"))
            words[keys[field.name]] = table
        else:
            words[keys[field.name]] = _sourced(_word(field.name, part), sources.get(here))
    return words


def _sourced(word: Any, source: str | None) -> Any:
    return word if source is None else {VALUE: word, SOURCE: source}


def _word(name: str, value: Any) -> Any:
    if isinstance(value, tuple):
        return [_word(name, item) for item in value]
    unit = unit_of(name)
    return nice_quantity(value, unit) if unit and isinstance(value, float | int) else value


def nice_quantity(value: float, unit: str) -> str:
    """A number with the unit in which it is shortest, of those in which it is 1 or more, to the last digit."""
    found = [text for symbol in _SYMBOLS[unit] for text in _in_unit(value, unit, symbol)]
    return min(found, key=lambda text: (text.startswith("0."), len(text))) if found else quantity_text(value, unit)


def _in_unit(value: float, unit: str, symbol: str) -> Iterator[str]:
    number = value / quantity(f"1 {symbol}", unit)
    for digits in range(1, NUM_DIGITS + 1):
        text = f"{number:.{digits}g} {symbol}"
        if "e" not in text.partition(" ")[0] and quantity(text, unit) == value:
            yield text
            return


def sourced_lines(words: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """A mapping as YAML: beside its key what has room there, below it what has not."""
    for key, value in words.items():
        beside = f"{indent}{key}: {_flow(value)}"
        is_figure = not isinstance(value, Mapping) or VALUE in value or SOURCE not in value
        if isinstance(value, str) and len(beside) > MAX_LINE and " ".join(value.split()) == value:
            yield f"{indent}{key}: >-"
            yield from textwrap.wrap(
                value,
                MAX_LINE,
                initial_indent=f"{indent}  ",
                subsequent_indent=f"{indent}  ",
                break_long_words=False,
                break_on_hyphens=False,
            )
        elif (len(beside) <= MAX_LINE and is_figure) or not isinstance(value, Mapping | list) or not value:
            yield beside
        elif isinstance(value, Mapping):
            yield f"{indent}{key}:"
            yield from sourced_lines(value, f"{indent}  ")
        else:
            yield f"{indent}{key}:"
            for item in value:
                yield from _item_lines(item, f"{indent}  ")


def _item_lines(item: Any, indent: str) -> Iterator[str]:
    beside = f"{indent}- {_flow(item)}"
    if len(beside) <= MAX_LINE or not isinstance(item, Mapping):
        yield beside
        return
    first, *rest = sourced_lines(item, f"{indent}  ")
    yield f"{indent}- {first.strip()}"
    yield from rest


def _flow(value: Any) -> str:
    return flow_text(value, _quoted)


def _quoted(text: str) -> str:
    """In quotes where YAML would take it for something else."""
    is_plain = _PLAIN.fullmatch(text) and text == text.strip() and text.lower() not in _WORDS_OF_YAML
    return text if is_plain and not _is_number(text) else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _is_number(text: str) -> bool:
    try:
        float(text.replace("_", ""))
    except ValueError:
        return False
    return True
