"""What an answer follows from as plain data, whatever it is made of: for whoever wants the answer again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any


def plain_inputs(value: Any) -> Any:
    """Frozen values as JSON has them: fields by name, tuples as lists, and what JSON has no number for as a word.

    Functions are said by their names; anything else that is no data is said by its kind.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain_inputs(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain_inputs(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain_inputs(item) for item in value]
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    return getattr(value, "__name__", type(value).__name__)
