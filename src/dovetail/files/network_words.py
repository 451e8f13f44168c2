"""Words of a network's description: link figures, counts, groups of devices and algorithms."""

from __future__ import annotations

from dovetail.errors import DovetailError, InvalidInput, did_you_mean
from dovetail.files.text import quoted
from dovetail.hardware.link import Link
from dovetail.units import quantity

_UNITS = {"global": "bytes_per_s", "global-latency": "s"}
_MAX_WHOLE = 10**6  # style: a count; more devices than any network here may have
_MAX_DIGITS = 9


def whole(text: str, what: str) -> int:
    word = text.strip()
    if not word.isdecimal() or len(word) > _MAX_DIGITS or not 1 <= int(word) <= _MAX_WHOLE:
        raise InvalidInput(f"{what} must be a whole number from 1 to {_MAX_WHOLE:,}; got {quoted(word)}")
    return int(word)


def options_of(said: str, text: str, extras: tuple[str, ...]) -> tuple[Link, dict[str, float]]:
    """What follows the @ of a dimension: its link, and what only its kind may say."""
    plain: dict[str, float] = {}
    extra: dict[str, float] = {}
    for word in (word.strip() for word in said.split(",")):
        key, joint, value = word.partition("=")
        if joint:
            extra[key.strip()] = _extra(key.strip(), value.strip(), text, extras)
            continue
        unit = "bytes_per_s" if word.endswith(("/s", "ps")) and not word.endswith((" ps", "0ps")) else "s"
        if unit in plain:
            raise InvalidInput(f"{quoted(text)} says its {_noun(unit)} twice", "--topology")
        plain[unit] = _quantity(word, unit)
    for unit in ("bytes_per_s", "s"):
        if unit not in plain:
            raise InvalidInput(f"{quoted(text)} says no {_noun(unit)}, as in ring:8@50GB/s,500ns", "--topology")
    try:
        return Link(bandwidth_bytes_per_s=plain["bytes_per_s"], latency_s=plain["s"]), extra
    except DovetailError as error:
        raise InvalidInput(error.message, "--topology") from None


def _noun(unit: str) -> str:
    return "bandwidth" if unit == "bytes_per_s" else "latency"


def _quantity(word: str, unit: str) -> float:
    try:
        return quantity(word, unit)
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
    """Groups of devices: 0-3;4-7 or 0,2,4;1,3,5."""
    return tuple(_group(part) for part in text.split(";") if part.strip())


def _group(text: str) -> tuple[int, ...]:
    devices: list[int] = []
    for word in text.split(","):
        first, joint, last = word.strip().partition("-")
        ends = [first, last] if joint else [first]
        if not all(end.isdecimal() and len(end) <= _MAX_DIGITS for end in ends):
            raise InvalidInput(f"groups are written 0-3;4-7 or 0,2;1,3; got {quoted(text)}", "--groups")
        if int(ends[-1]) > _MAX_WHOLE:
            raise InvalidInput(f"devices are below {_MAX_WHOLE:,}; got {ends[-1]}", "--groups")
        devices += range(int(ends[0]), int(ends[-1]) + 1)
    if not devices:
        raise InvalidInput(f"a group has devices; got {quoted(text)}", "--groups")
    return tuple(devices)


def algorithms_of(text: str) -> tuple[tuple[str, str], ...]:
    """One algorithm for all dimensions, or one each: x=ring,y=direct."""
    pairs = []
    for word in (word.strip() for word in text.split(",") if word.strip()):
        name, joint, algorithm = word.partition("=")
        pairs.append((name.strip(), algorithm.strip()) if joint else ("*", name.strip()))
    return tuple(pairs)
