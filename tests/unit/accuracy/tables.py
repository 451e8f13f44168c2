"""Tables written in a test, as the reader would give them."""

from __future__ import annotations

from dovetail.accuracy.measurements import Measurements


def table(text: str, name: str = "mine") -> Measurements:
    """A table from CSV without quoting; the header is line 1."""
    header, *rows = [tuple(line.split(",")) for line in text.strip().splitlines()]
    return Measurements(
        name=name,
        shown=f"{name}.csv",
        columns=tuple(cell.lower() for cell in header),
        rows=tuple(rows),
        lines=tuple(range(2, len(rows) + 2)),
    )
