"""What several workers of a run need is made once: by the first that asks, while the others wait for it."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

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


@contextmanager
def _held(file: Path) -> Iterator[None]:
    with file.open("w", encoding="utf-8") as lock:
        if CAN_LOCK:
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX)  # closing lets go of it, and so does the end of the process
        yield
