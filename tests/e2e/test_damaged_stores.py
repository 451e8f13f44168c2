"""A file that is no store is refused and left alone, and of a damaged one what is whole is saved."""

from __future__ import annotations

import math
import shutil
import sqlite3
from contextlib import closing
from random import Random

import pytest

from dovetail.api.search_context import kept
from dovetail.errors import InvalidInput
from dovetail.search.algorithms import Scored
from dovetail.store import opened, reading
from dovetail.store import rescue as rescue_module
from dovetail.store.pages import records
from dovetail.store.rescue import rescue
from dovetail.store.rows import row_of, seed_of
from dovetail.store.study import key_of
from tests.e2e.kept_rows import FIGURES, INPUTS, kept_in, known_in

# --- files that are something else ----------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"not a database at all" * 100, b"SQLite format 3\0" + b"\xff" * 2000])
@pytest.mark.parametrize("use", [opened, reading])
def test_another_file_is_refused_and_left_alone(tmp_path, content, use):
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match="is not a store"), use(path):
        pass
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("format_number", [0, 2])
def test_a_database_of_somebody_else_is_refused_and_left_alone(tmp_path, format_number):
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as link:
        link.execute("CREATE TABLE customers (name TEXT)")
        link.execute(f"PRAGMA user_version = {format_number}")
    content = path.read_bytes()
    with pytest.raises(InvalidInput, match=r"of another program; it is left as it is: name another file"), opened(path):
        pass
    assert path.read_bytes() == content


@pytest.mark.parametrize(("number", "whose"), [(1, "an earlier"), (3, "a later")])
def test_a_store_of_another_format_is_refused_by_name(tmp_path, number, whose):
    kept_in(tmp_path / "a.db")
    with closing(sqlite3.connect(tmp_path / "a.db")) as link:
        link.execute(f"PRAGMA user_version = {number}")
    with pytest.raises(InvalidInput, match=f"format {number}, {whose} Dovetail's, and this one reads format 2"):
        known_in(tmp_path / "a.db")


def test_a_folder_or_a_file_in_none_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere" / "a.db"):
        with pytest.raises(InvalidInput, match="a file in a folder that is there"), opened(path):
            pass
    with pytest.raises(InvalidInput, match="there is no store"), reading(tmp_path / "a.db"):
        pass
    assert list(tmp_path.iterdir()) == []  # looking makes nothing


# --- damage ---------------------------------------------------------------------------------------------------------


def test_a_bit_turned_anywhere_is_another_answer_nowhere(tmp_path):
    whole = kept_in(tmp_path / "a.db", 300)
    content, rng, num_refused = (tmp_path / "a.db").read_bytes(), Random(1), 0
    for _ in range(200):
        turned = bytearray(content)
        turned[rng.randrange(len(turned))] ^= 1 << rng.randrange(8)
        path = tmp_path / "turned.db"
        path.write_bytes(turned)
        try:
            assert known_in(path) == whole  # a bit that says nothing, such as in room not used
        except InvalidInput:
            num_refused += 1
        for file in tmp_path.glob("turned.db*"):
            file.unlink()
    assert num_refused > 20


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_a_store_cut_short_is_damaged_and_left_as_it_is(tmp_path, share):
    path = tmp_path / "a.db"
    kept_in(path, 2000)
    cut = path.read_bytes()[: int(share * path.stat().st_size)]
    path.write_bytes(cut)
    with pytest.raises(InvalidInput, match=r"is damaged: .* put back a copy of it, or save the rows that are whole"):
        known_in(path)
    assert path.read_bytes() == cut


def test_rows_left_beside_by_another_store_are_not_taken_for_its_own(tmp_path):
    ours, theirs = tmp_path / "ours.db", tmp_path / "theirs.db"
    whole = kept_in(ours, 500)
    with opened(theirs) as store:
        store.study("mine", INPUTS, FIGURES).keep([Scored(point=(0, 0), loss=9.0)])
        shutil.copy(tmp_path / "theirs.db-wal", tmp_path / "ours.db-wal")
    content = ours.read_bytes()
    for use in (opened, reading):
        with pytest.raises(InvalidInput, match=r"ours\.db-wal.* damaged"), use(ours):
            pass
    assert ours.read_bytes() == content
    (tmp_path / "ours.db-wal").unlink()
    assert known_in(ours) == whole


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("inputs", '{"space": {"rows": [4]}}'),
        ("inputs", '{"jobs": [3]}'),
        ("inputs", "[]"),
        ("figure_names", '{"power_w": 1}'),
        ("figure_names", "[]]"),
    ],
)
def test_a_study_of_another_shape_under_a_key_that_holds_is_refused_and_not_saved(tmp_path, column, value):
    """Its key says that nobody changed it, and not who wrote it."""
    path = tmp_path / "a.db"
    kept_in(path)
    with closing(sqlite3.connect(path)) as link, link:
        link.execute(f"UPDATE studies SET {column} = ?", (value,))
        kind, model, names, text = link.execute("SELECT kind, model, figure_names, inputs FROM studies").fetchone()
        link.execute("UPDATE studies SET key = ?", (key_of(kind, model, names, text),))
    with pytest.raises(InvalidInput, match=r"is damaged: of study '\w+', .*its"), reading(path) as store:
        store.studies()
    with pytest.raises(InvalidInput, match="no study in it is whole"):
        rescue(path, tmp_path / "saved.db")


