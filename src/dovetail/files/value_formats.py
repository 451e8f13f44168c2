"""Values in the words that a spec has for them, to the last digit, and such words as YAML: what `files` reads back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dovetail.files.schema import unit_of, written_keys
from dovetail.files.text import one_line
from dovetail.units import NANO

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Words = dict[str, Any]
SYMBOLS = {
    "bytes_per_s": "B/s",
    "flop_per_s": "FLOP/s",
    "bytes": "B",
    "flop": "FLOP",
    "hz": "Hz",
    "s": "s",
    "j": "J",
    "w": "W",
    "mm2": "mm2",
}


def entries_of(value: DataclassInstance, *, is_whole: bool = False) -> Words:
    """Every field of `value` under the key it is written by; quantities with the base unit that their names end in.

    What is nothing by default, and is nothing, is left out, unless the whole is wanted.
    """
    keys, found = written_keys(type(value)), {}
    for field in dataclasses.fields(value):
        part = getattr(value, field.name)
        is_nothing = part in ((None, "", (), 0.0) if unit_of(field.name) else (None, "", ())) and part == field.default
        if field.name in keys and (is_whole or not is_nothing):
            found[keys[field.name]] = _word(field.name, part)
    return found


def _word(field: str, value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return entries_of(value)
    if isinstance(value, tuple):
        if field == "rates":
            return {name: quantity_text(rate, "flop_per_s") for name, rate in value}  # by dtype
        return [_word(field, item) for item in value]
    unit = unit_of(field)
    if unit and isinstance(value, float | int):
        return quantity_text(value, unit)
    if isinstance(value, float):
        return float(value)
    assert isinstance(value, bool | int | str), f"{field}: no way to write a {type(value).__name__}"
    return value


def quantity_text(value: float, unit: str) -> str:
    """A number with a unit, to the last digit; a length, which is a node's, to the thousandth of a picometre."""
    if unit == "m":
        return f"{round(value / NANO, 6)!r} nm"
    return f"{float(value)!r} {SYMBOLS[unit]}"


def yaml_lines(words: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """A mapping as YAML: mappings and lists of them go on below their keys, everything else beside them."""
    for key, value in words.items():
        if isinstance(value, Mapping) and value:
            yield f"{indent}{key}:"
            yield from yaml_lines(value, indent + "  ")
        elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            yield f"{indent}{key}:"
            for item in value:
                first, *rest = yaml_lines(item, indent + "    ")
                yield f"{indent}  - {first.strip()}"
                yield from rest
        else:
            yield f"{indent}{key}: {_plain(value)}"


def flow_text(value: Any, text_of: Callable[[str], str]) -> str:
    """A value on one line of YAML, its words as `text_of` has them."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {flow_text(item, text_of)}' for key, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(flow_text(item, text_of) for item in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        digits, mark, power = repr(value).partition("e")
        return f"{digits}{'.0' if mark and '.' not in digits else ''}{mark}{power}"  # YAML takes 1e-12 for a word
    return text_of(one_line(value))


def _plain(value: Any) -> str:
    return flow_text(value, lambda text: "'" + text.replace("'", "''") + "'")
