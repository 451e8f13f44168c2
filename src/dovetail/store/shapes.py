"""What is written of a study as plain data, checked: its key says that it was not changed, and not who wrote it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

SPACE = "space"  # of inputs: values by knob; points are in the order of its keys
MAX_TEXT = 16 * 2**20  # style: a bound; characters of a study's inputs


class MalformedRow(Exception):
    """Facts that no study has, and which."""


def inputs_of(text: object) -> dict[str, Any]:
    """All inputs of a study, knobs as a mapping; raises `MalformedRow`."""
    inputs = _json(text, "inputs")
    if not isinstance(inputs, dict):
        raise MalformedRow("its inputs are no mapping")
    if SPACE in inputs:
        inputs[SPACE] = _knobs(inputs[SPACE])
    for key, (holds, rule) in _RULES.items():
        if key in inputs and not holds(inputs[key]):
            raise MalformedRow(f"{key} of its inputs must be {rule}")
    return inputs


def figure_names_of(text: object) -> tuple[str, ...]:
    """What the further figures of a row are called; raises `MalformedRow`."""
    names = _json(text, "figure names")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise MalformedRow("its figure names must be different words")
    return tuple(names)


def check_texts(**facts: object) -> None:
    """Raises unless each is text, as SQLite holds whatever is put into a column."""
    for name, fact in facts.items():
        if not isinstance(fact, str):
            raise MalformedRow(f"its {name} must be text")


def check_count(num_rows: object) -> None:
    if not isinstance(num_rows, int) or num_rows < 0:
        raise MalformedRow("how many rows it has must be a count")


def _json(text: object, what: str) -> Any:
    if not isinstance(text, str) or len(text) > MAX_TEXT:
        raise MalformedRow(f"its {what} must be text")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise MalformedRow(f"its {what} are no JSON") from None


def _knobs(pairs: object) -> dict[str, list[Any]]:
    """Values by knob, from pairs of both: JSON's mappings may be in any order, and points are in one."""
    found: dict[str, list[Any]] = {}
    for pair in pairs if isinstance(pairs, list) else [None]:
        match pair:
            case [str(name), [_, *_] as values] if name not in found and all(map(_is_value, values)):
                found[name] = values
            case _:
                raise MalformedRow("its space must be different knobs with their values")
    return found


def _is_value(value: object) -> bool:
    return isinstance(value, str) or _is_number(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and abs(value) < 1e300  # style: a bound; not a number is below none


def _is_limit(value: object) -> bool:
    return _is_number(value) or value == math.inf


def _is_mapping_of(holds: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, dict) and all(map(holds, value.values()))


def _are_jobs(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(job, dict) and _is_job(job) for job in value)


def _is_job(job: Mapping[str, Any]) -> bool:
    is_named = isinstance(job.get("name"), str)
    return is_named and isinstance(job.get("num_devices", 1), int) and isinstance(job.get("plans", {}), dict)


def _are_numbers(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_number, value))


def _is_word(value: object) -> bool:
    return isinstance(value, str)


_JOBS = (_are_jobs, "a list of models with names")
_LIMITS = (_is_mapping_of(_is_limit), "numbers by name")
_WORD = (_is_word, "a word")
_RULES: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "jobs": _JOBS,
    "cases": _JOBS,
    "limits": _LIMITS,
    "budget": _LIMITS,
    "reference_losses": (_are_numbers, "numbers"),
    "base": (lambda value: isinstance(value, str | dict), "a chip"),
    **dict.fromkeys(("metric", "network", "rule", "loss_unit"), _WORD),
}
