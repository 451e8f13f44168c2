"""Axes of a figure in Plotly's form: where a value lies, which marks an axis has, and how numbers are written."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from typing import Any

Figure = dict[str, Any]
TEN = 10.0
PREFIXES = "yzafpnum kMGTPEZY"
MARKS_PX = {"x": 95, "y": 46}  # between two marks, about
LARGE_LETTERS, SMALL_LETTERS = "mwMW@%", "iljtfrI.,:;'|!()[] -"
NICE = (1.0, 2.0, 2.5, 5.0, 10.0)
PAD_FRAC = 0.05  # of the span of points, beyond both ends of an axis that nobody set
TAG, BREAK = re.compile(r"</?[a-zA-Z][^>]*>"), re.compile(r"<br\s*/?>")
FORMAT = re.compile(r"^(?P<sign>\+?)(?P<comma>,?)(?:\.(?P<digits>\d+))?(?P<trim>~?)(?P<kind>[sfge%d]?)$")
TEMPLATE = re.compile(r"%\{(\w+)(?::([^}]*))?\}")


def letters(text: str) -> list[str]:
    """The lines of a label, as characters: a figure's labels are HTML, of which they may hold line breaks."""
    return [unescape(TAG.sub("", line)) for line in BREAK.split(text)]


def text_px(text: str, size_px: float) -> float:
    """About how wide `text` is in a wide sans-serif face, so that it has room in any."""
    width = sum(
        0.95 if c in LARGE_LETTERS else 0.37 if c in SMALL_LETTERS else 0.7 if c.isupper() else 0.6 for c in text
    )
    return width * size_px


def written(value: Any, form: str = "") -> str:
    """A number by a format of d3, of which figures use a part: `~s`, `.4~s`, `.1f`, `,.0f`, `~%`, `.2%`, `~g`."""
    if not isinstance(value, int | float):
        return str(value)
    match = FORMAT.match(form)
    assert match, f"no format is {form!r}"
    digits, is_trimmed, kind = match["digits"], bool(match["trim"]), match["kind"]
    number = float(value)
    if kind == "s":
        return _prefixed(number, int(digits or 6), is_trimmed=is_trimmed)
    if kind == "%":
        text = f"{100 * number:.{digits or 6}f}"
        return (_trimmed(text) if is_trimmed else text) + "%"
    if kind == "f" or (kind == "" and digits is not None and not is_trimmed):
        text = f"{number:{match['comma']}.{digits or 6}f}"
    elif kind == "d":
        text = f"{number:,.0f}" if match["comma"] else f"{number:.0f}"
    else:
        text = f"{number:{match['comma']}.{digits or 6}g}"
    text = _trimmed(text) if is_trimmed else text
    return f"+{text}" if match["sign"] and number >= 0 else text


def _prefixed(value: float, digits: int, *, is_trimmed: bool) -> str:
    if value == 0:
        return "0"
    place = min(max(math.floor(math.log10(abs(value)) / 3 + 1e-9), -8), 8)  # style: a tolerance, for 1000 is 1 k
    scaled = value / TEN ** (3 * place)
    text = f"{scaled:.{max(0, digits - 1 - math.floor(math.log10(abs(scaled)) + 1e-9))}f}"  # style: a tolerance
    return (_trimmed(text) if is_trimmed else text) + PREFIXES[place + 8].strip()