@pytest.mark.parametrize("column", ["kind", "model", "inputs", "figure_names", "num_rows", "started", "written"])
def test_a_column_of_another_type_is_damage(tmp_path, column):
    path = tmp_path / "a.db"
    kept_in(path)
    with closing(sqlite3.connect(path)) as link, link:
        link.execute(f"UPDATE studies SET {column} = ?", (b"\xff\xfe",))
    with pytest.raises(InvalidInput, match="is damaged: of study"), reading(path) as store:
        store.studies()


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (Scored(point=(0, 0), loss=0.0), "has a loss of 0, and losses are above 0"),
        (Scored(point=(0, 0), loss=-1.0), "has a loss of -1"),
        (Scored(point=(0, 3), loss=1.0), "is at a point that its space of 2 knobs does not have"),
        (Scored(point=(0, 0, 0), loss=1.0), "is at a point that its space of 2 knobs does not have"),
    ],
)
def test_a_search_does_not_go_on_from_a_row_that_its_question_cannot_have(tmp_path, row, told):
    with opened(tmp_path / "a.db") as store:
        with kept(store, "mine", INPUTS, FIGURES) as (known, keep):
            keep([Scored(point=(1, 2), loss=1.0), Scored(point=(2, 0), loss=math.inf), row])
        assert known == {}
        with pytest.raises(InvalidInput, match=f"a row of study .* {told}"), kept(store, "mine", INPUTS, FIGURES):
            pass


def test_a_word_for_a_loss_is_left_out_of_what_is_saved(tmp_path):
    path = tmp_path / "a.db"
    kept_in(path, 10)
    with closing(sqlite3.connect(path)) as link, link:
        link.execute("UPDATE points SET loss = 'much' WHERE loss = 7")
    [told] = rescue(path, tmp_path / "saved.db")
    assert told.num_saved == told.num_rows - 1 == 9


def test_rows_with_more_figures_than_names_are_not_saved(tmp_path):
    path = tmp_path / "a.db"
    kept_in(path)
    with opened(path) as store:
        key = store.studies()[0].key
    with closing(sqlite3.connect(path)) as link, link:
        row = row_of(Scored(point=(0, 0), loss=1.0, also=(1.0, 2.0)), seed_of(key))
        link.execute("INSERT INTO points VALUES (1, ?, ?, ?, ?, ?)", row)
    [told] = rescue(path, tmp_path / "saved.db")
    assert told.num_saved == 2


def test_what_is_whole_of_a_damaged_store_is_saved(tmp_path):
    """The way out that the line of a damaged store names."""
    path, whole = tmp_path / "a.db", kept_in(tmp_path / "a.db", 2000)
    content = bytearray(path.read_bytes())
    middle = 4096 * (len(content) // 8192)
    content[middle : middle + 4096] = bytes(4096)  # a page that a disk lost
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=r"is damaged: .* dovetail studies .*a\.db --rescue FILE"):
        known_in(path)
    [told] = rescue(path, tmp_path / "saved.db")
    saved = known_in(tmp_path / "saved.db")
    assert 1800 < told.num_saved == len(saved) < told.num_rows == 2000
    assert saved.items() <= whole.items()
    assert path.read_bytes() == content
    with pytest.raises(InvalidInput, match="rows are saved to a new file"):
        rescue(path, tmp_path / "saved.db")


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_what_is_whole_of_a_store_cut_short_is_saved(tmp_path, share):
    """Rows come as a search finds them, so that pages lie in another order than points."""
    path, rng = tmp_path / "a.db", Random(1)
    plans = ["", 3000 * "p", 6000 * "q"]  # some with a page of their own, or two
    found = [Scored(point=(row, 3), loss=float(row), also=(1.0,), plan=plans[row % 3]) for row in range(600)]
    rng.shuffle(found)
    with opened(path) as store:
        study = store.study("mine", INPUTS, FIGURES)
        for start in range(0, len(found), 20):
            study.keep(found[start : start + 20])
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    [told] = rescue(path, tmp_path / "saved.db")
    saved = known_in(tmp_path / "saved.db")
    assert (share - 0.15) * 600 < told.num_saved == len(saved) < told.num_rows == 600
    assert saved.items() <= {one.point: one for one in found}.items()


@pytest.mark.parametrize("num_bytes", [16, 60, 4096])
def test_a_store_of_which_nothing_is_left_says_so_and_leaves_no_new_one(tmp_path, num_bytes):
    path = tmp_path / "a.db"
    kept_in(path, 2000)
    path.write_bytes(path.read_bytes()[:num_bytes])
    with pytest.raises(InvalidInput, match=r"nothing of .* can be saved: .* put back a copy of it") as told:
        rescue(path, tmp_path / "saved.db")
    assert "--rescue" not in str(told.value)
    assert not list(tmp_path.glob("saved.db*"))


def test_a_study_whose_number_no_database_can_hold_is_left_out(tmp_path, monkeypatch):
    path = tmp_path / "a.db"
    kept_in(path)
    found = list(records(path))
    [study] = [values for _, values in found if len(values) == rescue_module.NUM_OF_STUDY]
    monkeypatch.setattr(rescue_module, "records", lambda _: [(2**63, study), *found])
    [one] = rescue(path, tmp_path / "b.db")
    assert one.num_saved == one.num_rows > 0
