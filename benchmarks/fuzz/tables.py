"""CSV changed by cells, columns and rows."""

from __future__ import annotations

import csv
import io
from random import Random

from benchmarks.fuzz.odd import odd_number, odd_word


def changed_table(data: bytes, rng: Random) -> bytes:
    """One change of the table in `data`, written as CSV again."""
    rows = list(csv.reader(io.StringIO(data.decode("utf-8", "replace"))))
    rows = [row for row in rows if row] or [[""]]
    row = rng.choice(rows)
    at = rng.randrange(len(row))
    kind = rng.randrange(11)
    if kind < 4:
        row[at] = str(odd_number(rng)) if rng.random() < 0.5 else odd_word(rng)
    elif kind == 4:
        other = rng.choice(rows)
        row[at] = rng.choice(other)
    elif kind == 5:
        rows.remove(row)
    elif kind == 6:
        rows += [list(row) for _ in range(rng.choice((1, 3, 40)))]  # more are not other work, only longer
    elif kind == 7:
        _column_dropped(rows, rng)
    elif kind == 8:
        _column_added(rows, rng)
    elif kind == 9:
        row.append(odd_word(rng)) if rng.random() < 0.5 else row.pop()
    else:
        rng.shuffle(rows)
    out = io.StringIO()
    csv.writer(out, lineterminator="\n", quoting=rng.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL))).writerows(rows)
    return out.getvalue().encode("utf-8", "surrogatepass")


def _column_dropped(rows: list[list[str]], rng: Random) -> None:
    at = rng.randrange(len(rows[0]))
    for row in rows:
        del row[at : at + 1]


def _column_added(rows: list[list[str]], rng: Random) -> None:
    """A column once more, by its name or another, somewhere else."""
    at = rng.randrange(len(rows[0]))
    to = rng.randrange(len(rows[0]) + 1)
    for row in rows:
        row.insert(to, row[at] if at < len(row) else "")
    if rng.random() < 0.7:
        rows[0][to] = rng.choice((rows[0][to] + "x", odd_word(rng), rows[0][to].upper()))
