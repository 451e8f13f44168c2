"""Protocol buffers changed field by field, whatever their messages mean: ONNX models and Chakra traces."""

from __future__ import annotations

import copy
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from dovetail.files.protobuf import (
    DELIMITED,
    VARINT,
    WireError,
    bytes_field,
    delimited,
    encoded_varint,
    fields,
    messages,
    number_field,
)
from dovetail.units import GIBI

MAX_DEPTH = 8
NUMBERS = (
    0,
    1,
    2,
    3,
    5,
    7,
    16,
    64,
    255,
    10**6,
    2**31 - 1,
    2**31,
    2**33,
    2**40,
    2**53,
    2**63 - 1,
    2**63,
    2**64 - 1,
    2**64 - 3,
)
STRINGS = (
    b"", b"\0", b"x", b"x" * 70000, b"\xff\xfe", "ß😀".encode(), b"nan", b"[[1, 2], [3]]", b"[[-1]]", b"[" * 2000,
    b"a\nb", b"1", b"MatMul", b"Conv", b"Reshape", b"LSTM", b"Loop", b"If", b"Constant", b"axis", b"com.microsoft",
    b"aten::mm", b"9" * 400,
)  # fmt: skip
KINDS = ("number", "string", "copy", "drop", "double", "swap", "renumber", "retype", "inside", "many")
CHANCES = (6, 3, 6, 3, 2, 2, 1, 1, 1, 1)


@dataclass(slots=True)
class Field:
    """One field: a number, bytes, or a message's own fields."""

    number: int
    wire: int
    value: int | bytes | list[Field]


Message = list[Field]


def parsed(data: bytes, depth: int = 0) -> Message:
    """The fields of a message, and of those inside it; raises `WireError` where it is none."""
    return [Field(number, wire, _inner(value, depth)) for number, wire, value in fields(data)]


def _inner(value: int | bytes, depth: int) -> int | bytes | Message:
    """A message where bytes can be read as one and are written the same again; text and packed numbers seldom are."""
    if isinstance(value, int) or len(value) < 2 or depth >= MAX_DEPTH:
        return value
    try:
        found = parsed(value, depth + 1)
    except WireError:
        return value
    return found if encoded(found) == value else value


def encoded(message: Message) -> bytes:
    return b"".join(_field(field) for field in message)


def _field(field: Field) -> bytes:
    if isinstance(field.value, list):
        return bytes_field(field.number, encoded(field.value))
    if isinstance(field.value, int):
        return number_field(field.number, field.value)
    if field.wire == DELIMITED:
        return bytes_field(field.number, field.value)
    return encoded_varint(field.number << 3 | field.wire) + field.value


def changed_message(data: bytes, rng: Random, num_changes: int) -> bytes:
    """A whole file that is one message, as ONNX's are."""
    message = copy.deepcopy(_whole(data))
    for _ in range(num_changes):
        _change(message, rng)
    return encoded(message)


def changed_stream(data: bytes, rng: Random, num_changes: int) -> bytes:
    """A file of messages with their lengths before them, as Chakra's are."""
    found = copy.deepcopy(_stream(data))
    for _ in range(num_changes):
        if rng.random() < 0.2:
            _reorder(found, rng)
        elif found:
            _change(rng.choice(found), rng)
    return b"".join(delimited(encoded(message)) for message in found)


@lru_cache(maxsize=64)
def _whole(data: bytes) -> Message:
    return parsed(data)


@lru_cache(maxsize=64)
def _stream(data: bytes) -> list[Message]:
    return [parsed(message) for message in messages(io.BytesIO(data), int(GIBI))]


def _reorder(found: list[Message], rng: Random) -> None:
    if not found:
        return
    at, to = rng.randrange(len(found)), rng.randrange(len(found))
    kind = rng.randrange(3)
    if kind == 0:
        del found[at]
    elif kind == 1:
        found.insert(to, copy.deepcopy(found[at]))
    else:
        found[at], found[to] = found[to], found[at]


def _every(message: Message) -> Iterator[tuple[Message, int]]:
    for at, field in enumerate(message):
        yield message, at
        if isinstance(field.value, list):
            yield from _every(field.value)


def _change(message: Message, rng: Random) -> None:
    found = list(_every(message))
    if not found:
        message.append(Field(rng.randint(1, 30), VARINT, rng.choice(NUMBERS)))
        return
    inside, at = rng.choice(found)
    field = inside[at]
    [kind] = rng.choices(KINDS, CHANCES)
    if kind == "number":
        _numbers_first(found, rng).value = rng.choice(NUMBERS)
    elif kind == "string":
        field.wire, field.value = DELIMITED, rng.choice(STRINGS)
    elif kind == "copy":
        same = [there[place] for there, place in found if there[place].number == field.number]
        field.value, field.wire = copy.deepcopy((other := rng.choice(same)).value), other.wire
    elif kind == "drop":
        del inside[at]
    elif kind == "double":
        inside.insert(at, copy.deepcopy(field))
    elif kind == "swap":
        to = rng.randrange(len(inside))
        inside[at], inside[to] = inside[to], inside[at]
    elif kind == "renumber":
        field.number = rng.randint(1, 30)
    elif kind == "retype":
        inside[at] = Field(field.number, VARINT, rng.choice(NUMBERS))
    elif kind == "inside" and isinstance(field.value, list):
        field.value.append(copy.deepcopy(field))
    else:
        inside[at:at] = [copy.deepcopy(field) for _ in range(rng.choice((10, 1000)))]


def _numbers_first(found: Sequence[tuple[Message, int]], rng: Random) -> Field:
    """A field that holds a number, which few do; any field where none does."""
    every = [inside[at] for inside, at in found]
    numbers = [field for field in every if isinstance(field.value, int)] or every
    chosen = rng.choice(numbers)
    chosen.wire = VARINT
    return chosen
