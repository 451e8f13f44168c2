"""Predicted steps that are kept from one time to the next, under a hash of all that decides them."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from dovetail.accuracy.prepared import StepFigures
from dovetail.errors import DovetailError
from dovetail.files.capture_cache import cache_folder
from dovetail.files.written import write_file

MAX_BYTES = 2**16  # style: a bound on what is read back
FOLDER = "steps"


def kept_figures(key: str) -> StepFigures | None:
    """What was kept under `key`; nothing where nothing was, or what is there does not read."""
    try:
        with open(_file(key), encoding="utf-8") as stream:
            step_s, peak_bytes, notes = json.loads(stream.read(MAX_BYTES))
        return StepFigures(step_s=float(step_s), peak_bytes=float(peak_bytes), notes=tuple(map(str, notes)))
    except (OSError, ValueError, TypeError):
        return None


def keep_figures(key: str, found: StepFigures) -> None:
    """Keeps `found`; a folder that cannot be written to is no error."""
    file = _file(key)
    with suppress(OSError, DovetailError):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, json.dumps([found.step_s, found.peak_bytes, list(found.notes)]))


def _file(key: str) -> Path:
    return cache_folder().parent / FOLDER / f"{key}.json"
