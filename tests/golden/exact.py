"""Exact goldens: a JSON file for each topic, with the figures of every case to the last bit, by `float.hex`.

Kept are numbers, names and truths. Sentences are not, nor figures that are exactly 0: one that turns from 0 is new.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bar_replay import GOLDENS, MACHINE
from benchmarks.json_diff import (
    Leaf,
    Leaves,
    Renames,
    differences,
    flattened,
    hexed,
    is_sentence,
    load_renames,
    unhexed,
)
from benchmarks.replay import RENAMES
from tests.golden.cases import Case

WITHIN = 1e-12  # on other processors, whose vector units and libraries may round the last bits otherwise
# Versions, keys made of them, and scripts to run, which are prose.
IGNORED = ("*version", "*.file", "*.written.*", "*.script", "*.commands.*")


def machine() -> str:
    """What the last bit of a sum, a power or a logarithm depends on: processor, vector unit, NumPy and Python."""
    config: Any = np.show_config(mode="dicts")
    found = config.get("SIMD Extensions", {}).get("found", [])
    simd = found[-1] if found else "baseline"
    return f"{platform.machine()} {simd}, NumPy {np.__version__}, Python {platform.python_version()}"


def figures(case: Case, renames: Renames) -> Leaves:
    """What a golden keeps of the answer to `case`, by the paths of now, which begin with the command."""
    patterns = [renames.path(f"{case.command}.{label}") for label in case.labels]
    answer = case.answer()
    leaves = flattened(by_name(answer) if case.is_catalogue else answer, case.command)
    return {path: value for path, value in leaves.items() if _is_kept(path, value, patterns)}


def by_name(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The lists of an answer by the names of their entries, with the kind before it where entries have one."""
    return {key: _named(value) if isinstance(value, list) else value for key, value in answer.items()}


def _named(entries: list[Any]) -> dict[str, Any]:
    if all(isinstance(entry, str) for entry in entries):
        named = [(entry, True) for entry in entries]
    else:
        named = [(" ".join(filter(None, (entry.get("kind"), entry["name"]))), entry) for entry in entries]
    assert len(dict(named)) == len(named), "two entries of a list have one name"
    return dict(named)


def _is_kept(path: str, value: Leaf, patterns: list[str]) -> bool:
    if is_sentence(value) or (isinstance(value, float) and value == 0.0):
        return False
    if any(fnmatchcase(path, pattern) for pattern in IGNORED):
        return False
    return any(fnmatchcase(path, pattern) for pattern in patterns)


def recorded(topic: str, folder: Path = GOLDENS) -> tuple[str, dict[str, dict[str, Leaf]]]:
    """The machine that a topic was recorded on, and every case of it; nothing where there is no file."""
    file = folder / f"{topic}.json"
    told = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return told.pop(MACHINE, ""), told


def moved(case: Case, was: Mapping[str, Leaf] | None, within: float, renames: Renames | None = None) -> list[str]:
    """What differs in the answer to a case from what was recorded, a line each."""
    if was is None:
        return [f"{case.name} is new and not recorded: review what blessing writes"]
    renames = renames or load_renames(RENAMES)
    told = {f"{case.command}.{path}": unhexed(value) for path, value in was.items()}
    return [str(one) for one in differences(told, figures(case, renames), within=within, renames=renames)]


def labelled(case: Case, renames: Renames | None = None) -> dict[str, Leaf]:
    """The answer to a case as it is recorded: by paths without the command, floats to the last bit."""
    leaves = figures(case, renames or load_renames(RENAMES))
    return {path.removeprefix(f"{case.command}."): hexed(value) for path, value in leaves.items()}


def written(cases: Mapping[str, Mapping[str, Leaf]]) -> str:
    """The text of a topic's file: a figure a line, so that a diff shows which moved."""
    return json.dumps({MACHINE: machine(), **cases}, indent=0, ensure_ascii=False, allow_nan=False) + "\n"
