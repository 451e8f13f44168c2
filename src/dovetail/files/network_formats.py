"""Words of a network's description: link figures, counts, groups of devices and algorithms."""

from __future__ import annotations

import re

from dovetail.errors import DovetailError, InvalidInput, did_you_mean
from dovetail.files.text import quoted
from dovetail.hardware.link import Link
from dovetail.units import quantity

_UNITS = {"global": "bytes_per_s", "global-latency": "s"}
_EXAMPLE = "as in ring:8@50GB/s,500ns"
_MAX_WHOLE = 10**6  # style: a count; more devices than any network here may have
_MAX_DIGITS = 9
_DECIMAL = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")


def whole(text: str, what: str) -> int:
    word = text.strip()
    if not word.isdecimal() or len(word) > _MAX_DIGITS or not 1 <= int(word) <= _MAX_WHOLE:
        rule = f"{what} must be a whole number from 1 to {_MAX_WHOLE:,}"
        raise InvalidInput(f"{rule}; got {quoted(word)}", "--topology")
    return int(word)


def options_of(options: str, text: str, extras: tuple[str, ...]) -> tuple[Link, dict[str, float]]:
    """What follows the @ of a dimension: its link, and what only its kind may say."""
    plain: dict[str, float] = {}
    extra: dict[str, float] = {}
    if not options.strip():
        raise InvalidInput(f"{quoted(text)} gives no bandwidth and latency, {_EXAMPLE}", "--topology")
    for word in (word.strip() for word in options.split(",")):
        if not word:
            raise InvalidInput(f"{quoted(text)} has nothing between two commas, or after the last", "--topology")
        key, joint, value = word.partition("=")
        if joint:
            extra[key.strip()] = _extra(key.strip(), value.strip(), text, extras)
            continue
        unit = _unit_of(word, has_rate="bytes_per_s" in plain)
        number = _quantity(word, unit, f"{word} GB/s" if unit == "bytes_per_s" and word.isdecimal() else "")
        if unit in plain:
            raise InvalidInput(f"{quoted(text)} gives its {_noun(unit)} twice", "--topology")
        plain[unit] = number
    for unit in ("bytes_per_s", "s"):
        if unit not in plain:
            raise InvalidInput(f"{quoted(text)} gives no {_noun(unit)}, {_EXAMPLE}", "--topology")
    try:
        return Link(bandwidth_bytes_per_s=plain["bytes_per_s"], latency_s=plain["s"]), extra
    except DovetailError as error:
        raise InvalidInput(error.message, "--topology") from None


def _unit_of(word: str, *, has_rate: bool) -> str:
    """What `word` is a quantity of; one without its unit, or with bytes alone, is a bandwidth where none was given."""
    if word.endswith(("/s", "ps")) and not word.endswith((" ps", "0ps")):
        return "bytes_per_s"
    is_cut = word[-1].isdecimal() or word.endswith(("B", "b"))
    return "bytes_per_s" if is_cut and not has_rate else "s"


def _noun(unit: str) -> str:
    return "bandwidth" if unit == "bytes_per_s" else "latency"


def _quantity(word: str, unit: str, example: str = "") -> float:
    try:
        return quantity(word, unit, example)
    except DovetailError as error:
        raise InvalidInput(error.message, "--topology") from None


def _extra(key: str, value: str, text: str, extras: tuple[str, ...]) -> float:
    if key not in extras:
        hint = did_you_mean(key, extras) if extras else "; it has none but bandwidth and latency"
        raise InvalidInput(f"no option of {quoted(text)} is named {quoted(key)}{hint}", "--topology")
    if key in _UNITS:
        return _quantity(value, _UNITS[key])
    if key in ("leaf", "spines"):
        return whole(value, key)
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 1 <= number <= _MAX_WHOLE:
        raise InvalidInput(f"{key} must be a number of at least 1; got {quoted(value)}", "--topology")
    return number


def groups_of(text: str) -> tuple[tuple[int, ...], ...]:
    """Groups of devices: 0-3;4-7 or 0,2,4;1,3,5; no text, no groups."""
    return tuple(devices_of(part, "--groups") for part in text.split(";")) if text else ()


def dimensions_named(text: str) -> tuple[str, ...]:
    """Dimensions, each once: x,y; no text, none."""
    names = tuple(word.strip() for word in text.split(",")) if text else ()
    if len(set(names)) < len(names) or "" in names:
        raise InvalidInput(f"dimensions are named once each, as in x,y; got {quoted(text)}", "--dims")
    return names


def devices_of(text: str, where: str) -> tuple[int, ...]:
    """Devices: 0-3 or 0,2,4; `where` is the option that names them."""
    devices: list[int] = []
    for word in text.split(","):
        first, joint, last = word.strip().partition("-")
        ends = [first, last] if joint else [first]
        if not all(end.isascii() and end.isdecimal() for end in ends):
            shown = "groups are written 0-3;4-7 or 0,2;1,3" if where == "--groups" else "ranks are written 0-3 or 0,2"
            raise InvalidInput(f"{shown}; got {quoted(text)}", where)
        if any(len(end) > _MAX_DIGITS or int(end) > _MAX_WHOLE for end in ends):
            raise InvalidInput(f"devices are numbered up to {_MAX_WHOLE:,}; got {quoted(text)}", where)
        devices += range(int(ends[0]), int(ends[-1]) + 1)
    if not devices:
        raise InvalidInput(f"a group has devices; got {quoted(text)}", where)
    return tuple(devices)


def speeds_frac(text: str) -> dict[int, float]:
    """Ranks and their speeds beside the others': 3=0.8,5=0.5; no text, none."""
    found: dict[int, float] = {}
    for word in text.split(",") if text else ():
        rank, _, share = (part.strip() for part in word.partition("="))
        if not rank.isdecimal() or len(rank) > _MAX_DIGITS or int(rank) in found or not _DECIMAL.fullmatch(share):
            rule = "slow ranks are written 3=0.8,5=0.5, each once"
            raise InvalidInput(f"{rule}; got {quoted(text)}", "--slow-ranks")
        found[int(rank)] = float(share)
    return found


def algorithms_of(text: str) -> tuple[tuple[str, str], ...]:
    """One algorithm for all dimensions, or one each: x=ring,y=direct."""
    pairs = []
    for word in (word.strip() for word in text.split(",") if word.strip()):
        name, joint, algorithm = word.partition("=")
        pairs.append((name.strip(), algorithm.strip()) if joint else ("*", name.strip()))
    if len(dict(pairs)) < len(pairs):
        rule = "name one algorithm for all dimensions, or one for each, as in x=ring,y=direct"
        raise InvalidInput(f"{rule}; got {quoted(text)}", "--algorithm")
    return tuple(pairs)
