"""Frozen values as JSON and back, by the types of their fields: no code comes of a file, and nothing unbounded.

A dataclass is a mapping of its fields without those that are as by default, a tuple a list, an enumeration its value. A
field that may be one of several dataclasses says which under `is`. Classes and fields go by their stable names
(`dovetail.stable_names`), so that a file reads whatever the code calls them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from dovetail.errors import DovetailError, InvalidInput, did_you_mean
from dovetail.files.entry import described
from dovetail.files.tree import Node
from dovetail.stable_names import stable_type

MAX_TEXT = 2000  # characters of a name or a note
MAX_NUMBER = 2**63 - 1  # what a column of a graph can hold
KIND = "is"

T = TypeVar("T")
Checks = Mapping[type, Callable[[Any], None]]  # raise `InvalidInput` of a value of their kind that cannot be


class _Refusal(Exception):
    """Something of a value is wrong; `path` leads to it, outermost first."""

    def __init__(self, message: str, *path: str) -> None:
        super().__init__(message)
        self.message, self.path = message, path

    def under(self, key: str) -> _Refusal:
        return _Refusal(self.message, key, *self.path)

    @property
    def where(self) -> str:
        return "".join(key if key.startswith("[") else f".{key}" for key in self.path).lstrip(".")


def as_plain(value: Any, is_named: bool = False) -> Any:
    """`value` of plain lists and mappings; `is_named`: with its kind, where a reader could not tell it."""
    if is_dataclass(value) and not isinstance(value, type):
        hints, defaults = _hints(type(value)), {each.name: each for each in fields(value)}
        kind = stable_type(type(value))
        plain = {KIND: kind.stable} if is_named else {}
        for each in kind.fields:
            part = getattr(value, each.python)
            if not _is_default(defaults[each.python], part):
                plain[each.stable] = as_plain(part, _is_open(hints[each.python]))
        return plain
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return [as_plain(item, is_named) for item in value]
    assert isinstance(value, str | bool | int | float), f"a model file holds no {type(value).__name__}: {value!r}"
    assert not isinstance(value, float) or math.isfinite(value), f"a model file holds no {value}"
    return value


def read_value(kind: type[T], node: Node, checks: Checks) -> T:
    """The value of `kind` that `node` describes; raises `InvalidInput` at the place that is wrong."""
    try:
        found: T = _Reader(checks).read(kind, node)
    except _Refusal as refusal:
        raise InvalidInput(refusal.message, refusal.where) from None
    return found


def _is_default(each: Field[Any], value: Any) -> bool:
    if each.default_factory is not MISSING:
        return bool(value == each.default_factory())
    return each.default is not MISSING and type(value) is type(each.default) and bool(value == each.default)


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _is_open(hint: Any) -> bool:
    """Whether what stands there may be one of several dataclasses."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return sum(is_dataclass(one) for one in arguments) > 1
    return origin is tuple and any(_is_open(one) for one in arguments)


class _Reader:
    """Nodes as values; each dataclass is held to the check of its kind."""

    def __init__(self, checks: Checks) -> None:
        self.checks = checks

    def read(self, hint: Any, node: Node) -> Any:
        origin = get_origin(hint)
        if origin in (Union, UnionType):
            return self._one_of(get_args(hint), node)
        if origin is tuple:
            return self._items(get_args(hint), node)
        if isinstance(hint, type) and issubclass(hint, Enum):
            return _read_word(hint, node)
        if is_dataclass(hint):
            return self._fields(hint, node)  # type: ignore[arg-type]
        assert hint in _PLAIN, f"a model file cannot hold a {hint}"
        return _PLAIN[hint](node.value)

    def _at(self, key: str, hint: Any, node: Node) -> Any:
        try:
            return self.read(hint, node)
        except _Refusal as refusal:
            raise refusal.under(key) from None

    def _items(self, hints: tuple[Any, ...], node: Node) -> tuple[Any, ...]:
        if not isinstance(node.value, list):
            raise _Refusal(f"must be a list; got {_described(node)}")
        is_any_number = len(hints) == 2 and hints[1] is Ellipsis
        if not is_any_number and len(node.value) != len(hints):
            raise _Refusal(f"must be a list of {len(hints)}; got {len(node.value)}")
        each = (hints[0],) * len(node.value) if is_any_number else hints
        pairs = enumerate(zip(each, node.value, strict=True))
        return tuple(self._at(f"[{place}]", hint, item) for place, (hint, item) in pairs)

    def _fields(self, kind: type, node: Node) -> Any:
        if not isinstance(node.value, dict):
            raise _Refusal(f"must be a mapping; got {_described(node)}")
        python = {each.stable: each.python for each in stable_type(kind).fields}
        own, hints = {each.name: each for each in fields(kind)}, _hints(kind)
        known = {name: own[field] for name, field in python.items()}
        for key in node.value:
            if key not in known and key != KIND:
                raise _Refusal(f"there is no key of this name here{did_you_mean(key[:100], known)}", key[:100])
        for name, each in known.items():
            if name not in node.value and each.default is MISSING and each.default_factory is MISSING:
                raise _Refusal(f"{name} is missing")
        values = {
            python[name]: self._at(name, hints[python[name]], node.value[name]) for name in known if name in node.value
        }
        try:
            found = kind(**values)
            self.checks.get(kind, lambda _: None)(found)
        except DovetailError as error:
            raise _Refusal(error.message, *filter(None, [error.where])) from None
        return found

    def _one_of(self, hints: tuple[Any, ...], node: Node) -> Any:
        """One of several kinds: of dataclasses the one that is named, else the first that `node` can be."""
        kinds = {stable_type(hint).stable: hint for hint in hints if isinstance(hint, type) and is_dataclass(hint)}
        if isinstance(node.value, dict) and len(kinds) > 1:
            name = node.value.get(KIND, Node(None)).value
            if not isinstance(name, str) or name not in kinds:
                raise _Refusal(f"must be one of {', '.join(sorted(kinds))}; got {described(name)}", KIND)
            return self.read(kinds[name], node)
        refusals = []
        for hint in hints:
            try:
                return self.read(hint, node)
            except _Refusal as refusal:
                refusals.append(refusal)
        raise refusals[0]


def _read_word(kind: type[Enum], node: Node) -> Enum:
    if isinstance(node.value, dict | list | bool):
        raise _Refusal(f"must be a word or a number; got {_described(node)}")
    try:
        return kind(node.value)
    except (ValueError, TypeError):
        raise _Refusal(f"there is no such {kind.__name__.lower()}; got {_described(node)}") from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _Refusal(f"must be text; got {described(value)}")
    if len(value) > MAX_TEXT:
        raise _Refusal(f"has at most {MAX_TEXT:,} characters; got {len(value):,}")
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _Refusal(f"must be a whole number; got {described(value)}")
    if abs(value) > MAX_NUMBER:
        raise _Refusal(f"must be within {MAX_NUMBER:,}; got {described(value)}")
    return value


def _number(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _Refusal(f"must be a number; got {described(value)}")
    if not abs(value) <= MAX_NUMBER:  # not a number is within nothing
        raise _Refusal(f"must be within {MAX_NUMBER:,}; got {described(value)}")
    return float(value)


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _Refusal(f"must be true or false; got {described(value)}")
    return value


_PLAIN: dict[Any, Callable[[Any], Any]] = {str: _text, int: _whole, float: _number, bool: _truth}


def _described(node: Node) -> str:
    return described(node.value)
