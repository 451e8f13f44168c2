"""Timelines in files for ui.perfetto.dev."""

from __future__ import annotations

import os
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from dovetail.files.perfetto import check_trace_name, encoded_trace
from dovetail.files.written import write_bytes
from dovetail.report.tracks import Process


def write_timeline(path: str | PathLike[str], processes: Sequence[Process]) -> None:
    """Writes the tracks of `processes`; one that stands is written over."""
    check_trace_name(os.fspath(path))
    write_bytes(Path(path), encoded_trace(processes))
