"""The documentation as `make docs` builds it, for tests to look at."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.once import made_once

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT_S = 900


def built_once(factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, built for all tests of a run; nobody writes into it."""
    return made_once(factory, "site", built) / "site"


def built(folder: Path) -> Path:
    """The folder of the site that a copy of the documentation builds into; fails on any warning."""
    shutil.copy2(ROOT / "zensical.toml", folder)
    shutil.copytree(ROOT / "docs", folder / "docs")
    ran = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--clean", "--strict"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    said = ran.stdout + ran.stderr
    assert ran.returncode == 0, said
    assert "No issues found" in said, said
    return folder / "site"
