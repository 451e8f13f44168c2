"""What a search was told is kept, found again, and never mixed with the numbers of another question or model."""

from __future__ import annotations

import math
import multiprocessing
import sqlite3
import time

import pytest

from dovetail import store
from dovetail.errors import InvalidInput
from dovetail.search.algorithms import Scored
from dovetail.store import opened

FOUND = [
    Scored(point=(1, 2), loss=3.25, also=(280.0,), short_of="num_vector"),
    Scored(point=(4, 0), loss=math.inf, excess_frac=0.5),
]


def test_what_was_kept_is_found_again(tmp_path):
    with opened(tmp_path / "a.db") as kept:
        kept.study("mine", {"model": "bert"}).keep(FOUND)
    with opened(tmp_path / "a.db") as kept:
        assert kept.study("mine", {"model": "bert"}).known() == {one.point: one for one in FOUND}


def test_another_question_or_model_starts_anew(tmp_path, monkeypatch):
    with opened(tmp_path / "a.db") as kept:
        kept.study("mine", {"model": "bert"}).keep(FOUND)
        assert not kept.study("mine", {"model": "gpt2"}).known()
        assert not kept.study("codesign", {"model": "bert"}).known()
        monkeypatch.setattr(store, "model_version", lambda: "0.0.0+another")
        assert not kept.study("mine", {"model": "bert"}).known()
        assert [study.num_points for study in kept.studies()] == [2, 0, 0, 0]


def test_the_model_version_names_the_release_and_the_source():
    version, _, digest = store.model_version().partition("+")
    assert version == "0.1.0"
    assert len(digest) == 12


def test_a_point_kept_twice_is_there_once(tmp_path):
    with opened(tmp_path / "a.db") as kept:
        study = kept.study("mine", {})
        study.keep(FOUND)
        study.keep(FOUND)
        assert len(study.known()) == 2


@pytest.mark.parametrize("content", [b"not a database at all" * 100, b"SQLite format 3\0" + b"\xff" * 2000])
def test_another_file_is_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match="is not a store"), opened(path):
        pass
    assert path.read_bytes() == content


def test_a_database_of_somebody_else_is_refused(tmp_path):
    link = sqlite3.connect(tmp_path / "other.db")
    link.execute("CREATE TABLE customers (name TEXT)")
    link.commit()
    link.close()
    with pytest.raises(InvalidInput, match="name another file"), opened(tmp_path / "other.db"):
        pass


def _keep_on(path, first):
    with opened(path) as kept:
        study = kept.study("mine", {})
        for number in range(first, first + 200):
            study.keep([Scored(point=(number,), loss=float(number))])


def test_two_processes_share_one_new_file(tmp_path):
    jobs = [multiprocessing.Process(target=_keep_on, args=(tmp_path / "a.db", first)) for first in (0, 1000)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join(60)
    assert [job.exitcode for job in jobs] == [0, 0]
    with opened(tmp_path / "a.db") as kept:
        assert len(kept.study("mine", {}).known()) == 400


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
