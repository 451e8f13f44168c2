"""What every recorded measurement carries: the commit it is of, the day, and the machine in words."""

from __future__ import annotations

import datetime
import os
import platform
import re
import subprocess
from pathlib import Path

from benchmarks.bar import REPOSITORY

_DATE = re.compile(r"\d{4}-\d\d-\d\d")
RESULTS = REPOSITORY / "benchmarks" / "results"
NO_RESULTS = ":(exclude)benchmarks/results"  # of git: a record does not change what is recorded


def stamp() -> dict[str, str]:
    """Commit, date, machine and Python of a measurement made now; never the name of a host."""
    return {
        "commit": commit(),
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "python": platform.python_version(),
    }


def commit() -> str:
    """The commit that is checked out, with a `+` where files beside results differ; 'no commit' outside a clone."""
    short = _git("rev-parse", "--short", "HEAD")
    if not short:
        return "no commit"
    return f"{short}+" if _git("status", "--porcelain", "--untracked-files=no", "--", ".", NO_RESULTS) else short


def machine() -> str:
    """The system, the kind of processor and how many cores, as `linux-x86_64-2cpu`: part of a result's file name."""
    return f"{platform.system().lower()}-{platform.machine()}-{os.cpu_count()}cpu"


def result_file(what: str) -> Path:
    """Where today's result of `what` on this machine is kept."""
    return RESULTS / f"{what}_{machine()}_{datetime.date.today().isoformat()}.json"


def newest_result(what: str) -> Path | None:
    """The youngest recorded result of `what` on any machine, by the date in its name and then by the name."""
    dated = [(found[0], file) for file in RESULTS.glob(f"{what}_*.json") if (found := _DATE.search(file.stem))]
    return max(dated, key=lambda one: (one[0], one[1].name), default=("", None))[1]


def _git(*words: str) -> str:
    command = ["git", *words]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False).stdout.strip()
