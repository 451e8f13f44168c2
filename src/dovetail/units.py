"""The one place that knows a prefix: text with units in, base-unit floats out, and back.

Inside Dovetail every number is in base units (bytes, seconds, hertz, FLOP, joules, watts, mm2) and its
name ends in the unit. GB is 10^9 bytes, GiB is 2^30, b is a bit, B a byte.
"""

from __future__ import annotations

import math
import re
from typing import Any

from dovetail.errors import InvalidInput, shown

Amount = Any  # a float, or an array of floats: one formula for one thing and for many at once
PICO, NANO, MICRO, MILLI = 1e-12, 1e-9, 1e-6, 1e-3
KILO, MEGA, GIGA, TERA, PETA, EXA = 1e3, 1e6, 1e9, 1e12, 1e15, 1e18
KIBI, MEBI, GIBI, TEBI, PEBI = 2.0**10, 2.0**20, 2.0**30, 2.0**40, 2.0**50
BITS_PER_BYTE = 8.0
PERCENT = 100.0
SECONDS_PER_MINUTE, SECONDS_PER_HOUR = 60.0, 3600.0
SECONDS_PER_DAY = 24 * SECONDS_PER_HOUR
SECONDS_PER_YEAR = 365.25 * SECONDS_PER_DAY

_SI = {"": 1.0, "k": KILO, "K": KILO, "M": MEGA, "G": GIGA, "T": TERA, "P": PETA, "E": EXA}
_BINARY = {"Ki": KIBI, "Mi": MEBI, "Gi": GIBI, "Ti": TEBI, "Pi": PEBI}
_SMALL = {"": 1.0, "m": MILLI, "u": MICRO, "µ": MICRO, "μ": MICRO, "n": NANO, "p": PICO}


def _spread(symbols: dict[str, float], prefixes: dict[str, float]) -> dict[str, float]:
    return {p + s: scale * size for p, scale in prefixes.items() for s, size in symbols.items()}


_BYTES = _spread({"B": 1.0, "b": 1 / BITS_PER_BYTE}, _SI | _BINARY)
_FLOP = _spread({"FLOP": 1.0, "OP": 1.0}, _SI)
_SCALES: dict[str, dict[str, float]] = {
    "bytes": _BYTES,
    "bytes_per_s": {f"{unit}/s": scale for unit, scale in _BYTES.items()}
    | {f"{unit}ps": scale for unit, scale in _BYTES.items() if unit.endswith("b")},
    "s": _spread({"s": 1.0}, _SMALL)
    | {"min": SECONDS_PER_MINUTE, "h": SECONDS_PER_HOUR}
    | dict.fromkeys(("d", "day", "days"), SECONDS_PER_DAY)
    | dict.fromkeys(("y", "year", "years"), SECONDS_PER_YEAR),
    "hz": _spread({"Hz": 1.0}, _SI),
    "flop": _FLOP,
    "flop_per_s": {f"{unit}/s": scale for unit, scale in _FLOP.items()}
    | _spread({"FLOPS": 1.0, "FLOPs": 1.0, "OPS": 1.0}, _SI),
    "j": _spread({"J": 1.0}, _SMALL | {"k": KILO, "M": MEGA, "G": GIGA}),
    "w": _spread({"W": 1.0}, {"": 1.0, "m": MILLI, "k": KILO, "M": MEGA}),
    "mm2": {"mm2": 1.0, "mm^2": 1.0, "mm²": 1.0, "um2": MICRO, "cm2": 100.0},
    "m": {"nm": NANO, "um": MICRO},
}
_EXAMPLES = {
    "bytes": "80 GiB",
    "bytes_per_s": "900 GB/s",
    "s": "1.5 us",
    "hz": "1.98 GHz",
    "flop": "2 GFLOP",
    "flop_per_s": "989 TFLOP/s",
    "j": "3 pJ",
    "w": "700 W",
    "mm2": "814 mm2",
    "m": "4 nm",
}
# Commas set thousands apart and do nothing else: '1,5 TiB' read as 15 TiB would be a factor of ten.
_WHOLE = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+(?:_[0-9]+)*)"
_NUMBER = rf"[+-]?(?:{_WHOLE}(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_QUANTITY = re.compile(rf"\s*({_NUMBER})\s*([A-Za-zµμ²/^][A-Za-zµμ²/^0-9]*|)\s*")
_DECIMAL_COMMA = re.compile(r"\s*[+-]?[0-9]*,[0-9]+(?![0-9.,])")
_COUNT = re.compile(rf"\s*({_NUMBER})\s*([kKMBGT]?)\s*")
_COUNT_SCALES = _SI | {"B": GIGA}  # people say billions of tokens
_DEVICE = r"(?:(?:gpu|device|chip)[-\s]?)?"
_PRICE = re.compile(
    rf"\s*(\$?)\s*({_NUMBER})\s*(\$|USD|usd|dollars?)?\s*(?:/|per|a)\s*{_DEVICE}(hours?|hr|h|days?|d)\s*"
    rf"(?:per\s+(?:gpu|device|chip))?",
    re.IGNORECASE,
)
MANY = 1e5  # of the largest unit there is: from here on a power of ten says more than its digits


