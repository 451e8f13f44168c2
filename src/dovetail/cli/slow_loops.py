"""A note to users who wait longer than they need: the loops of schedules are plain Python where Numba is missing."""

from __future__ import annotations

import importlib

from dovetail.cli.verbosity import note

NO_NUMBA = "Numba is not installed, so schedules take several times longer; pip install 'dovetail-codesign[mine]'"


def log_if_slow() -> None:
    """Schedules come from plain loops where Numba cannot be imported."""
    try:
        importlib.import_module("numba")
    except ImportError:
        note(NO_NUMBA)
