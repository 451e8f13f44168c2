"""A search with a store that is killed, interrupted or run twice at once answers as if nothing had been."""

from __future__ import annotations

import json
import signal
import time
from random import Random

import pytest

from tests.e2e.conftest import TIMEOUT_S
from tests.e2e.killing import Killed, killed_after_rows, resumed_as_whole, rows_of, started, whole_run

NUM_DESIGNS = 240
SEARCH = ("mine", "bert-large", "--batch", "8", "--algorithm", "random", "--budget", str(NUM_DESIGNS), "--seed", "3")
LONG = (*SEARCH, "--json")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    found = whole_run(LONG, tmp_path_factory.mktemp("whole") / "whole.db")
    assert json.loads(found.stdout)["num_evaluated"] == len(found.rows) == NUM_DESIGNS
    return found


def killed_before_its_end(store, num_rows) -> Killed:
    """Once more from where it began if it came to its end first, as it may where a busy machine lets nobody look."""
    before = {file: file.read_bytes() for file in store.parent.iterdir()}
    while (kill := killed_after_rows(LONG, store, num_rows)).has_ended:
        for file in store.parent.iterdir():
            file.unlink()
        for file, data in before.items():
            file.write_bytes(data)
    return kill


def test_a_search_killed_three_times_answers_as_if_nothing_had_been(tmp_path, whole):
    store, rng = tmp_path / "designs.db", Random(1)
    moments = [0, *sorted(rng.sample(range(1, NUM_DESIGNS - 40), 2))]
    kills = [killed_before_its_end(store, num_rows) for num_rows in moments]
    assert not any(kill.has_ended for kill in kills)
    left = [kill.num_rows for kill in kills]
    assert all(moment <= num_rows for moment, num_rows in zip(moments, left, strict=True))
    assert left == sorted(left)
    assert resumed_as_whole(LONG, store, whole) == []


def test_two_searches_at_once_share_their_rows_and_answer_alike(tmp_path, whole):
    both = [started(LONG, tmp_path / "designs.db") for _ in range(2)]
    said = [running.communicate(timeout=TIMEOUT_S) for running in both]
    assert said == [(whole.stdout, "")] * 2
    assert rows_of(tmp_path / "designs.db") == whole.rows


def test_an_interrupt_says_what_is_kept_and_how_to_go_on(tmp_path):
    store = tmp_path / "designs.db"
    running = started(SEARCH, store)
    while running.poll() is None and len(rows_of(store)) < 10:
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=TIMEOUT_S)
    kept = f"{len(rows_of(store)):,} designs are kept in {store}"
    assert (running.returncode, out) == (130, "")
    assert err == f"dovetail: interrupted; {kept}; to go on: dovetail {' '.join(SEARCH)} --store {store}\n"
