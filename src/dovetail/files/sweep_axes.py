"""Axes of a sweep as people write them: KEY=1,2,4, KEY=1..16*2, KEY=2TB/s..8TB/s:7."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dovetail.errors import InvalidInput
from dovetail.files.spec_changes import change_of
from dovetail.files.text import quoted

MAX_VALUES = 1000  # of one axis
MAX_ROWS = 10_000  # of all axes together
_END = re.compile(r"\s*([+-]?[0-9][0-9_]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z%µ/^0-9]*[A-Za-z%/]|)\s*")
_RANGE = re.compile(r"(?P<low>[^*:+]+?)\.\.(?P<high>[^*:+]+?)(?:(?P<mark>[*+:])(?P<by>.+))?")
_WHOLE = re.compile(r"[+-]?[0-9]+")
EXAMPLE = "as in plan.tp=1,2,4, plan.tp=1..16*2 or chip.hbm.bandwidth=2TB/s..8TB/s:7"
NEAR = 1e-9  # style: a tolerance; the end of a range of floats


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepAxis:
    """One key of a spec, and the values that it takes in turn."""

    key: str
    values: tuple[Any, ...]


def axis_of(text: str) -> SweepAxis:
    """The axis that KEY=VALUES says; a plan's own words hold commas, so plans are set apart by semicolons."""
    key, mark, values = text.partition("=")
    if not mark or not values.strip() or not key.strip():
        raise InvalidInput(f"an axis is KEY=VALUES, {EXAMPLE}; got {quoted(text)}", "--over")
    key = key.strip()
    try:
        change_of(key, None)
        apart = ";" if ";" in values or key == "plan" else ","
        found = tuple(value for word in values.split(apart) for value in _values(word.strip()))
        found = tuple(dict.fromkeys(found))
        if len(found) > MAX_VALUES:
            raise InvalidInput(f"an axis has at most {MAX_VALUES:,} values; got {len(found):,}")
    except InvalidInput as error:
        raise InvalidInput(error.message, f"--over {quoted(text)[1:-1]}") from None
    return SweepAxis(key=key, values=found)


def axes_of(texts: tuple[str, ...]) -> tuple[SweepAxis, ...]:
    """Every axis once, and not more rows than can be read."""
    axes = tuple(map(axis_of, texts))
    keys = [change_of(axis.key, None) for axis in axes]
    for place, change in enumerate(keys):
        for other in keys[:place]:
            if (change.section, change.path) == (other.section, other.path):
                raise InvalidInput(f"{change.key} and {other.key} are one key, varied twice; keep one", "--over")
    check_rows(axes)
    return axes


def check_rows(axes: tuple[SweepAxis, ...]) -> None:
    num_rows = math.prod(len(axis.values) for axis in axes)
    if num_rows > MAX_ROWS:
        sizes = " x ".join(str(len(axis.values)) for axis in axes)
        raise InvalidInput(f"a sweep has at most {MAX_ROWS:,} rows; {sizes} = {num_rows:,}; leave some out", "--over")


def _values(word: str) -> Iterator[Any]:
    if not word:
        raise InvalidInput(f"a value is missing between commas, {EXAMPLE}")
    match = _RANGE.fullmatch(word)
    if match is None:
        yield _value(word)
        return
    ends = [_END.fullmatch(match[name]) for name in ("low", "high")]
    if not all(ends):
        raise InvalidInput(f"a range goes from a number to a number, {EXAMPLE}; got {quoted(word)}")
    (low, unit), (high, other) = (end.groups() for end in ends if end)
    if unit != other:
        raise InvalidInput(f"both ends of a range have the same unit; got {unit or 'none'} and {other or 'none'}")
    yield from (_with_unit(value, unit) for value in _steps(word, float(low), float(high), match, unit))


def _steps(word: str, low: float, high: float, match: re.Match[str], unit: str) -> Iterator[float]:
    """From one end to the other: by a step, by a factor, or so many in equal steps; else by 1, with a unit doubling."""
    if not low <= high:
        raise InvalidInput(f"a range goes upwards; got {quoted(word)}")
    mark, by = match["mark"] or ("*" if unit else "+"), match["by"] or ("2" if unit else "1")
    try:
        step = float(by)
    except ValueError:
        raise InvalidInput(f"after {mark} comes a number, {EXAMPLE}; got {quoted(by)}") from None
    if mark == ":":
        if step != int(step) or not 1 <= step <= MAX_VALUES:
            raise InvalidInput(f"after : comes how many values there are, 1 to {MAX_VALUES:,}; got {quoted(by)}")
        yield from (low + (high - low) * place / max(1.0, step - 1) for place in range(int(step)))
        return
    if (mark == "*" and (step <= 1 or low <= 0)) or (mark == "+" and step <= 0):
        rule = "a factor above 1, of numbers above 0" if mark == "*" else "a step above 0"
        raise InvalidInput(f"after {mark} comes {rule}; got {quoted(word)}")
    for place in range(MAX_VALUES + 1):
        value = low * step**place if mark == "*" else low + step * place
        if value > high * (1 + NEAR):
            return
        yield value
    raise InvalidInput(f"an axis has at most {MAX_VALUES:,} values; {quoted(word)} has more")


def _with_unit(value: float, unit: str) -> Any:
    whole = round(value) if abs(value - round(value)) <= NEAR * max(1.0, abs(value)) else None
    if unit:
        return f"{value if whole is None else whole:.12g} {unit}"
    return value if whole is None else whole


def _value(word: str) -> Any:
    """One value as a file would have it."""
    if _WHOLE.fullmatch(word):
        return int(word)
    if word.casefold() in ("true", "false"):
        return word.casefold() == "true"
    try:
        return float(word)
    except ValueError:
        return word
