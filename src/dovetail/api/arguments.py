"""Arguments of a Python call: counts that are checked as a command's are, and errors that name them as Python does."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, SupportsIndex, TypeVar

from dovetail.errors import DovetailError, InvalidInput
from dovetail.files.entry import described
from dovetail.files.schema import MAX_WHOLE
from dovetail.plugins import blamed
from dovetail.registry import Registry
from dovetail.units import count_of

_ARGUMENTS = {"pass": "direction"}  # words that Python keeps for itself

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_WHOLE = re.compile(r"[+-]?[0-9]+(_[0-9]+)*")
_MAX_DIGITS = 4000  # Python refuses to read longer ones
_OPTION = re.compile(r"(?<![\w-])--([a-z]+(?:-[a-z]+)*)")


def counted(name: str, value: SupportsIndex | None, *, least: int = 1) -> int:
    """The count that `name` was given, 0 where it was not; the bounds are those of counts in a spec."""
    if value is None:
        return 0
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidInput(f"{name} must be a whole number; got {described(value)}") from None
    if isinstance(value, bool):
        raise InvalidInput(f"{name} must be a whole number; got {described(value)}")
    return in_bounds(name, number, least)


def count(option: str, text: str | None, *, least: int = 1) -> int:
    """The count that `option` was given as text, 0 where it was not; the bounds are those of counts in a spec."""
    if text is None:
        return 0
    word = text.strip()  # also of separators that int() would not take
    if not _WHOLE.fullmatch(word):
        thousands = re.fullmatch(r"(\d{1,6})[kK]", word)
        hint = f"; write {1024 * int(thousands[1])} or {1000 * int(thousands[1])}" if thousands else ""  # style: words
        raise InvalidInput(f"{option} must be a whole number; got {described(text)}{hint}")
    if len(word) > _MAX_DIGITS:
        raise InvalidInput(f"{option} must be at most {MAX_WHOLE:,}; got a number of {len(word):,} digits")
    return in_bounds(option, int(word), least)


def num_tokens(name: str, given: str | float) -> float:
    """The many tokens that `name` was given, as text such as 15T or as a number; 0 where it was not."""
    if isinstance(given, str):
        try:
            return count_of(given) if given else 0.0
        except InvalidInput as error:
            raise InvalidInput(error.message, name) from None
    if not 0 <= given < float("inf"):
        raise InvalidInput(f"{name} must be a number from 0 on; got {given!r}")
    return float(given)


def in_bounds(name: str, value: int, least: int = 1) -> int:
    """`value`, which is at least 1 unless said, and no more than any count of a spec."""
    if not least <= value <= MAX_WHOLE:
        bound = f"at least {least}" if value < least else f"at most {MAX_WHOLE:,}"
        raise InvalidInput(f"{name} must be {bound}; got {described(value)}")
    return value


def entry_named(registry: Registry[T], name: str, option: str) -> T:
    """The entry of that name; where there is none, the error says which option named it."""
    try:
        return registry[name]
    except InvalidInput as error:
        raise InvalidInput(error.message, option) from None


def in_python(answer: Callable[P, R]) -> Callable[P, R]:
    """`answer` with errors that call an option of the command line, --global-batch, by its argument, global_batch."""

    @wraps(answer)
    def call(*positional: P.args, **named: P.kwargs) -> R:
        try:
            with blamed():
                return answer(*positional, **named)
        except DovetailError as error:
            # what a plugin's code raised stays behind the line that says so
            raise type(error)(as_argument(error.message), as_argument(error.where)) from error.__cause__

    return call


def as_argument(words: str) -> str:
    return _OPTION.sub(lambda option: _ARGUMENTS.get(option[1], option[1].replace("-", "_")), words)
