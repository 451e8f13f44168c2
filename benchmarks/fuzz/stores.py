"""Stores changed by their own rules: rows and studies that say odd things under valid checksums, or other tables."""

from __future__ import annotations

import json
import math
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.fuzz.odd import odd_number, odd_word
from benchmarks.fuzz.trees import changed_tree
from dovetail.search.algorithms import Scored
from dovetail.store.rows import COLUMNS, DamagedRow, point_bytes, row_of, scored_rows, seed_of
from dovetail.store.study import key_of

CELLS = (
    0, 1, -1, 2**40, 2**63 - 1, -(2**63), 0.5, 1e300, math.inf, "", "x", "{}", "[]", "null", "1", "[1, 2]",
    '{"a": 1}', "x" * 70000, "[" * 3000, "\u202e", "😀", b"", b"\xff\xfe", b"\0" * 36, b"\x80" * 40, None,
)  # fmt: skip
STATEMENTS = (
    "PRAGMA user_version = {number}", "PRAGMA application_id = {number}", "DROP TABLE points", "DROP TABLE studies",
    "ALTER TABLE points RENAME TO rows", "ALTER TABLE studies RENAME COLUMN inputs TO asked",
    "ALTER TABLE studies DROP COLUMN written", "ALTER TABLE points ADD COLUMN more TEXT", "DELETE FROM studies",
    "DELETE FROM points", "CREATE TABLE more (a)", "DELETE FROM points WHERE loss > 0.001",
    "UPDATE studies SET num_rows = num_rows + 1", "UPDATE points SET study = study + 1",
    "CREATE VIEW more AS SELECT * FROM points", "CREATE INDEX more ON points (loss)", "PRAGMA journal_mode = DELETE",
    "INSERT INTO points SELECT study + 1, point, loss, told, short_of, plan FROM points",
    "PRAGMA encoding = 'UTF-16'", "VACUUM",
)  # fmt: skip
_ANY = "SELECT point FROM points ORDER BY point LIMIT 1 OFFSET {place} % (SELECT count(*) FROM points)"
FORBIDDEN = (
    sqlite3.Error,
    AttributeError,
    OverflowError,
    TypeError,
    ValueError,
    IndexError,
    DamagedRow,
)  # by a change before


def changed_store(data: bytes, rng: Random, num_changes: int) -> bytes:
    """The file of a store after some changes by SQL."""
    with tempfile.TemporaryDirectory(prefix="dovetail-fuzz-") as folder:
        file = Path(folder) / "s.db"
        file.write_bytes(data)
        with closing(sqlite3.connect(file, isolation_level=None)) as link:
            link.execute("PRAGMA synchronous = OFF")
            for _ in range(num_changes):
                with suppress(*FORBIDDEN):
                    rng.choice(CHANGES)(link, rng)
        return file.read_bytes()


def _cell(link: sqlite3.Connection, rng: Random) -> None:
    """One column of one row or study is something else, and no checksum knows."""
    if rng.random() < 0.5:
        column = rng.choice(("key", "kind", "model", "inputs", "figure_names", "num_rows", "started", "written", "id"))
        link.execute(f"UPDATE studies SET {column} = ?", (rng.choice(CELLS),))
    else:
        column = rng.choice((*COLUMNS.split(", "), "study"))
        where = f"point = ({_ANY.format(place=rng.randrange(10**6))})" if rng.random() < 0.8 else "1"
        link.execute(f"UPDATE OR IGNORE points SET {column} = ? WHERE {where}", (rng.choice(CELLS),))


def _statement(link: sqlite3.Connection, rng: Random) -> None:
    link.execute(rng.choice(STATEMENTS).format(number=rng.choice((0, 1, 2, 3, 2**31 - 1, -1))))


def _study(link: sqlite3.Connection, rng: Random) -> None:
    """A study of another question, known by the key that its words have; its rows are sealed for it too."""
    row = link.execute("SELECT id, key, kind, model, inputs, figure_names FROM studies ORDER BY id").fetchone()
    number, key, kind, model, text, names = row
    which = rng.randrange(4)
    if which < 2:
        text = turned(text, rng)
    elif which == 2:
        names = turned(names, rng)
    elif rng.random() < 0.5:
        kind = odd_word(rng)
    else:
        model = odd_word(rng)
    new = key_of(kind, model, names, text)
    kept = link.execute(f"SELECT {COLUMNS} FROM points WHERE study = ?", (number,)).fetchall()
    scored = list(scored_rows(kept, seed_of(key)))
    link.execute(
        "UPDATE studies SET key = ?, kind = ?, model = ?, inputs = ?, figure_names = ? WHERE id = ?",
        (new, kind, model, text, names, number),
    )
    for one in scored:
        _put(link, number, one, one, new)


def turned(text: str, rng: Random) -> str:
    """JSON with a value changed; as it is where an earlier change has left none, or one too deep to be read."""
    try:
        return json.dumps(changed_tree(json.loads(text), (), rng))
    except (ValueError, RecursionError):
        return text


def _row(link: sqlite3.Connection, rng: Random) -> None:
    """A row that says something else, with a checksum over it."""
    number, key = link.execute("SELECT id, key FROM studies ORDER BY id").fetchone()
    kept = link.execute(f"SELECT {COLUMNS} FROM points WHERE study = ? ORDER BY point", (number,)).fetchall()
    [one] = scored_rows([rng.choice(kept)], seed_of(key))
    _put(link, number, one, _rescored(one, rng), key)


def _rescored(one: Scored, rng: Random) -> Scored:
    facts: dict[str, Any] = {
        "point": one.point, "loss": one.loss, "excess_frac": one.excess_frac, "also": one.also,
        "bottleneck": one.bottleneck, "plan": one.plan,
    }  # fmt: skip
    kind = rng.randrange(6)
    if kind == 0:
        facts["point"] = rng.choice((one.point[:-1], (*one.point, 0), (), tuple(2**40 for _ in one.point), (0,) * 5000))
    elif kind == 1:
        facts["loss"] = float(rng.choice((0.0, -1.0, 1e-300, 1e300, math.inf)))
    elif kind == 2:
        facts["also"] = rng.choice(
            ((), one.also * 2, tuple(math.nan for _ in one.also), tuple(-1e300 for _ in one.also))
        )
    elif kind == 3:
        facts["bottleneck"] = odd_word(rng)
    elif kind == 4 and one.plan.startswith(("{", "[")):
        facts["plan"] = turned(one.plan, rng)
    else:
        facts["plan"] = rng.choice(("", "{}", "[]", "null", "1", "[[1]]", "x", str(odd_number(rng)), odd_word(rng)))
    return Scored(**facts)


def _put(link: sqlite3.Connection, number: int, was: Scored, now: Scored, key: str) -> None:
    link.execute("DELETE FROM points WHERE study = ? AND point = ?", (number, point_bytes(was.point)))
    link.execute("INSERT OR REPLACE INTO points VALUES (?, ?, ?, ?, ?, ?)", (number, *row_of(now, seed_of(key))))


CHANGES: tuple[Callable[[sqlite3.Connection, Random], None], ...] = (_cell, _statement, _study, _study, _row, _row)
