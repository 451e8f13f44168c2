"""The last look before a release: a first answer, sizes, pages that add a thing, and ten runs of the suite."""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import dovetail
from benchmarks.bar import REPOSITORY, Bar
from benchmarks.stamp import commit, newest_result
from benchmarks.suite_runs import WHAT, flakes
from tests.e2e.test_pages import PAGES
from tests.size_ratchet import oversized
from tests.source_tree import source_modules

ISSUE = 10
FIRST_ANSWER_S = 180.0
SUITE_S = 900.0
NUM_RUNS = 10
QUIET_LOAD = 1.0  # processes wanting a core before a run began, above which its time says nothing of the suite
MODULE_LINES, FUNCTION_LINES = 400, 60
ADDED = ("chip", "model", "collective", "pipeline-schedule", "search-algorithm")


def bars() -> Iterator[Bar]:
    yield _first_answer()
    yield from _sizes()
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


def _sizes() -> Iterator[Bar]:
    lines = oversized(source_modules(), module_lines=0, function_lines=0)
    for what, is_function, most in (("module", False, MODULE_LINES), ("function", True, FUNCTION_LINES)):
        longest = max((name for name in lines if ("::" in name) == is_function), key=lambda name: lines[name])
        yield _bar(f"longest {what}", f"<= {most} lines", f"{lines[longest]} lines", lines[longest] <= most, longest)


def _pages() -> Bar:
    followed = {page.stem for page in PAGES}
    missing = [thing for thing in ADDED if f"add-a-{thing}" not in followed]
    name = "pages on adding a chip, model, collective, schedule, algorithm: one file each, followed by tests"
    return _bar(name, "5", f"{len(ADDED) - len(missing)}", not missing, ", ".join(missing))


def _suite() -> Iterator[Bar]:
    file = newest_result(WHAT)
    times_name, flakes_name = "the test suite on 2 cores", "runs of the test suite, and flakes among them"
    if file is None:
        for name in (times_name, flakes_name):
            yield _bar(name, "recorded", "-", None, "no record; `python -m benchmarks.suite_runs` makes one")
        return
    runs = json.loads(file.read_text(encoding="utf-8"))["runs"]
    quiet = [run["seconds"] for run in runs if run["load_before"] < QUIET_LOAD]
    taken_s = statistics.median(quiet) if quiet else min(run["seconds"] for run in runs)
    how = f"median of {len(quiet)} on a quiet machine" if quiet else f"least of {len(runs)}, all beside other work"
    yield _bar(times_name, f"< {SUITE_S / 60:.0f} min", f"{taken_s / 60:.1f} min", taken_s < SUITE_S, how)
    found = flakes(runs)
    holds = len(runs) >= NUM_RUNS and not found
    measured = f"{len(runs)} runs, {len(found)} flakes"
    note = ", ".join(found) or f"last of commit {runs[-1]['commit']}"
    yield _bar(flakes_name, f"{NUM_RUNS} runs, 0 flakes", measured, holds, note)


def _version() -> Bar:
    changelog = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## (\d+\.\d+\.\d+) - \d{4}-\d\d-\d\d$", changelog, re.MULTILINE)
    last = released[0] if released else "none"
    name = "the version of the package is the changelog's last"
    return _bar(name, last, dovetail.__version__, dovetail.__version__ == last)


def _bar(name: str, bar: str, measured: str, holds: bool | None, note: str = "") -> Bar:
    return Bar(name=name, issue=ISSUE, bar=bar, measured=measured, holds=holds, note=note)