def quantity(text: object, unit: str, example: str = "") -> float:
    """`text` such as '80 GiB' as a float in base `unit` ('bytes', 'bytes_per_s', 's', 'hz', ...).

    A bare number is refused: it is how factor-1000 slips are made. `example` shows how it is written, if not as usual.
    """
    example = example or _EXAMPLES[unit]
    if not isinstance(text, str):
        raise InvalidInput(f"a quantity needs its unit, as in '{example}'; got {shown(text)}")
    match = _QUANTITY.fullmatch(text)
    if match is None:
        way_out = f"write it as in '{example}'"
        if _DECIMAL_COMMA.match(text):
            way_out = f"a comma sets thousands apart, so write {text.strip()[:60].replace(',', '.', 1)!r}"
        raise InvalidInput(f"cannot read {text[:60]!r} as a quantity; {way_out}")
    number, symbol = match.groups()
    if not symbol:
        raise InvalidInput(f"a quantity needs its unit, as in '{example}'; got {shown(text.strip())}")
    scales = _SCALES[unit]
    if symbol not in scales:
        close = [known for known in scales if known.casefold() == symbol.casefold()]
        way_out = f"did you mean {' or '.join(close)}, as in '{example}'?" if close else f"write it as in '{example}'"
        raise InvalidInput(f"{shown(symbol)} is not a unit of this quantity; {way_out}")
    value = float(number.replace("_", "").replace(",", "")) * scales[symbol]
    if not math.isfinite(value):
        raise InvalidInput(f"a quantity must be finite; got {shown(text.strip())}")
    return value