def _trimmed(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def filled_in(template: str, fields: dict[str, Any]) -> str:
    """What `hovertemplate` says of one mark; what stands in <extra> is left out."""
    text = re.sub(r"<extra>.*?</extra>", "", template, flags=re.DOTALL)
    return TEMPLATE.sub(lambda match: written(fields.get(match[1], ""), match[2] or ""), text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One axis of a figure, on paper: `low_px` is where its first value lies, `high_px` its last."""

    letter: str
    said: Figure
    kind: str  # linear, log or category
    low: float
    high: float
    low_px: float
    high_px: float
    categories: tuple[str, ...] = ()

    def at(self, value: Any) -> float:
        """Where `value` lies, in pixels; a category by its name."""
        share = (self.number(value) - self.low) / ((self.high - self.low) or 1.0)
        return self.low_px + share * (self.high_px - self.low_px)

    def number(self, value: Any) -> float:
        """`value` as the axis counts: the place of a category, the logarithm of what is on a logarithmic axis."""
        if self.kind == "category":
            return float(self.categories.index(value)) if isinstance(value, str) else float(value)
        if self.kind == "log":
            return math.log10(value) if value > 0 else self.low
        return float(value)

    @property
    def is_shown(self) -> bool:
        return bool(self.said.get("visible", True))

    @property
    def title(self) -> str:
        title = self.said.get("title", {})
        return str(title.get("text", "")) if isinstance(title, dict) else str(title)

    def marks(self) -> Iterator[tuple[float, str]]:
        """(pixel, label) of every mark that lies on the axis."""
        least, most = sorted((self.low, self.high))
        slack = 1e-9 * (most - least)  # style: a tolerance
        for value, label in self._values():
            if least - slack <= value <= most + slack:
                share = (value - self.low) / ((self.high - self.low) or 1.0)
                yield self.low_px + share * (self.high_px - self.low_px), label

    def _values(self) -> Iterable[tuple[float, str]]:
        said = self.said
        form, suffix, prefix = said.get("tickformat", ""), said.get("ticksuffix", ""), said.get("tickprefix", "")
        if self.kind == "category" and "tickvals" not in said:
            return [(float(place), name) for place, name in enumerate(self.categories)]
        if "tickvals" in said:
            texts = said.get("ticktext") or [written(value, form) for value in said["tickvals"]]
            return [(self.number(value), text) for value, text in zip(said["tickvals"], texts, strict=True)]
        least, most = sorted((self.low, self.high))
        values = (
            log_marks(least, most, self.room)
            if self.kind == "log"
            else even_marks(least, most, self.room, said.get("dtick"))
        )
        return [
            (math.log10(value) if self.kind == "log" else value, f"{prefix}{written(value, form or '~g')}{suffix}")
            for value in values
        ]

    @property
    def room(self) -> int:
        """How many marks there is room for."""
        return max(2, int(abs(self.high_px - self.low_px) / MARKS_PX[self.letter]))


def even_marks(low: float, high: float, most: int, step: Any = None) -> list[float]:
    """Round numbers from `low` to `high`, at most about `most` of them."""
    if not isinstance(step, int | float):
        raw = (high - low) / max(1, most) or 1.0
        size = TEN ** math.floor(math.log10(raw))
        step = next(size * nice for nice in NICE if size * nice >= raw * (1 - 1e-9))  # style: a tolerance
    first = math.ceil(low / step - 1e-9)  # style: a tolerance
    return [
        float(f"{place * step:.12g}") for place in range(first, math.floor(high / step + 1e-9) + 1)
    ]  # style: a tolerance


def log_marks(low: float, high: float, most: int) -> list[float]:
    """Powers of ten between `low` and `high`, which are logarithms; 2 and 5 between them where there is room."""
    first, last = math.floor(low), math.ceil(high)
    decades = range(first, last + 1)
    if high - low < 1.0:  # within a decade: round numbers
        return [mark for mark in even_marks(TEN**low, TEN**high, most) if mark > 0]
    if (high - low) * 3 <= most:
        return [float(f"{part}e{decade}") for decade in decades for part in (1, 2, 5)]
    every = max(1, math.ceil((high - low) / most))
    return [float(f"1e{decade}") for decade in decades if decade % every == 0]


def axis_kind(said: Figure, values: Sequence[Any]) -> str:
    if said.get("type") in ("log", "category", "linear"):
        return str(said["type"])
    return "category" if any(isinstance(value, str) for value in values) else "linear"


def categories_of(said: Figure, values: Iterable[Any]) -> tuple[str, ...]:
    """In the order that the axis states, else as they come."""
    found = dict.fromkeys(value for value in values if isinstance(value, str))
    return tuple(dict.fromkeys((*said.get("categoryarray", ()), *found)))


def span_of(said: Figure, kind: str, values: Sequence[float], num_categories: int) -> tuple[float, float]:
    """From where to where an axis goes: as it says, else around what is drawn. Logarithms where it is logarithmic."""
    if "range" in said:
        low, high = said["range"]
        return float(low), float(high)
    if kind == "category":
        low, high = -0.5, max(num_categories, 1) - 0.5
    else:
        counted = [math.log10(value) for value in values if value > 0] if kind == "log" else list(values)
        low, high = min(counted, default=0.0), max(counted, default=1.0)
        is_from_zero = said.get("rangemode") == "tozero" and kind == "linear"
        pad = PAD_FRAC * ((high - low) or abs(high) or 1.0)
        low, high = (
            (0.0 if is_from_zero and low >= 0 else low - pad),
            (0.0 if is_from_zero and high <= 0 else high + pad),
        )
    return (high, low) if said.get("autorange") == "reversed" else (low, high)
