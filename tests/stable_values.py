"""Values of every type that enters a store key or a model file: each field filled by its type and its stable name.

None of them is a chip or a plan that could be. They are here to be hashed: a name that changed, a field that came, went
or moved shows in the hash, and figures of the catalogue do not.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from dovetail.hardware.chip import Chip
from dovetail.hardware.template import Design
from dovetail.parallel.plan import Plan
from dovetail.search.codesign.question import Budget
from dovetail.search.codesign.refining import RefinedCase
from dovetail.search.codesign.scoring import CasePlan
from dovetail.search.designs import Limits
from dovetail.search.mining.load import TrainingJob
from dovetail.search.planners.plan_space import PlanSpace
from dovetail.stable_names import TYPES
from dovetail.workload.graph import Block
from dovetail.workload.optimizer import Precision
from dovetail.workload.recorded.captured import Captured

# What `question_facts` of mine and of joint searches hash or write, what rows of a store hold, and model files.
ROOTS = (TrainingJob, Chip, Block, Precision, Limits, Design, Budget, Plan, PlanSpace, CasePlan, RefinedCase, Captured)
PLAIN = (str, int, float, bool)


def reached(*roots: type) -> dict[str, type]:
    """Every dataclass that a value of `roots` can hold, by its name; fails where two share one."""
    found: dict[str, type] = {}
    for root in roots or ROOTS:
        for kind in _below(root, set()):
            assert found.setdefault(kind.__name__, kind) is kind, (
                f"two types that enter keys are called {kind.__name__}"
            )
    return found


def _below(hint: Any, seen: set[Any]) -> Iterator[type]:
    if is_dataclass(hint) and isinstance(hint, type):
        if hint in seen:
            return
        seen.add(hint)
        yield hint
        for own in _hints(hint).values():
            yield from _below(own, seen)
    elif get_origin(hint) is not np.ndarray:
        for argument in get_args(hint):
            yield from _below(argument, seen)


def _hints(kind: type) -> dict[str, Any]:
    every = get_type_hints(kind)
    return {field.name: every[field.name] for field in fields(kind)}


def filled(kind: type, names: Mapping[str, Mapping[str, str]]) -> Any:
    """A value of `kind`, and of all it holds; `names` has the stable name of each field by type and Python name.

    Fields of which `names` says nothing have their default: they came after 0.1.
    """
    value: Any = object.__new__(kind)
    defaults = {field.name: field.default for field in fields(kind)}
    for name, hint in _hints(kind).items():
        own = names[kind.__name__]
        content = _content(hint, own[name], names) if name in own else defaults[name]
        if name in own and (switches := _switches(kind, name)):
            content = switches[_content(bool, own[name], names)]
        object.__setattr__(value, name, content)
    return value


def _switches(kind: type, name: str) -> dict[bool, str]:
    """Of a field that disks know as a switch and that holds a name now: the name of each position."""
    stable = next((field for field in TYPES[kind.__name__].fields if field.python == name), None)
    values = stable.old_values.items() if stable is not None else ()
    return {old: new for new, old in reversed(list(values)) if isinstance(old, bool)}


def _content(hint: Any, label: str, names: Mapping[str, Mapping[str, str]]) -> Any:
    number, origin, arguments = zlib.crc32(label.encode()) % 1000 + 1, get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _content(next(one for one in arguments if one is not type(None)), label, names)
    if origin is tuple:
        each = (arguments[0],) * 2 if arguments[-1] is Ellipsis else arguments
        return tuple(_content(one, f"{label}{place}", names) for place, one in enumerate(each))
    if origin is np.ndarray:
        return np.arange(number, number + 3).astype(get_args(arguments[1])[0])
    if origin is not None and issubclass(origin, Mapping):
        return {label: _content(arguments[1], label, names)}
    if is_dataclass(hint):
        return filled(hint, names)  # type: ignore[arg-type]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return next(iter(hint))
    if isinstance(hint, type) and issubclass(hint, tuple):  # named: hashed without its names
        return tuple(_content(own, f"{label}{place}", names) for place, own in enumerate(get_type_hints(hint).values()))
    assert hint in PLAIN, f"what a field of type {hint} could hold"
    return {str: label, int: number, float: number / 7, bool: bool(number % 2)}[hint]
