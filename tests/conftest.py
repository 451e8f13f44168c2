from __future__ import annotations

import gc
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import HealthCheck, settings


def spare_processes() -> None:
    """Of the hundreds that tests start, each would compile the package again, and bring threads for every core."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # a worker for each core is enough: threads of theirs wait for each other


spare_processes()  # before a conftest of a folder imports NumPy, which reads it once

# The same examples every time: a failure in CI is the failure you get at home. No deadline: CI machines stall. As they
# are the same, more of them find nothing new the second time: DOVETAIL_EXAMPLES=300 tries more where a law is changed.
settings.register_profile(
    "dovetail",
    derandomize=True,
    deadline=None,
    max_examples=int(os.environ.get("DOVETAIL_EXAMPLES", "30")),
    suppress_health_check=(HealthCheck.too_slow,),
)
settings.load_profile("dovetail")

RUN_FOLDER = "DOVETAIL_TESTS_FOLDER"  # names a folder that all workers of a run share, and no other run
LONG_FIRST = ("validation", "e2e", "property", "capture")  # folders of the longest tests


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--bless", action="store_true", help="rewrite golden files and recorded outputs instead of comparing with them"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Makes a folder for the run, and lets commands be ended where a shell had its signals ignored.

    A shell that runs tests in the background ignores interrupts, and `nohup` hangups.
    """
    gc.disable()  # until all is collected: none of it is garbage
    if RUN_FOLDER not in os.environ:
        os.environ[RUN_FOLDER] = folder = tempfile.mkdtemp(prefix="dovetail-tests-")
        config.add_cleanup(lambda: _remove(folder))
    if threading.current_thread() is threading.main_thread():
        _heed("SIGINT", signal.default_int_handler)
        _heed("SIGHUP", _hung_up)


def _heed(name: str, handler: Callable[[int, FrameType | None], object]) -> None:
    """A signal that is ignored, where this system has it: a process that is started would ignore it too."""
    number = getattr(signal, name, None)
    if number is not None and signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, handler)


def _hung_up(number: int, frame: FrameType | None) -> None:
    """The run goes on, as was wanted of it; handlers, other than what is ignored, are not inherited."""


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compiles the loops while workers collect: in a fresh clone each worker would, for 25 s, and so would commands."""
    config = session.config
    if not getattr(config.option, "numprocesses", None) or importlib.util.find_spec("numba") is None:
        return
    words = (sys.executable, "-m", "dovetail", "schedule", "bert-base", "--chip", "tpuv2-like")
    own = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parent.parent / "src")}
    compiling = subprocess.Popen(words, env=own, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    config.add_cleanup(lambda: _end(compiling))


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _remove(folder: str) -> None:
    del os.environ[RUN_FOLDER]
    shutil.rmtree(folder, ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests first: short ones fill what is left at the end, where a long one would keep the others waiting.

    Those of no folder come last: some need what a worker computes for `validation/`, and would wait for it.
    """
    folders = [f"tests/{name}/" for name in LONG_FIRST]

    def place(item: pytest.Item) -> list[bool]:
        of_no_folder = item.nodeid.count("/") == 1
        return [*(not item.nodeid.startswith(folder) for folder in folders), of_no_folder]

    items.sort(key=place)


def pytest_collection_finish(session: pytest.Session) -> None:
    """What is imported and collected stays to the end: no collection of garbage need look at it again and again."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def bless(request: pytest.FixtureRequest) -> bool:
    """Whether to rewrite what is recorded instead of comparing with it."""
    return bool(request.config.getoption("--bless"))
