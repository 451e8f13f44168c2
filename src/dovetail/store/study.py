"""Studies of a store: what was evaluated of one question, by one model."""

from __future__ import annotations

import gc
import hashlib
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dovetail.errors import InvalidInput, did_you_mean, shown
from dovetail.search.algorithms import Scored
from dovetail.search.space import Point
from dovetail.search.study import StudyRecord
from dovetail.store import version
from dovetail.store.again import why_not_the_same
from dovetail.store.faults import FAULTS, damaged, fault, watched
from dovetail.store.file import readable
from dovetail.store.rows import COLUMNS, DamagedRow, row_of, scored_rows, seed_of
from dovetail.store.shapes import SPACE, MalformedRow, check_count, check_texts, figure_names_of, inputs_of

_FACTS = "key, kind, model, inputs, figure_names, started, written, num_rows"


class Study:
    """What has been evaluated of one question."""

    def __init__(self, link: sqlite3.Connection, path: Path, key: str) -> None:
        self._link, self._path, self.key = link, path, key
        query = "SELECT id, figure_names FROM studies WHERE key = ?"
        row = link.execute(query, (key,)).fetchone()
        if row is None:
            raise damaged(path, f"study {key} is not found by its key")
        self._id, names = row
        self._num_figures, self._seed = len(figure_names_of(names)), seed_of(key)

    def known(self) -> dict[Point, Scored]:
        """All that is kept, by point; raises `InvalidInput` where a row was damaged or lost."""
        is_collecting = gc.isenabled()
        gc.disable()  # it would look through a million new rows again and again, and none is in a circle
        try:
            return {one.point: one for one in self.rows()}
        finally:
            if is_collecting:
                gc.enable()

    def rows(self) -> Iterator[Scored]:
        """All that is kept, one after another in the order of points."""
        query = f"SELECT {COLUMNS} FROM points WHERE study = ? ORDER BY point"
        num_found = 0
        with watched(self._path), _one_moment(self._link):
            [num_rows] = self._link.execute("SELECT num_rows FROM studies WHERE id = ?", (self._id,)).fetchone()
            num_rows = num_rows if isinstance(num_rows, int) else -1
            try:
                for one in scored_rows(self._link.execute(query, (self._id,)), self._seed):
                    num_found += 1
                    yield one
            except DamagedRow:
                message = f"row {num_found + 1:,} of study {self.key} is not what was written"
                raise damaged(self._path, message) from None
        if num_found != num_rows:
            message = f"study {self.key} has {num_found:,} rows, and {num_rows:,} were written"
            raise damaged(self._path, message)

    def best(self, num_most: int) -> tuple[Scored, ...]:
        """The rows of least loss, the least first; those beyond a limit are not among them."""
        query = f"SELECT {COLUMNS} FROM points WHERE study = ? AND loss IS NOT NULL ORDER BY loss, point LIMIT ?"
        with watched(self._path):
            try:
                return tuple(scored_rows(self._link.execute(query, (self._id, num_most)), self._seed))
            except DamagedRow:
                raise damaged(self._path, f"a row of study {self.key} is not what was written") from None

    def keep(self, found: Iterable[Scored]) -> None:
        """Writes them down, all or none; one that is there already stays."""
        found = list(found)
        num_figures = max((len(one.also) for one in found), default=0)
        assert num_figures <= self._num_figures, f"{num_figures} figures, and {self._num_figures} names"
        rows = [(self._id, *row_of(one, self._seed)) for one in found]
        link, now = self._link, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        try:
            with link:
                num_before = link.total_changes
                link.executemany("INSERT OR IGNORE INTO points VALUES (?, ?, ?, ?, ?, ?)", rows)
                num_new = link.total_changes - num_before
                link.execute(
                    "UPDATE studies SET num_rows = num_rows + ?, written = ? WHERE id = ?", (num_new, now, self._id)
                )
        except FAULTS as error:
            raise fault(error, self._path, self.num_kept()) from None

    def num_kept(self) -> int:
        """Rows that are safe in the file at this moment, of any process; 0 where it cannot be read."""
        try:
            with readable(self._path) as link:
                [num_rows] = link.execute("SELECT num_rows FROM studies WHERE key = ?", (self.key,)).fetchone()
        except (InvalidInput, *FAULTS):
            return 0
        return int(num_rows)


