"""What several workers of a run need is made once: by the first that asks, while the others wait for it."""

from __future__ import annotations

import importlib.util
import os
import pickle
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

Value = TypeVar("Value")

CAN_LOCK = importlib.util.find_spec("fcntl") is not None  # not on Windows, where every worker makes its own


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The folder of this name that `make` has filled; workers share it, other runs on this machine do not."""
    own = factory.getbasetemp()
    is_shared = CAN_LOCK and "PYTEST_XDIST_WORKER" in os.environ
    folder = (own.parent if is_shared else own) / f"once-{name}"
    done = folder.with_suffix(".done")
    with _held(folder.with_suffix(".lock")):
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)  # of one that failed
            folder.mkdir()
            make(folder)
            done.touch()
    return folder


def computed_once(name: str, compute: Callable[[], Value]) -> Value:
    """What `compute` gives, which a process of this run that asked before may have computed and kept.

    Commands that a test starts may ask too, as the folder of the run is in their environment.
    """
    kept = os.environ.get("DOVETAIL_TESTS_FOLDER")
    if not CAN_LOCK or not kept:
        return compute()
    file = Path(kept) / f"{name}.pickle"
    with _held(file.with_suffix(".lock")):
        if file.exists():
            found: Value = pickle.loads(file.read_bytes())  # of this run
            return found
        value = compute()
        partial = file.with_suffix(".partial")
        partial.write_bytes(pickle.dumps(value))
        partial.rename(file)
        return value


@contextmanager
def _held(file: Path) -> Iterator[None]:
    with file.open("w", encoding="utf-8") as lock:
        if CAN_LOCK:
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX)  # closing lets go of it, and so does the end of the process
        yield