def share_frac(text: object) -> float:
    """A share of a whole, 0 to 1, from a percentage such as "5 %"; a bare number is refused, as 5 may be meant so."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*%\s*", text) if isinstance(text, str) else None
    if not found or not float(found[1]) <= PERCENT:
        meant = re.fullmatch(r"\s*[pP]?(\d+(?:\.\d*)?)\s*", text) if isinstance(text, str) else None
        number = float(meant[1]) if meant else 0.0
        hint = f"; did you mean {number if number >= 1 else PERCENT * number:g}%?" if 0 < number <= PERCENT else ""
        raise InvalidInput(f"a share is a percentage from 0 to 100, such as 5 %; got {shown(text)}{hint}")
    return float(found[1]) / PERCENT


def count_of(text: str) -> float:
    """`text` such as '15T', '300 B' or '2e12' as a count."""
    match = _COUNT.fullmatch(text)
    if match is None:
        raise InvalidInput(f"cannot read {text[:60]!r} as a count; write it as in '15T' or '300B'")
    number, symbol = match.groups()
    value = float(number.replace("_", "").replace(",", "")) * _COUNT_SCALES[symbol]
    if not 1 <= value < EXA:
        raise InvalidInput(f"a count must be at least 1 and below {EXA:g}; got {text.strip()[:60]!r}")
    return value


def price_usd_per_s(text: str) -> float:
    """`text` such as '2.5 $/h', '$2.5/h' or '60 USD/day' as dollars a second."""
    match = _PRICE.fullmatch(text)
    if match is None or not (match[1] or match[3]):
        hint = "write it in quotes as in '2.5 $/h', as a shell takes $2 for a word of its own"
        raise InvalidInput(f"cannot read {shown(text)} as a price for a device; {hint}")
    number = float(match[2].replace("_", "").replace(",", ""))
    hour = {"h": SECONDS_PER_HOUR, "d": SECONDS_PER_DAY}[match[4][0].casefold()]
    if not 0 < number < GIGA:
        raise InvalidInput(f"a price must be above 0 and below {GIGA:g} $/h; got {shown(text.strip())}")
    return number / hour


def format_usd(value_usd: float) -> str:
    """Dollars as people write them: $0.0031, $12.40, $1,234, $5.1 M."""
    if value_usd >= MEGA:
        return f"${_scaled(value_usd, ((GIGA, 'B'), (MEGA, 'M')), 2)}"
    digits = 0 if value_usd >= KILO else 2 if value_usd >= 1 else 4
    return f"${value_usd:,.{digits}f}"


def _scaled(value: float, steps: tuple[tuple[float, str], ...], digits: int) -> str:
    if abs(value) >= MANY * steps[0][0]:
        return f"{value / steps[0][0]:.{digits}e} {steps[0][1]}"
    for scale, symbol in steps:
        if abs(value) >= scale:
            return f"{value / scale:.{digits}f} {symbol}"
    scale, symbol = steps[-1]
    return f"{value / scale:.{digits}f} {symbol}"


def format_bytes(value_bytes: float, digits: int = 1) -> str:
    """Bytes in the binary units people size memory with."""
    steps = ((PEBI, "PiB"), (TEBI, "TiB"), (GIBI, "GiB"), (MEBI, "MiB"), (KIBI, "KiB"), (1.0, "B"))
    return _scaled(value_bytes, steps, digits)


def format_s(value_s: float, digits: int = 3) -> str:
    return _scaled(value_s, ((1.0, "s"), (MILLI, "ms"), (MICRO, "us"), (NANO, "ns")), digits)


def format_rounded_s(value_s: float, num_digits: int) -> str:
    """Time to so many significant digits: 13.987 s to two is '14 s', and 1.02 s is '1.0 s'."""
    rounded_s = float(f"{value_s:.{num_digits}g}")
    shown = format_s(rounded_s, num_digits - 1).partition(" ")[0]
    if "e" in shown or rounded_s == 0:
        return format_s(rounded_s, num_digits - 1)
    num_before = len(shown.partition(".")[0].lstrip("-"))
    return format_s(rounded_s, max(0, num_digits - num_before))


def format_duration(value_s: float, digits: int = 1) -> str:
    """Time as people plan with it: minutes, hours and days above a minute."""
    hours = ((SECONDS_PER_DAY, "days"), (SECONDS_PER_HOUR, "h"), (SECONDS_PER_MINUTE, "min"))
    return _scaled(value_s, (*hours, (1.0, "s"), (MILLI, "ms")), digits)


def format_rate(value_per_s: float, symbol: str, digits: int = 1) -> str:
    """A rate or count in SI units: format_rate(989e12, 'FLOP/s') is '989.0 TFLOP/s'."""
    steps = ((EXA, "E"), (PETA, "P"), (TERA, "T"), (GIGA, "G"), (MEGA, "M"), (KILO, "k"), (1.0, ""))
    return _scaled(value_per_s, tuple((scale, prefix + symbol) for scale, prefix in steps), digits)


def format_count(value: float) -> str:
    """A large count as people write it: 70.6 B parameters."""
    return _scaled(value, ((TERA, "T"), (GIGA, "B"), (MEGA, "M"), (KILO, "k"), (1.0, "")), 1).strip()


def format_energy_j(value_j: float, digits: int = 2) -> str:
    steps = ((GIGA, "GJ"), (MEGA, "MJ"), (KILO, "kJ"), (1.0, "J"), (MILLI, "mJ"), (MICRO, "uJ"), (PICO, "pJ"))
    return _scaled(value_j, steps, digits)
