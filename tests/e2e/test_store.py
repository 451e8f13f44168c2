"""What a search was told is kept, found again, and never mixed with the numbers of another question or model."""

from __future__ import annotations

import multiprocessing
import sqlite3
import time
from contextlib import closing

import pytest

from dovetail.errors import InvalidInput
from dovetail.search.algorithms import Scored
from dovetail.store import faults, opened, reading, version
from tests.e2e.kept_rows import FIGURES, FOUND, INPUTS, kept_in, known_in


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
        other = version.Change(version=version.HISTORY[-1].version + 1, what="another model")
        monkeypatch.setattr(version, "HISTORY", (*version.HISTORY, other))
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
        job.join(600)
    assert [job.exitcode for job in jobs] == [0, 0]
    with opened(tmp_path / "a.db") as kept:
        assert set(kept.study("mine", {}).known()) == {(number,) for number in range(300)}


def _open_together(folder, num_files, barrier, refused):
    for number in range(num_files):
        barrier.wait(600)
        try:
            with opened(folder / f"{number}.db"):
                pass
        except InvalidInput as error:
            refused.put(str(error))


def test_two_processes_that_make_one_file_at_the_same_moment_both_open_it(tmp_path):
    """SQLite says BUSY at once while another connection switches a new file to write-ahead mode."""
    barrier = multiprocessing.Barrier(2)
    refused: multiprocessing.Queue[str] = multiprocessing.Queue()
    jobs = [multiprocessing.Process(target=_open_together, args=(tmp_path, 150, barrier, refused)) for _ in range(2)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join(600)
    assert [job.exitcode for job in jobs] == [0, 0]
    assert refused.empty()


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
    job.join(600)
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
