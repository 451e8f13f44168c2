"""A plan as the YAML file that describes it: every decision, so that what reads it decides nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dovetail.files.chip_text import SUFFIX, SYMBOLS
from dovetail.files.schema import written_keys
from dovetail.files.text import one_line
from dovetail.plan.plan import Plan

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def plan_text(plan: Plan, name: str = "") -> str:
    """`plan` in the words of a spec's plan section; `dovetail simulate --plan FILE` makes an equal plan of it."""
    lines = ["# Written by Dovetail; dovetail simulate --plan takes it, and so does plan: in a spec."]
    if name:
        lines.append(f"# For {one_line(name)}.")
    return "\n".join((*lines, *_lines(plan, ""))) + "\n"


def _lines(value: DataclassInstance, indent: str) -> Iterator[str]:
    for field, key in written_keys(type(value)).items():
        part = getattr(value, field)
        if dataclasses.is_dataclass(part) and not isinstance(part, type):
            yield f"{indent}{key}:"
            yield from _lines(part, indent + "  ")
        else:
            yield f"{indent}{key}: {_written(field, part)}"


def _written(field: str, value: Any) -> str:
    """A value in YAML; a quantity with the base unit that its name ends in, to the last digit."""
    if isinstance(value, tuple):
        return f"[{', '.join(_written(field, item) for item in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"{value!r}{_unit(field)}"
    assert isinstance(value, str), f"{field}: no way to write a {type(value).__name__}"
    return "'" + one_line(value).replace("'", "''") + "'"


def _unit(field: str) -> str:
    if field.endswith("_s") and not field.endswith("_per_s"):
        return " s"
    match = SUFFIX.fullmatch(field)
    return f" {SYMBOLS[match[1]]}" if match else ""
