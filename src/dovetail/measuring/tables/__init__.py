"""Tables that `dovetail measure` writes, one file each: their columns, the rows to measure, and how one is measured.

Columns are those of the tables that `dovetail validate` reads. The rows of a table are a fixed sample: the same on
every machine, so that a run that was stopped goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dovetail.errors import InvalidInput
from dovetail.measuring.row_files import Key
from dovetail.registry import Registry
from dovetail.units import GIGA, MICRO, TERA

MEASURED_DIGITS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRow:
    """What was measured of a row, the cells after its key; or why it could not be."""

    key: Key
    cells: tuple[str, ...] = ()
    why_not: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTable:
    """One table: `group` is its name for --only, `rows` are the keys of its sample on a machine.

    `measure` gives rows in any order, one at a time. `why_not` says in words why this machine can measure none of
    them. `row_s` is about how long a row takes, until some have been measured.
    """

    group: str
    file: str
    columns: tuple[str, ...]
    num_keys: int
    rows: Callable[[Any], Sequence[Key]]
    measure: Callable[[Any, Sequence[Key]], Iterator[MeasuredRow]]
    why_not: Callable[[Any], str] = lambda _: ""
    row_s: float = 0.15
    num_quick: int = 12  # rows of a quick run, spread over the sample

    def sample(self, *, is_quick: bool, gpu: Any) -> list[Key]:
        """The rows of a run; a quick one takes every so many-th of them."""
        found = list(self.rows(gpu))
        return found[:: max(-(-len(found) // self.num_quick), 1)] if is_quick else found


tables: Registry[MeasuredTable] = Registry("table of measurements", __name__)


def one_by_one(
    measure: Callable[[Any, Key], tuple[str, ...]],
) -> Callable[[Any, Sequence[Key]], Iterator[MeasuredRow]]:
    """Measures rows one after another; one that fails, as where memory does not do, costs no other.

    Raises where the device itself is broken afterwards, as no later row could be trusted.
    """

    def measured(gpu: Any, keys: Sequence[Key]) -> Iterator[MeasuredRow]:
        for key in keys:
            try:
                found = MeasuredRow(key=key, cells=measure(gpu, key))
            except Exception as error:  # libraries raise what they like
                found = MeasuredRow(key=key, why_not=reason(error))
            if found.why_not:
                _check_device(gpu)
            yield found

    return measured


def _check_device(gpu: Any) -> None:
    """Raises where the device answers nothing any more, as after an illegal access."""
    try:
        gpu.freed()
        gpu.wait()
    except Exception as error:  # of the device's library
        raise InvalidInput(f"the GPU stopped: {reason(error)}; rows so far are kept, run the command again") from None


def reason(error: BaseException) -> str:
    """Why a row failed, in a line."""
    words = " ".join(str(error).split()) or type(error).__name__
    if type(error).__name__ == "OutOfMemoryError" or "out of memory" in words.lower():
        return "out of memory"
    return f"{type(error).__name__}: {words[:120]}"


def time_us(seconds: float) -> str:
    return f"{seconds / MICRO:.{MEASURED_DIGITS}f}"


def tflops(flop: float, seconds: float) -> str:
    """The rate as tables have it."""
    return f"{flop / seconds / TERA:.2f}"


def gbps(moved_bytes: float, seconds: float) -> str:
    return f"{moved_bytes / seconds / GIGA:.1f}"


def words(*cells: object) -> Key:
    return tuple(str(cell) for cell in cells)
