"""Runs commands of whichever `dovetail` is on the path, each in a process forked from one that has imported it.

A script of its own, run by `benchmarks.replay` with the base's package on the path and with today's: it may use nothing
of either but `python -m dovetail`. Standard input has a command a line, as JSON; each is answered by its exit code.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import sys
import time
from contextlib import suppress
from typing import Any


def serve() -> None:
    _import_all()
    answers = os.dup(1)
    gc.collect()
    gc.freeze()  # what children share is not copied by their collections
    for line in sys.stdin:
        asked = json.loads(line)
        began_s = time.monotonic()
        child = os.fork()
        if not child:
            os.close(answers)
            _run(asked)
        _, status = os.waitpid(child, 0)
        answer = {"code": os.waitstatus_to_exitcode(status), "wall_s": time.monotonic() - began_s}
        os.write(answers, (json.dumps(answer) + "\n").encode())


def _import_all() -> None:
    """What is imported here is not imported by every command. A module that cannot be is the command's to tell of."""
    import dovetail

    for found in pkgutil.walk_packages(dovetail.__path__, "dovetail."):
        if not found.name.endswith(".__main__"):
            with suppress(Exception):
                importlib.import_module(found.name)


def _run(asked: dict[str, Any]) -> None:
    """The command as `python -m dovetail` runs it, with files for its output; does not come back."""
    signal.alarm(asked["timeout_s"])
    sys.argv[:] = ["dovetail", *asked["words"]]
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for descriptor, file in enumerate((asked["stdout"], asked["stderr"]), start=1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    code: Any = 0
    try:
        runpy.run_module("dovetail", run_name="__main__", alter_sys=False)
    except SystemExit as end:
        code = end.code
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    serve()
