"""Tests in a forked process, with modules of the package replaced: no second import of NumPy, no copy of the project.

The process that forks must not have imported `dovetail`, so that each child imports it again, as it is to be. Loops run
as plain Python there: compiling a broken one takes longer than running it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType

from benchmarks.bar import REPOSITORY
from benchmarks.mutants import SOURCES

# what tests import anyway; had once by the process that forks, and never by the children again
SHARED_IMPORTS = ("numpy", "pytest", "hypothesis", "hypothesis.strategies", "yaml", "pydantic", "typer", "rich.table")
MOST_MEMORY_BYTES = 8 * 2**30
WALL_PER_CPU = 20.0  # a busy machine; a child that waits for ever is ended all the same
_TICK_S = 0.02
_OPTIONS = ("-q", "-x", "--tb=no", "--no-header", "--no-summary", "--assert=plain", "--import-mode=importlib")
_PLUGINS = ("no:cacheprovider", "no:xdist", "no:faulthandler", "no:terminalreporter")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a child ended: `code` of its exit, or the signal that ended it; `is_overrun` where it took too long."""

    code: int
    signal: int
    is_overrun: bool


def module_name(file: str) -> str:
    """`cost/area.py` is dovetail.cost.area."""
    parts = Path(file).with_suffix("").parts
    return ".".join(("dovetail", *(parts[:-1] if parts[-1] == "__init__" else parts)))


def import_shared() -> None:
    assert "dovetail" not in sys.modules, "dovetail is imported already: a fork would not see what is replaced"
    for name in SHARED_IMPORTS:
        importlib.import_module(name)


def forked(work: Callable[[], int], limit_s: float) -> Ended:
    """Does `work` in a child that may use so many CPU seconds, then ends whatever it has started."""
    pid = os.fork()
    if pid == 0:
        _become_child(limit_s)
        code = 70  # of a child that raised
        with contextlib.suppress(BaseException):
            code = work()
        os._exit(code)
    until_s = time.monotonic() + WALL_PER_CPU * limit_s
    done, status = os.waitpid(pid, os.WNOHANG)
    while not done and time.monotonic() < until_s:
        time.sleep(_TICK_S)
        done, status = os.waitpid(pid, os.WNOHANG)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    if not done:
        _, status = os.waitpid(pid, 0)
    ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    is_overrun = not done or ended_by == signal.SIGXCPU
    return Ended(code=-1 if ended_by else os.WEXITSTATUS(status), signal=ended_by, is_overrun=is_overrun)


def limit_cpu(seconds: float) -> None:
    """From now on, this process may use so many more CPU seconds."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + seconds) + 1, resource.RLIM_INFINITY))


def run_tests(files: Sequence[str], plugin: object) -> int:
    """pytest's exit code for test files, none of its words printed; only for a child."""
    import pytest

    arguments = [*_OPTIONS, *(part for name in _PLUGINS for part in ("-p", name)), *files]
    return int(pytest.main(arguments, plugins=[plugin]))


def load_quick_profile() -> None:
    """Hypothesis tries what it always tries, keeps nothing, and does not look for the least failure."""
    from hypothesis import Phase, settings

    phases = (Phase.explicit, Phase.generate)
    settings.register_profile("forked", settings.get_profile("dovetail"), phases=phases, database=None)
    settings.load_profile("forked")


def replace_modules(codes: Mapping[str, Callable[[], CodeType]]) -> None:
    """Has files below src/dovetail run as the code given for them."""
    sys.meta_path.insert(0, _Replacing({module_name(file): (SOURCES / file, code) for file, code in codes.items()}))


def _become_child(limit_s: float) -> None:
    os.setsid()
    limit_cpu(limit_s)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    os.chdir(REPOSITORY)
    sys.modules["numba"] = None  # type: ignore[assignment]  # as if it were not installed
    sys.dont_write_bytecode = False


class _Replacing(MetaPathFinder):
    """Finds the modules that are replaced before anything else does."""

    def __init__(self, codes: Mapping[str, tuple[Path, Callable[[], CodeType]]]) -> None:
        self.codes = codes

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name not in self.codes:
            return None
        file, code = self.codes[name]
        folders = [str(file.parent)] if file.name == "__init__.py" else None
        loader = _Given(name, str(file))
        loader.code = code
        return spec_from_file_location(name, file, loader=loader, submodule_search_locations=folders)


class _Given(SourceFileLoader):
    """Loads what it is given in place of the file's own code; nothing of it is kept on disk."""

    code: Callable[[], CodeType]

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002
        return self.code()
