"""The same search by workers and by a Dask cluster: the same answer, also where workers are killed; nobody is left."""

from __future__ import annotations

import importlib.util
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager

import psutil
import pytest

from tests.e2e.conftest import ROOT, environment
from tests.e2e.test_bad_input import check_refused

SMALL = ("mine", "resnet-18", "--batch", "4", "--algorithm", "random", "--budget", "960", "--seed", "3", "--json")
LONG = (*SMALL[:-4], "20000", *SMALL[-3:])  # nobody waits for its end
PATIENCE_S = 600  # for what has hung

needs_dask = pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="Dask is not installed")


def started(*arguments, **changes):
    """A command in a session of its own, as a shell starts one."""
    return subprocess.Popen(
        [sys.executable, "-m", "dovetail", *map(str, arguments)],
        cwd=ROOT,
        env=environment() | changes,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def answer_of(running):
    said, told = running.communicate(timeout=PATIENCE_S)
    return running.returncode, said, told


def until(is_true):
    limit_s = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < limit_s, "it never came"
        time.sleep(0.02)


def workers_of(running):
    """Processes that it started to work for it; those that only keep its books are none."""
    children = psutil.Process(running.pid).children(recursive=True)
    return [child for child in children if "spawn_main" in " ".join(child.cmdline())]


def num_rows(file):
    try:
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as link:
            [number] = link.execute("SELECT count(*) FROM points").fetchone()
            return number
    except sqlite3.OperationalError:
        return 0


@pytest.fixture(scope="module")
def alone():
    """The answer without workers."""
    code, said, told = answer_of(started(*SMALL))
    assert (code, told) == (0, "")
    return said


def test_two_workers_answer_the_same_also_where_one_is_killed(alone, tmp_path):
    file = tmp_path / "designs.db"
    running = started(*SMALL, "--workers", "2", "--store", file)
    until(lambda: num_rows(file) > 0)
    workers_of(running)[0].kill()
    assert answer_of(running) == (0, alone, "")
    assert num_rows(file) == 960


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
def test_a_command_that_is_ended_leaves_no_worker(tmp_path, number):
    file = tmp_path / "designs.db"
    running = started(*LONG, "--workers", "2", "--store", file)
    until(lambda: num_rows(file) > 0)
    workers = workers_of(running)
    assert len(workers) == 2
    if number == signal.SIGINT:
        os.killpg(running.pid, number)  # as a terminal does: to all of them
    else:
        running.kill()
    code, _, told = answer_of(running)
    if number == signal.SIGINT:
        assert (code, told) == (130, "dovetail: interrupted\n")
    until(lambda: not any(worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE for worker in workers))
    assert num_rows(file) > 0


class Dask:
    """A scheduler, and workers where they are wanted, on this machine, by the commands that people type."""

    def __init__(self, folder):
        self._folder, self._processes = folder, []
        listing = folder / "scheduler.json"
        words = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(listing))
        self.scheduler = self._start("scheduler", *words)
        until(lambda: listing.exists() and '"address": "' in listing.read_text(encoding="utf-8"))
        self.address = listing.read_text(encoding="utf-8").partition('"address": "')[2].partition('"')[0]

    def add_workers(self, number):
        words = ("--nworkers", str(number), "--nthreads", "1", "--no-dashboard")
        process = self._start("worker", self.address, *words)
        until(lambda: (self._folder / "worker.log").read_text(encoding="utf-8").count("Registered to") == number)
        return psutil.Process(process.pid)

    def _start(self, kind, *words):
        with (self._folder / f"{kind}.log").open("w", encoding="utf-8") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", kind, *words],
                cwd=self._folder,
                env=environment(),
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._processes.append(process)
        return process

    def end(self):
        for process in reversed(self._processes):
            for child in psutil.Process(process.pid).children(recursive=True) if process.poll() is None else ():
                child.kill()
            process.kill()
            process.wait(PATIENCE_S)


@needs_dask
@pytest.mark.slow
def test_a_dask_cluster_answers_the_same_where_a_worker_is_killed_and_says_where_its_scheduler_is(alone, tmp_path):
    with closing_by_end(Dask(tmp_path)) as cluster:
        nannies = cluster.add_workers(2)
        file = tmp_path / "designs.db"
        running = started(*SMALL, "--dask", cluster.address, "--store", file)
        until(lambda: num_rows(file) > 0)
        max(nannies.children(), key=lambda child: child.cpu_times().user).kill()
        assert answer_of(running) == (0, alone, "")
        assert num_rows(file) == 960

        file = tmp_path / "more.db"
        running = started(*LONG, "--dask", cluster.address, "--store", file)
        until(lambda: num_rows(file) > 0)
        cluster.scheduler.kill()
        code, _, told = answer_of(running)
        assert (code, told.count("\n")) == (2, 1)
        assert f"the Dask scheduler at {cluster.address} is gone" in told
        assert num_rows(file) > 0


@contextmanager
def closing_by_end(cluster):
    try:
        yield cluster
    finally:
        cluster.end()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("mine resnet-18 --workers 0", "--workers must be at least 1"),
        ("mine resnet-18 --workers 2 --dask tcp://127.0.0.1:1", "are two engines; choose one"),
        ("mine resnet-18 --dask 127.0.0.1:1", "no Dask scheduler answers at 127.0.0.1:1"),
    ],
)
def test_engines_that_cannot_be_are_refused(dovetail, words, reason):
    check_refused(dovetail(*words.split()), reason)
