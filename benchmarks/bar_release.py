"""The last look before a release: a first answer, pages that add a thing, and ten runs of the suite."""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import dovetail
from benchmarks.bar import REPOSITORY, Bar
from benchmarks.stamp import commit, newest_result
from benchmarks.suite_runs import WHAT, blemishes, of_last_commit
from tests.e2e.test_pages import PAGES
from tests.pages import File, steps

ISSUE = 10
FIRST_ANSWER_S = 180.0
SUITE_S = 600.0
NUM_RUNS = 10
CORES = "-2cpu"  # how a machine of two cores is recorded
TIMES_NAME, CLEAN_NAME = "the test suite on 2 cores", "runs of the test suite of one commit, and what failed in them"
ADDED = ("chip", "model", "collective", "pipeline-schedule", "search-algorithm")


def bars() -> Iterator[Bar]:
    yield _first_answer()
    yield _pages()
    yield from _suite()
    yield _version()


def _first_answer() -> Bar:
    name, bar = "a fresh clone with an empty HOME: `make run`, installation and answer", f"< {FIRST_ANSWER_S:.0f} s"
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        home.mkdir()
        begun_s = time.perf_counter()
        cloned = subprocess.run(["git", "clone", "-q", str(REPOSITORY), "clone"], cwd=folder, check=False)
        if cloned.returncode:
            return _bar(name, bar, "-", None, "this is no clone, so there is nothing to clone")
        environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
        run = subprocess.run(
            ["make", "run"],
            cwd=Path(folder) / "clone",
            env=environment | {"HOME": str(home)},
            capture_output=True,
            text=True,
            check=False,
        )
        taken_s = time.perf_counter() - begun_s
    if run.returncode:
        return _bar(name, bar, "no answer", False, (run.stderr.strip() or "no word").splitlines()[-1])
    return _bar(name, bar, f"{taken_s:.0f} s", taken_s < FIRST_ANSWER_S, f"commit {commit()}")


def _pages() -> Bar:
    followed = {page.stem: page.read_text(encoding="utf-8") for page in PAGES}
    missing = [thing for thing in ADDED if _num_source_files(followed.get(f"add-a-{thing}", "")) != 1]
    name = "pages on adding a chip, model, collective, schedule, algorithm: one file each, followed by tests"
    return _bar(name, "5", f"{len(ADDED) - len(missing)}", not missing, ", ".join(missing))


def _num_source_files(page: str) -> int:
    """That a page has its reader save into the package; tests follow it, and nothing else is changed."""
    return sum(isinstance(step, File) and step.name.startswith("src/") for step in steps(page))


def _suite() -> Iterator[Bar]:
    file = newest_result(WHAT)
    if file is None:
        for name in (TIMES_NAME, CLEAN_NAME):
            yield _bar(name, "recorded", "-", None, "no record; `python -m benchmarks.suite_runs` makes one")
        return
    yield from suite_bars(of_last_commit(json.loads(file.read_text(encoding="utf-8"))["runs"]))


def suite_bars(runs: Sequence[Mapping[str, Any]]) -> Iterator[Bar]:
    """Of runs of one commit on one machine: their median time, and whether all were clean."""
    last = runs[-1]
    taken_s, where = statistics.median(run["seconds"] for run in runs), f"commit {last['commit']}, {last['machine']}"
    holds = taken_s < SUITE_S if last["machine"].endswith(CORES) else None
    how = f"median of {len(runs)}, {where}; {last['skipped']} tests skipped"
    yield _bar(TIMES_NAME, f"< {SUITE_S / 60:.0f} min", f"{taken_s / 60:.1f} min", holds, how)
    found = blemishes(runs)
    measured = f"{len(runs)} runs, {len(found)} blemishes"
    yield _bar(
        CLEAN_NAME, f"{NUM_RUNS} runs, none", measured, len(runs) >= NUM_RUNS and not found, ", ".join(found) or where
    )


def _version() -> Bar:
    changelog = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## (\d+\.\d+\.\d+) - \d{4}-\d\d-\d\d$", changelog, re.MULTILINE)
    last = released[0] if released else "none"
    name = "the version of the package is the changelog's last"
    return _bar(name, last, dovetail.__version__, dovetail.__version__ == last)


def _bar(name: str, bar: str, measured: str, holds: bool | None, note: str = "") -> Bar:
    return Bar(name=name, issue=ISSUE, bar=bar, measured=measured, holds=holds, note=note)
