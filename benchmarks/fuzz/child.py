"""One case in a process of its own, forked from one that has imported the package; with its time and memory limited."""

from __future__ import annotations

import importlib
import os
import pkgutil
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.fuzz.case import Case
from dovetail.units import GIBI, KIBI, MEBI

LIMIT_CPU_S = 20  # of one case: a hang, as seeds take well under a second
LIMIT_WALL_S = 180  # one that waits and does not compute; generous, as others may use the machine
LIMIT_BYTES = int(GIBI)  # issue 10: memory beyond 1 GB, the whole process
LIMIT_FILE_BYTES = 256 * int(MEBI)  # that a case may write
MOST_TOLD_BYTES = int(MEBI)  # of what a command prints that is looked at
ENVIRONMENT = {"COLUMNS": "80", "NO_COLOR": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended: its exit code or, below 0, the signal that ended it, and what it took."""

    code: int
    stdout: str
    stderr: str
    cpu_s: float
    peak_bytes: int


def import_everything(needs: Sequence[str] = ()) -> None:
    """All modules of the package, and those that an input `needs` beside them: no case then has to.

    With one thread each: what libraries start here is not there in a child, and one that waits for it waits for ever.
    """
    os.environ.update(ENVIRONMENT)
    import dovetail

    for found in pkgutil.walk_packages(dovetail.__path__, "dovetail."):
        if not found.name.endswith(".__main__"):
            importlib.import_module(found.name)
    for name in needs:
        importlib.import_module(name)


def warm_up(case: Case) -> int:
    """The exit code of the command of `case`, run here: what it looks up or compiles is there for its children."""
    from dovetail.cli import main

    here, streams = os.getcwd(), [os.dup(descriptor) for descriptor in (1, 2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with _folders() as (folder, _):
        case.write(folder)
        os.chdir(folder)
        try:
            for descriptor in (1, 2):
                os.dup2(nowhere, descriptor)
            code = main(case.arguments)
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            for descriptor, kept in zip((1, 2), streams, strict=True):
                os.dup2(kept, descriptor)
                os.close(kept)
            os.close(nowhere)
            os.chdir(here)
    return code


def run(case: Case, environment: Mapping[str, str] = ENVIRONMENT) -> Ended:
    """The command of `case`, in a folder that has its files and is gone afterwards."""
    with _folders() as (folder, streams):
        case.write(folder)
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if not child:
            code = 1
            try:
                code = _in_child(case.arguments, folder, streams, environment)
            finally:
                os._exit(code)
        _, status, used = os.wait4(child, 0)
        stdout, stderr = (_text(streams / name) for name in ("stdout", "stderr"))
    return Ended(
        code=os.waitstatus_to_exitcode(status),
        stdout=stdout,
        stderr=stderr,
        cpu_s=used.ru_utime + used.ru_stime,
        peak_bytes=used.ru_maxrss * int(KIBI),
    )


@contextmanager
def _folders() -> Iterator[tuple[Path, Path]]:
    whole = Path(tempfile.mkdtemp(prefix="dovetail-fuzz-"))
    try:
        for name in ("case", "streams"):
            (whole / name).mkdir()
        yield whole / "case", whole / "streams"
    finally:
        shutil.rmtree(whole, ignore_errors=True)


def _text(file: Path) -> str:
    with file.open("rb") as stream:
        return stream.read(MOST_TOLD_BYTES).decode("utf-8", "backslashreplace")


def _in_child(arguments: tuple[str, ...], folder: Path, streams: Path, environment: Mapping[str, str]) -> int:
    os.chdir(folder)
    os.environ.update(environment)
    os.environ["XDG_CACHE_HOME"] = str(streams)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for descriptor, name in enumerate(("stdout", "stderr"), start=1):
        os.dup2(os.open(streams / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), descriptor)
    # Python's own streams too: a test's are those of the test; they stay open to the end
    sys.stdout, sys.stderr = (os.fdopen(descriptor, "w", encoding="utf-8", closefd=False) for descriptor in (1, 2))
    _limit()
    sys.argv[:] = ["dovetail", *arguments]
    from dovetail.cli import main

    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def _limit() -> None:
    """Time and room; what is reserved counts from now on, as libraries reserve far more than they use."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(LIMIT_WALL_S)
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit_s = int(used.ru_utime + used.ru_stime) + LIMIT_CPU_S
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s + 5))
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT_FILE_BYTES, LIMIT_FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    reserved = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    most = reserved + LIMIT_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
