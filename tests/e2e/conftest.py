from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.warm import CAN_FORK, Warm

ROOT = Path(__file__).resolve().parents[2]
MINED = sorted((ROOT / "examples").glob("mine-*.yaml"))  # what `dovetail mine` takes
CODESIGNED = sorted((ROOT / "examples").glob("codesign-*.yaml"))  # what `dovetail codesign` takes
EXAMPLES = sorted({*(ROOT / "examples").glob("*.yaml")} - {*MINED, *CODESIGNED})
TIMEOUT_S = 600  # for what has hung: a busy machine takes its time, and no test is about that
# Of captures: not the user's own, and of this run alone, as tests/conftest.py says.
CACHE = (
    Path(os.environ.get("DOVETAIL_TESTS_FOLDER", tempfile.gettempdir()))
    / f"dovetail-tests-{getattr(os, 'getuid', int)()}"
)
Run = Callable[..., subprocess.CompletedProcess[str]]


def environment() -> dict[str, str]:
    """The test's own environment, with the package found and nothing said about colour."""
    kept = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR", "PYTHONUTF8")}
    own = {"PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8", "XDG_CACHE_HOME": str(CACHE)}
    return kept | own


@pytest.fixture(scope="session")
def started() -> Run:
    """`started("simulate", "spec.yaml")` runs the command as a person would, from the root of the repository."""

    def run(*arguments: str | Path, **changes: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "dovetail", *map(str, arguments)],
            cwd=ROOT,
            env=environment() | changes,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
            timeout=TIMEOUT_S,
        )

    return run


@pytest.fixture(scope="session")
def dovetail(started: Run) -> Iterator[Run]:
    """The same answer without the interpreter's start: in a process of its own, forked from one that has imported."""
    if not CAN_FORK:
        yield started
        return
    with Warm(ROOT, environment(), TIMEOUT_S) as warm:

        def run(*arguments: str | Path, **changes: str) -> subprocess.CompletedProcess[str]:
            if any(key.startswith("PYTHON") for key in changes):  # the interpreter reads these as it starts
                return started(*arguments, **changes)
            return warm.run([*map(str, arguments)], environment() | changes)

        yield run
