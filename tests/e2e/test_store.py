"""What a search was told is kept, found again, and never mixed with the numbers of another question or model."""

from __future__ import annotations

import math
import multiprocessing
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dovetail.errors import InvalidInput
from dovetail.search.algorithms import Scored
from dovetail.store import faults, opened, reading, rescue, version
from tests.e2e.conftest import ROOT, environment

INPUTS: dict[str, Any] = {"jobs": [{"name": "bert"}], "space": {"rows": [4, 8, 16], "cols": [32, 64, 128]}}
FIGURES = ("power_w",)
FOUND = [
    Scored(point=(1, 2), loss=3.25, also=(280.0,), short_of="num_vector", plan='{"tp": 8}'),
    Scored(point=(2, 0), loss=math.inf, excess_frac=0.5),
]


def kept_in(path: Path, num_rows: int = 2) -> dict[tuple[int, ...], Scored]:
    """A store with a study in it, closed; what it keeps."""
    with opened(path) as store:
        study = store.study("mine", INPUTS, FIGURES)
        study.keep(FOUND)
        study.keep(Scored(point=(row, 200), loss=float(row), also=(1.0,)) for row in range(num_rows - len(FOUND)))
        return study.known()


def known_in(path: Path) -> dict[tuple[int, ...], Scored]:
    with opened(path) as store:
        return store.study("mine", INPUTS, FIGURES).known()


def test_what_was_kept_is_found_again(tmp_path):
    kept_in(tmp_path / "a.db")
    assert known_in(tmp_path / "a.db") == {one.point: one for one in FOUND}
    assert not list(tmp_path.glob("saved.db*"))


def test_another_question_figure_or_model_starts_anew(tmp_path, monkeypatch):
    kept_in(tmp_path / "a.db")
    with opened(tmp_path / "a.db") as store:
        assert not store.study("mine", INPUTS | {"jobs": []}, FIGURES).known()
        assert not store.study("mine", INPUTS, ("area_mm2",)).known()
        assert not store.study("codesign", INPUTS, FIGURES).known()
        turned = {"space": dict(reversed(INPUTS["space"].items()))}
        assert not store.study("mine", INPUTS | turned, FIGURES).known()  # its points would mean other designs
        monkeypatch.setattr(version, "model_version", lambda: "0.0.0+another")
        assert not store.study("mine", INPUTS, FIGURES).known()
        assert [study.num_rows for study in store.studies()] == [2, 0, 0, 0, 0, 0]
        assert [study.is_current for study in store.studies()] == [False] * 5 + [True]


def test_the_order_of_facts_is_no_other_question(tmp_path):
    kept_in(tmp_path / "a.db")
    with opened(tmp_path / "a.db") as store:
        assert store.study("mine", dict(reversed(INPUTS.items())), FIGURES).known()


def test_the_model_version_names_the_release_and_the_source():
    release, _, digest = version.model_version().partition("+")
    assert release == "0.1.0"
    assert len(digest) == 12


def test_a_point_kept_twice_is_there_once(tmp_path):
    kept_in(tmp_path / "a.db")
    kept_in(tmp_path / "a.db")
    with reading(tmp_path / "a.db") as store:
        [study] = store.studies()
        assert study.num_rows == len(list(store.at(study.key).rows())) == 2
        assert store.at(study.key).best(5) == (FOUND[0],)
        assert study.values((1, 2)) == {"rows": 8, "cols": 128}


def test_rows_with_fewer_figures_than_names_are_kept_and_with_more_are_our_own_mistake(tmp_path):
    with opened(tmp_path / "a.db") as store:
        study = store.study("mine", {}, ("low", "step_s"))
        study.keep([Scored(point=(0,), loss=1.0, also=(0.5,))])
        with pytest.raises(AssertionError, match="3 figures, and 2 names"):
            study.keep([Scored(point=(1,), loss=1.0, also=(0.5, 1.0, 2.0))])
        store.study("codesign", {}).keep([Scored(point=(0,), loss=1.0)])
        assert store.num_kept() == 2  # of both studies: what an interrupt tells


# --- several at once ------------------------------------------------------------------------------------------------


def _keep_on(path, first):
    with opened(path) as kept:
        study = kept.study("mine", {})
        for number in range(first, first + 200):
            study.keep([Scored(point=(number,), loss=float(number))])


