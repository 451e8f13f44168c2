"""Whoever follows a page gets what it shows: its files are saved and its commands typed, in a copy, in its order."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, environment
from tests.e2e.recorded import check_recorded
from tests.e2e.warm import CAN_FORK
from tests.pages import Command, File, rewritten, steps

DOCS = ROOT / "docs"
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if "\n```console\n" in page.read_text(encoding="utf-8")]
TOOL = ROOT / "tests" / "e2e" / "warm_tool.py"
TIMEOUT_S = 900  # for what has hung
COPIED = ("src", "tests", "pyproject.toml")  # where a page adds a file to them
LINKED = ("examples", "benchmarks", "docs")
ADDED = ("chip", "model", "collective", "pipeline-schedule", "search-algorithm", "measurements", "optimizer")
USERS = ("first-prediction", "train-a-model", "choose-a-chip", "study-a-network")


def _own() -> dict[str, str]:
    """A reader's environment: nothing of the run of tests that we are in goes on to the one that a page starts."""
    return {name: value for name, value in environment().items() if not name.startswith("PYTEST_")}


@pytest.fixture(scope="module")
def warm() -> Iterator[str]:
    """Where the tool that pages type is answered by forks of one process, or nothing where there are none."""
    if not CAN_FORK:
        yield ""
        return
    with tempfile.TemporaryDirectory(prefix="dovetail-pages-") as folder:
        address = str(Path(folder) / "socket")
        words = [sys.executable, str(TOOL), "--serve", address]
        own = _own() | {"OPENBLAS_NUM_THREADS": "1"}  # threads do not survive a fork
        with subprocess.Popen(words, env=own, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            assert server.stdout.readline() == "ready\n"
            yield address
            server.terminate()


class Reader:
    """Somebody with a fresh clone in `folder`, who does what a page says."""

    def __init__(self, folder: Path, page: str, warm: str) -> None:
        self._folder = folder
        adds = any(isinstance(step, File) and step.name.startswith(COPIED) for step in steps(page))
        for name in COPIED:
            if adds and (ROOT / name).is_dir():  # of links: what is compiled already is not copied, nor compiled again
                shutil.copytree(ROOT / name, folder / name, copy_function=os.symlink)
            else:
                (folder / name).symlink_to(ROOT / name)
        for name in LINKED:
            (folder / name).symlink_to(ROOT / name)
        self._tools = folder / ".tools"
        self._tools.mkdir()
        self._fresh = {"XDG_CACHE_HOME": str(folder / ".cache")}  # nothing is kept from before
        self._install("python", f'exec "{sys.executable}" "$@"')
        if warm and not adds:
            self._install("dovetail", f'exec "{sys.executable}" -I -S "{TOOL}" "{warm}" "$@"')
        else:  # a package that has one file more
            self._install("dovetail", f'exec "{sys.executable}" -m dovetail "$@"')

    def _install(self, name: str, line: str) -> None:
        tool = self._tools / name
        tool.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
        tool.chmod(0o755)

    def does(self, step: File | Command) -> str:
        """What the screen shows."""
        if isinstance(step, File):
            file = self._folder / step.name
            assert not file.exists(), f"{step.name} is there already"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(step.text, encoding="utf-8")
            return ""
        path = f"{self._tools}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        ran = subprocess.run(
            ["bash", "-c", step.typed],
            cwd=self._folder,
            env=_own() | {"PYTHONPATH": str(self._folder / "src"), "PATH": path} | self._fresh,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            check=False,
            timeout=TIMEOUT_S,
        )
        assert "Traceback" not in ran.stdout, ran.stdout
        return ran.stdout


def test_every_user_has_a_tutorial_and_every_addition_a_page_that_can_be_followed():
    followed = {page.relative_to(DOCS).as_posix() for page in PAGES}
    assert followed >= {f"tutorial/{name}.md" for name in USERS}
    articles = {"measurements": "", "optimizer": "an-"}
    assert followed >= {f"howto/add-{articles.get(name, 'a-')}{name}.md" for name in ADDED}


@pytest.mark.parametrize("user", USERS)
def test_what_a_tutorial_begins_with_is_there_to_be_run(user):
    page = (DOCS / "tutorial" / f"{user}.md").read_text(encoding="utf-8")
    [setup] = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert setup.startswith("make run ")
    dry = subprocess.run(["make", "-n", "run"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
    assert "dovetail" in dry.stdout
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert set(re.findall(r"\.\[(\w+)\]", setup)) <= set(extras)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_can_be_followed(page, tmp_path, bless, warm):
    text = page.read_text(encoding="utf-8")
    check_recorded(page, rewritten(text, Reader(tmp_path, text, warm).does), bless)
