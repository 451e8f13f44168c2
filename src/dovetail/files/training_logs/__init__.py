"""Formats of training logs, one file each: which lines are steps, and what the log says of its job."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from dovetail.files.training_logs.draft import Draft, Line
from dovetail.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFormat:
    """One kind of log: what it is called, how many lines of a text look like its steps, and what reads them all.

    A text is of the format with most such lines. `read` sees every line and says to the draft what it found; a line
    that looks like a step and cannot be read it names.
    """

    name: str
    summary: str
    num_step_lines: Callable[[list[Line]], int]
    read: Callable[[list[Line], Draft], None]


def matching(*patterns: re.Pattern[str]) -> Callable[[list[Line]], int]:
    """How many lines one of `patterns` is found in."""
    return lambda lines: sum(any(pattern.search(line.text) for pattern in patterns) for line in lines)


SURELY = 10**6  # style: a bound; as many lines of steps as no other format counts in a text
log_formats: Registry[LogFormat] = Registry("training log", __name__)