def test_two_processes_share_one_new_file(tmp_path):
    jobs = [multiprocessing.Process(target=_keep_on, args=(tmp_path / "a.db", first)) for first in (0, 100)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join(60)
    assert [job.exitcode for job in jobs] == [0, 0]
    with opened(tmp_path / "a.db") as kept:
        assert set(kept.study("mine", {}).known()) == {(number,) for number in range(300)}


def _keep_and_say(path, said):
    with opened(path) as kept:
        study = kept.study("mine", {})
        for number in range(100_000):
            study.keep([Scored(point=(number,), loss=1.0)])
            said.value = number


def test_a_killed_process_loses_nothing_that_it_kept(tmp_path):
    said = multiprocessing.Value("q", -1)
    job = multiprocessing.Process(target=_keep_and_say, args=(tmp_path / "a.db", said))
    job.start()
    while said.value < 50 and job.is_alive():
        time.sleep(0.005)
    job.kill()
    job.join(60)
    with opened(tmp_path / "a.db") as kept:
        points = set(kept.study("mine", {}).known())
    assert points >= {(number,) for number in range(said.value + 1)}


def test_a_file_that_another_process_does_not_let_go_of_is_told(tmp_path, monkeypatch):
    kept_in(tmp_path / "a.db")
    monkeypatch.setattr(faults, "WAIT_S", 0.05)
    with opened(tmp_path / "a.db") as store, closing(sqlite3.connect(tmp_path / "a.db")) as other:
        study = store.study("mine", INPUTS, FIGURES)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(InvalidInput, match=r"another process .* for more than 0\.05 s; the 2 rows of this study"):
            study.keep([Scored(point=(0, 0), loss=1.0)])
        with pytest.raises(InvalidInput, match="once it has ended, run the same command again"):
            known_in(tmp_path / "a.db")
        other.rollback()
        study.keep([Scored(point=(0, 0), loss=1.0)])
        assert len(study.known()) == 3


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
        with pytest.raises(InvalidInput, match=r"ours\.db-wal beside it is damaged, or of another"), use(ours):
            pass
    assert ours.read_bytes() == content
    (tmp_path / "ours.db-wal").unlink()
    assert known_in(ours) == whole


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


# --- disks and permissions ------------------------------------------------------------------------------------------

KEEP_ON = """
import sys
from pathlib import Path
from dovetail.errors import InvalidInput
from dovetail.search.algorithms import Scored
from dovetail.store import opened
try:
    with opened(Path(sys.argv[1])) as store:
        study = store.study("mine", {})
        for number in range(100_000):
            study.keep([Scored(point=(number, place), loss=1.0, plan="p" * 50) for place in range(20)])
except InvalidInput as error:
    print(error)
"""


def _ran(code: str, *arguments: object, **how: object) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT, env=environment(), capture_output=True, text=True, encoding="utf-8", timeout=120, check=False, **how,
    )  # type: ignore[call-overload]  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
    return str(ran.stdout)


def _rows_told(said: str, *words: str) -> int:
    """How many rows a line says are kept."""
    assert said.count("\n") == 1
    for word in (*words, "run the same command again to go on"):
        assert word in said
    return int(said.partition(" rows of this study are kept")[0].rpartition("the ")[2].replace(",", ""))


def test_a_file_that_may_grow_no_more_keeps_what_it_has(tmp_path):
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))  # noqa: E731
    told = _rows_told(_ran(KEEP_ON, tmp_path / "a.db", preexec_fn=limit), "cannot be written or read (IOERR", "ulimit")
    with opened(tmp_path / "a.db") as store:
        [study] = store.studies()
        assert len(store.at(study.key).known()) == told > 0


def test_a_full_disk_keeps_what_it_has(tmp_path):
    """On a real file system of 400 kB."""
    enter = ["unshare", "--mount", "--map-root-user", "sh", "-c"]
    mount = f"mount -t tmpfs -o size=400k none {tmp_path}"
    if not shutil.which("unshare") or subprocess.run([*enter, mount], capture_output=True, check=False).returncode:
        pytest.skip("this system lets nobody mount a file system of their own")
    code, count = tmp_path.with_name("keep.py"), tmp_path.with_name("count.py")
    code.write_text(KEEP_ON, encoding="utf-8")
    counted = 'print(len(store.study("mine", {}).known()))\n'
    count.write_text(KEEP_ON.partition("        study =")[0] + f"        {counted}except ZeroDivisionError: pass\n")
    script = f"{mount} && {sys.executable} {code} {tmp_path}/a.db && {sys.executable} {count} {tmp_path}/a.db"
    ran = subprocess.run([*enter, script], env=environment(), capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    said, num_rows = ran.stdout.splitlines(keepends=True)
    assert _rows_told(said, "there is no room left to write to", "make room") == int(num_rows) > 0


AS_ANOTHER = """
import os, sys
from pathlib import Path
from dovetail.errors import InvalidInput
from dovetail.search.algorithms import Scored
from dovetail.store import opened, reading
if os.getuid() == 0:
    os.setuid(65534)  # permissions do not bind root
try:
    with {use}(Path(sys.argv[1])) as store:
        print(sum(study.num_rows for study in store.studies()))
except InvalidInput as error:
    print(error)
"""


@pytest.fixture
def locked():
    """A folder that may be read and not written to, with a store in it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kept_in(folder / "a.db")
        (folder / "a.db").chmod(0o444)
        folder.chmod(0o555)
        yield folder
        folder.chmod(0o755)


def test_a_store_in_a_read_only_folder_is_looked_at_and_not_written_to(locked):
    assert _ran(AS_ANOTHER.format(use="reading"), locked / "a.db") == "2\n"
    for name in ("a.db", "new.db"):
        said = _ran(AS_ANOTHER.format(use="opened"), locked / name)
        assert "cannot be written: it or its folder is read-only, or of somebody else; allow writing" in said
    assert [file.name for file in locked.iterdir()] == ["a.db"]


def test_a_store_that_may_not_be_read_is_told(locked):
    (locked / "a.db").chmod(0)
    for use in ("opened", "reading"):
        assert "cannot be read: permission denied" in _ran(AS_ANOTHER.format(use=use), locked / "a.db")


def test_rows_still_beside_a_store_that_cannot_be_written_to_are_not_passed_over(locked):
    locked.chmod(0o755)
    (locked / "a.db").chmod(0o644)
    with opened(locked / "a.db") as store:
        store.study("mine", INPUTS, FIGURES).keep([Scored(point=(0, 0), loss=1.0)])
        beside = (locked / "a.db-wal").read_bytes()
    (locked / "a.db-wal").write_bytes(beside)
    locked.chmod(0o555)
    assert "rows still in a.db-wal; copy both files elsewhere" in _ran(
        AS_ANOTHER.format(use="reading"), locked / "a.db"
    )
