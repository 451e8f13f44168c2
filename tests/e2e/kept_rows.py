"""Rows that tests keep in a store, and what they find there."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from dovetail.search.algorithms import Scored
from dovetail.store import opened

INPUTS: dict[str, Any] = {"jobs": [{"name": "bert"}], "space": {"rows": [4, 8, 16], "cols": [32, 64, 128]}}
FIGURES = ("power_w",)
FOUND = [
    Scored(point=(1, 2), loss=3.25, also=(280.0,), bottleneck="num_vector", plan='{"tp": 8}'),
    Scored(point=(2, 0), loss=math.inf, excess_frac=0.5),
]


def kept_in(path: Path, num_rows: int = 2) -> dict[tuple[int, ...], Scored]:
    """A store with a study in it, closed; what it keeps."""
    with opened(path) as store:
        study = store.study("mine", INPUTS, FIGURES)
        study.keep(FOUND)
        study.keep(Scored(point=(row, 200), loss=float(row), also=(1.0,)) for row in range(num_rows - len(FOUND)))
        return study.known()


def known_in(path: Path) -> dict[tuple[int, ...], Scored]:
    with opened(path) as store:
        return store.study("mine", INPUTS, FIGURES).known()