class Store:
    """One file of studies."""

    def __init__(self, link: sqlite3.Connection, path: Path) -> None:
        self._link, self.path = link, path
        self._begun: dict[str, Study] = {}

    def study(self, kind: str, inputs: dict[str, Any], figure_names: tuple[str, ...] = ()) -> Study:
        """The study of these inputs by this physics, begun where there is none.

        `inputs` are all facts that answers follow from, as plain data; values by knob are under "space". The further
        figures of a row (`Scored.also`) are called `figure_names`, each with its unit at its end.
        """
        text, names, model = _text_of(inputs), json.dumps(figure_names), version.kept_under(kind)
        self.studies()  # raises where one is damaged: it may be this one, and would be begun again
        key = self._kept_before(kind, text, names) or key_of(kind, model, names, text)
        self._begun[key] = self.adopt(key, kind, model, text, names)
        return self._begun[key]

    def _kept_before(self, kind: str, text: str, names: str) -> str:
        """The key of the study of these facts by the same physics, whatever it was kept under; the one with most rows.

        Empty where there is none. 0.1 kept studies under the version of its source.
        """
        query = "SELECT key, model FROM studies WHERE kind = ? AND inputs = ? AND figure_names = ?"
        with watched(self.path):
            found = self._link.execute(f"{query} ORDER BY num_rows DESC, id", (kind, text, names)).fetchall()
        return next((str(key) for key, model in found if version.is_same_physics(model, kind)), "")

    def others(self, study: Study) -> tuple[tuple[StudyRecord, tuple[str, ...]], ...]:
        """Studies of the same question that `study` does not go on from, and why not: their numbers are others."""
        every = {record.key: record for record in self.studies()}
        own = every.pop(study.key)
        return tuple((one, reasons) for one in every.values() if (reasons := why_not_the_same(own, one)))

    def num_kept(self) -> int:
        """Rows that are safe in the file at this moment, of all studies begun here."""
        return sum(study.num_kept() for study in self._begun.values())

    def adopt(self, key: str, kind: str, model: str, text: str, names: str) -> Study:
        """The study of these facts, as they are written."""
        with watched(self.path), self._link:
            self._link.execute(
                "INSERT OR IGNORE INTO studies (key, kind, model, inputs, figure_names) VALUES (?, ?, ?, ?, ?)",
                (key, kind, model, text, names),
            )
        return self.at(key)

    def at(self, key: str) -> Study:
        """The study that a record of `studies` tells of."""
        with watched(self.path):
            return Study(self._link, self.path, key)

    def studies(self) -> tuple[StudyRecord, ...]:
        """All of them, as they were begun."""
        with watched(self.path):
            return tuple(self._record(*row) for row in self._link.execute(f"SELECT {_FACTS} FROM studies ORDER BY id"))

    def named(self, prefix: str) -> StudyRecord:
        """The one study whose key begins as `prefix`."""
        every = {record.key: record for record in self.studies()}
        found = [key for key in every if key.startswith(prefix)]
        if len(found) > 1:
            raise InvalidInput(
                f"{len(found)} studies of {self.path} begin with {prefix!r}; give more of its key", "study"
            )
        if not found:
            raise InvalidInput(f"no study of {self.path} has the key {prefix!r}{did_you_mean(prefix, every)}", "study")
        return every[found[0]]

    def _record(
        self, key: str, kind: str, model: str, text: str, names: str, started: str, written: str, num_rows: int
    ) -> StudyRecord:
        try:
            check_texts(key=key, kind=kind, version=model, inputs=text, names=names, start=started, end=written)
            check_count(num_rows)
            if key_of(kind, model, names, text) != key:
                raise MalformedRow("it is not what was written")
            inputs, figure_names = inputs_of(text), figure_names_of(names)
        except MalformedRow as why:
            raise damaged(self.path, f"of study {shown(key)}, {why}") from None
        return StudyRecord(
            key=key,
            kind=kind,
            model_version=model,
            is_current=version.is_same_physics(model, kind),
            inputs=inputs,
            figure_names=figure_names,
            started=started,
            written=written,
            num_rows=num_rows,
        )


def _text_of(inputs: dict[str, Any]) -> str:
    """`inputs` as one text whatever the order of keys; knobs keep theirs, as points are in it."""
    space = {SPACE: list(inputs[SPACE].items())} if SPACE in inputs else {}
    return json.dumps(inputs | space, sort_keys=True)


def key_of(kind: str, model: str, names: str, text: str) -> str:
    """What a study is known by; also whether it is what was written."""
    return hashlib.sha256("\0".join((kind, model, names, text)).encode()).hexdigest()[:16]


@contextmanager
def _one_moment(link: sqlite3.Connection) -> Iterator[None]:
    """What is read within is of one moment, whatever others write."""
    link.execute("BEGIN DEFERRED")
    try:
        yield
    finally:
        if link.in_transaction:
            link.rollback()
