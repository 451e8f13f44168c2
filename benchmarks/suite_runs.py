"""Run the whole test suite several times and record seconds and failures: `python -m benchmarks.suite_runs`.

Every run is written down as it ends, so that a run that is cut short loses nothing; `--fresh` begins a new record,
otherwise runs of the same day and machine are added to those that stand there. A test that fails in one run and passes
in another, of the same commit, is a flake.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.bar import REPOSITORY
from benchmarks.stamp import result_file, stamp

WHAT = "suite"
ENDED = (0, 1)  # pytest's exit codes where all tests were run: all passed, or some failed
COMMAND = ("-m", "pytest", "-q", "-n", "auto", "--maxprocesses", "8", "--dist", "worksteal")  # as `make test` runs it


def one_run(tests: Sequence[str] = ()) -> dict[str, object]:
    """The suite, or the tests named, once: seconds, load of the machine before, how many passed, and what failed."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        begun_s = time.perf_counter()
        command = [sys.executable, *COMMAND, f"--junitxml={report}", *tests]
        ended = subprocess.run(command, cwd=REPOSITORY, stdout=sys.stderr, check=False)
        taken_s = time.perf_counter() - begun_s
        outcome = outcome_of(report, ended.returncode)
    return stamp() | {"seconds": round(taken_s, 1), "load_before": round(load, 2)} | outcome


def outcome_of(report: Path, code: int) -> dict[str, object]:
    """Counts and the names of failed tests, of a JUnit report; a suite that never ended has failed as a whole."""
    if code not in ENDED or not report.is_file():
        return {"passed": 0, "skipped": 0, "failed": [f"the suite did not end: pytest's exit code is {code}"]}
    cases = list(ElementTree.parse(report).iter("testcase"))
    failed = [
        _name(case.attrib) for case in cases if case.find("failure") is not None or case.find("error") is not None
    ]
    num_skipped = sum(case.find("skipped") is not None for case in cases)
    return {"passed": len(cases) - len(failed) - num_skipped, "skipped": num_skipped, "failed": sorted(set(failed))}


def _name(case: Mapping[str, str]) -> str:
    return f"{case['classname']}::{case['name']}"


def flakes(runs: Sequence[Mapping[str, object]]) -> list[str]:
    """Tests that failed in some and not in all runs of one commit."""
    found: set[str] = set()
    for commit in {str(run["commit"]) for run in runs}:
        sets: list[set[str]] = [set(_failed(run)) for run in runs if run["commit"] == commit]
        found |= {name for failed in sets for name in failed if any(name not in other for other in sets)}
    return sorted(found)


def of_last_commit(runs: Sequence[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """The runs that can be compared: of the commit and the machine of the last one."""
    last = runs[-1]
    return [run for run in runs if (run["commit"], run["machine"]) == (last["commit"], last["machine"])]


def blemishes(runs: Sequence[Mapping[str, object]]) -> list[str]:
    """Why runs of one commit are not all clean: tests that failed, none that passed, or not the same number each time.

    Where tests come and go, something decides about them that is not in the code.
    """
    found = sorted({name for run in runs for name in _failed(run)})
    if counts := {(run["passed"], run["skipped"]) for run in runs}:
        found += ["nothing passed"] if any(not passed for passed, _ in counts) else []
        found += [f"passed and skipped differ between runs: {sorted(counts, key=str)}"] if len(counts) > 1 else []
    return found


def _failed(run: Mapping[str, object]) -> list[str]:
    failed = run["failed"]
    assert isinstance(failed, list)
    return failed


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.suite_runs", description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=10, metavar="N", help="how many runs (default: 10)")
    parser.add_argument("--fresh", action="store_true", help="forget the runs recorded today")
    parser.add_argument("--file", type=Path, default=result_file(WHAT), help="where to record them")
    parser.add_argument("tests", nargs="*", help="only these, for a trial")
    chosen = parser.parse_args(arguments)
    if chosen.times < 1:
        parser.error(f"--times must be at least 1; got {chosen.times}")
    if chosen.tests and chosen.file == result_file(WHAT):
        parser.error("a trial of some tests is no run of the suite: pass --file, and it is recorded there")
    is_kept = chosen.file.is_file() and not chosen.fresh
    runs = json.loads(chosen.file.read_text(encoding="utf-8"))["runs"] if is_kept else []
    for _ in range(chosen.times):
        runs.append(one_run(chosen.tests))
        chosen.file.parent.mkdir(parents=True, exist_ok=True)
        chosen.file.write_text(json.dumps({"runs": runs, "flakes": flakes(runs)}, indent=2) + "\n", encoding="utf-8")
        last = runs[-1]
        print(f"run {len(runs)}: {last['seconds']} s, {last['passed']} passed, failed: {last['failed'] or 'none'}")
    return 1 if flakes(runs) or _failed(runs[-1]) else 0


if __name__ == "__main__":
    raise SystemExit(main())
