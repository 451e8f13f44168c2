"""A process that has imported the package once, and forks to run each command: a process of its own, at once.

A command runs in a child that no command ran in before, with the arguments, environment, folder, streams and exit code
of any other; only the interpreter's start and the imports are not done again. Linux alone forks safely after NumPy.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

LATE = ("optuna",)  # a command's own, imported when it runs, and slow to
# PyTorch and NiceGUI are of few commands: with them each fork would take three times as long.
HEAVY = ("dovetail.explorer", "dovetail.importers.torch_", "dovetail.measuring.torch_")
SCHEDULING = ("mine", "reproduce", "schedule")  # commands with loops that Numba compiles
CAN_FORK = sys.platform == "linux"


class Warm:
    """`run` as a person would from `folder`; start it with `with`."""

    def __init__(self, folder: Path, environment: Mapping[str, str], timeout_s: int) -> None:
        self._folder, self._environment, self._timeout_s = folder, environment, timeout_s

    def __enter__(self) -> Warm:
        self._kept = tempfile.TemporaryDirectory(prefix="dovetail-e2e-")
        # one thread: BLAS would start more, and threads do not survive a fork
        environment = {**self._environment, "OPENBLAS_NUM_THREADS": "1"}
        self._server = subprocess.Popen(
            [sys.executable, __file__],
            cwd=self._folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._server.communicate()  # the end of its input ends it
        self._kept.cleanup()

    def run(self, arguments: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        said, told = (Path(self._kept.name) / name for name in ("stdout", "stderr"))
        asked = {
            "arguments": list(arguments),
            "environment": dict(environment),
            "streams": [str(said), str(told)],
            "timeout_s": self._timeout_s,
        }
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(asked) + "\n")
        self._server.stdin.flush()
        code = int(self._server.stdout.readline())
        if code == -signal.SIGALRM:
            raise subprocess.TimeoutExpired(list(arguments), self._timeout_s)
        # as `text=True` reads: every line ending is \n
        read = [file.read_bytes().decode("utf-8").replace("\r\n", "\n").replace("\r", "\n") for file in (said, told)]
        return subprocess.CompletedProcess(list(arguments), code, *read)


def serve() -> None:
    """Runs every command that standard input asks for, a line of JSON each, and answers with its exit code."""
    freeze_imports()
    answers = os.dup(1)
    for line in sys.stdin:
        asked = json.loads(line)
        import_late(asked["arguments"])
        child = os.fork()
        if not child:
            os.close(answers)
            os._exit(_run(asked))
        _, status = os.waitpid(child, 0)
        os.write(answers, f"{os.waitstatus_to_exitcode(status)}\n".encode())


def freeze_imports() -> None:
    """Imports the package for the forks that follow, and builds the readers of files, which the first answer does."""
    import dovetail

    for name in _modules():
        if not name.startswith(HEAVY):
            importlib.import_module(name)
    dovetail.simulate(model="llama3-8b", cluster="h100x8", plan={"dp": 8})
    importlib.import_module("dovetail.cli.commands").command()  # which reads every option of every command
    for name in LATE:
        with suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # what the children share is not copied by their collections


def _modules() -> list[str]:
    import dovetail

    found = pkgutil.walk_packages(dovetail.__path__, "dovetail.")
    return [one.name for one in found if not one.name.endswith(".__main__")]


def import_late(words: Sequence[str]) -> None:
    """What is slowest to import, for this command and for those like it that come after."""
    if words[:1] == ["capture"] and "--help" not in words:
        with suppress(ImportError):
            importlib.import_module("torch")
            for name in _modules():
                if name.startswith("dovetail.importers.torch_"):
                    importlib.import_module(name)
    if words and words[0] in SCHEDULING:
        load_loops()


@cache
def load_loops() -> None:
    """Numba, and the loops as they were compiled and kept: a second of each command that schedules operators."""
    from dovetail.api.requests.components import schedule
    from dovetail.api.requests.searches import mine

    schedule("bert-base", chip="tpuv2-like")
    mine("bert-base", batch=1, seq=64, algorithm="random", budget=20)
    gc.collect()
    gc.freeze()


def _run(asked: dict[str, object]) -> int:
    """The command, in the child."""
    _take_over(asked)
    return ended_code()


def ended_code() -> int:
    """Of the command; it ends as the interpreter would: what is buffered is written, or the code says not."""
    from dovetail.cli import main

    code = main()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        return 120  # Python's own
    return code


def _take_over(asked: dict[str, object]) -> None:
    """Makes the child the process that was asked for."""
    arguments, environment, streams, timeout_s = (
        asked[key] for key in ("arguments", "environment", "streams", "timeout_s")
    )
    assert isinstance(arguments, list)
    assert isinstance(environment, dict)
    assert isinstance(streams, list)
    assert isinstance(timeout_s, int)
    signal.alarm(timeout_s)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[:] = ["dovetail", *arguments]
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for descriptor, file in enumerate(streams, start=1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)


if __name__ == "__main__":
    serve()
