"""Tasks that tests give to workers: other processes import them from here."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from dovetail.errors import InvalidInput


def times(question: int, task: int) -> int:
    return question * task


def slow_where_even(question: int, task: int) -> int:
    time.sleep(0.02 if task % 2 == 0 else 0.001)
    return question * task


def process(_: object, task: int) -> tuple[int, int]:
    """Long enough that every worker gets some."""
    time.sleep(0.02)
    return task, os.getpid()


def killed_once(folder: str, task: int) -> int:
    """The first worker to do task 5 or 11 is killed amid it."""
    if task in (5, 11):
        try:
            Path(folder, f"{task}").touch(exist_ok=False)
        except FileExistsError:
            return -task
        os.kill(os.getpid(), signal.SIGKILL)
    return -task


def killed_always(_: object, task: int) -> int:
    if task == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return task


def refused(_: object, task: int) -> int:
    if task == 3:
        raise InvalidInput("no such thing", "chip.cores")
    return task


def asleep(_: object, task: int) -> int:
    time.sleep(600)
    return task


class Counted:
    """A question that leaves a line in a file wherever it is unpacked."""

    def __init__(self, file: str) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return unpacked, (self.file,)


def unpacked(file: str) -> Counted:
    with Path(file).open("a", encoding="utf-8") as lines:
        lines.write(f"{os.getpid()}\n")
    return Counted(file)
