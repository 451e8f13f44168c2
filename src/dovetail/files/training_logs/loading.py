"""A training log from a file, by the format that most of its lines are of."""

from __future__ import annotations

import re
from pathlib import Path

from dovetail.accuracy.training_log import TrainingLog
from dovetail.errors import DovetailError
from dovetail.files.text import is_file, one_line, read_bytes
from dovetail.files.training_logs import log_formats
from dovetail.files.training_logs.draft import Draft, Line, lines_of
from dovetail.files.training_logs.huggingface_state import HISTORY
from dovetail.files.training_logs.lightning_csv import is_header
from dovetail.units import KIBI

_BEGINNING_BYTES = int(64 * KIBI)


def names_training_log(file: Path) -> bool:
    """Whether a file that stands holds a training log; tables, results, specs and logs of collectives do not."""
    if not is_file(file):
        return False
    suffix = file.suffix.lower()
    if suffix in (".json", ".csv"):
        beginning = _beginning(file)
        return HISTORY in beginning if suffix == ".json" else is_header(beginning.split("\n", 1)[0].strip())
    if suffix in (".yaml", ".yml", ".py", ".gz", ".et"):
        return False
    try:
        return bool(_format_of(_lines(file)))
    except DovetailError:
        return False  # refused where it is read as something else


def load_training_log(file: Path) -> TrainingLog:
    """The log in `file`; raises where no line of it can be read as a step, with the reason."""
    lines = _lines(file)
    name = _format_of(lines)
    found = log_formats[name or "megatron-lm"]
    draft = Draft(framework=found.name, folder=file.parent)
    shown = one_line(file.name)
    try:
        found.read(lines, draft)
        return draft.finished(shown, num_lines=lines[-1].number if lines else 0)
    except DovetailError as error:
        raise type(error)(error.message, error.where or one_line(str(file))) from None


def _lines(file: Path) -> list[Line]:
    """The lines of a log; bytes that are no UTF-8 stand in the lines that hold them, and cost no other."""
    return lines_of(re.sub("\0", "", read_bytes(file, "").decode("utf-8", errors="replace").removeprefix("\ufeff")))


def _format_of(lines: list[Line]) -> str:
    """The format with most lines of steps; the first by name where two have as many, and empty where none has any."""
    counts = {name: found.num_step_lines(lines) for name, found in log_formats.items()}
    best = max(counts, key=lambda name: counts[name])
    return best if counts[best] else ""


def _beginning(file: Path) -> str:
    try:
        with open(file, "rb") as stream:
            return stream.read(_BEGINNING_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return ""
