"""The wire format of protocol buffers, as much of it as execution traces use.

Source: protobuf.dev/programming-guides/encoding. What is wrong is a `WireError`, in words.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

VARINT, FIXED64, DELIMITED, FIXED32 = 0, 1, 2, 5
MAX_VARINT_BYTES = 10
_WIDTHS = {FIXED64: 8, FIXED32: 4}
_SMALL = tuple(bytes([value]) for value in range(128))


class WireError(Exception):
    """Bytes that are no protocol buffer."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at `at`, and where the next byte is."""
    value = 0
    for place in range(MAX_VARINT_BYTES):
        if at + place >= len(data):
            raise WireError("a number is cut off")
        byte = data[at + place]
        value |= (byte & 127) << (7 * place)
        if byte < 128:
            return value & (2**64 - 1), at + place + 1
    raise WireError("a number has more than 64 bits")


def signed(value: int) -> int:
    """A 64-bit number as two's complement."""
    return value - 2**64 if value >= 2**63 else value


def unzigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


def fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """(number, wire type, value) of every field of a message, in order."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        number, wire = key >> 3, key & 7
        if not number:
            raise WireError("a field has number 0")
        if wire == VARINT:
            value, at = varint(data, at)
            yield number, wire, value
            continue
        if wire == DELIMITED:
            length, at = varint(data, at)
        elif wire in _WIDTHS:
            length = _WIDTHS[wire]
        else:
            raise WireError(f"field {number} is of wire type {wire}, which no trace uses")
        if length > len(data) - at:
            raise WireError(f"field {number} says {length:,} bytes and {len(data) - at:,} are left")
        yield number, wire, data[at : at + length]
        at += length


def packed(data: bytes) -> Iterator[int]:
    """The numbers of a packed repeated field."""
    at = 0
    while at < len(data):
        value, at = varint(data, at)
        yield value


def messages(stream: BinaryIO, max_bytes: int) -> Iterator[bytes]:
    """Length-delimited messages, one at a time; none is longer than `max_bytes`."""
    while True:
        length = _length(stream)
        if length < 0:
            return
        if length > max_bytes:
            raise WireError(f"a message says it has {length:,} bytes; the most is {max_bytes:,}")
        data = stream.read(length)
        if len(data) < length:
            raise WireError(f"the file ends inside a message: {length:,} bytes are declared, {len(data):,} are left")
        yield data


def _length(stream: BinaryIO) -> int:
    """The length before a message; below 0 at the end of the file."""
    head = b""
    while len(head) < MAX_VARINT_BYTES:
        byte = stream.read(1)
        if not byte:
            if head:
                raise WireError("the file ends inside the length of a message")
            return -1
        head += byte
        if byte[0] < 128:
            return varint(head, 0)[0]
    raise WireError("the length of a message has more than 64 bits")


def encoded_varint(value: int) -> bytes:
    if 0 <= value < len(_SMALL):
        return _SMALL[value]
    value &= 2**64 - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def number_field(number: int, value: int) -> bytes:
    return encoded_varint(number << 3 | VARINT) + encoded_varint(value)


def bytes_field(number: int, value: bytes) -> bytes:
    return encoded_varint(number << 3 | DELIMITED) + encoded_varint(len(value)) + value


def double_field(number: int, value: float) -> bytes:
    return encoded_varint(number << 3 | FIXED64) + struct.pack("<d", value)


def delimited(message: bytes) -> bytes:
    """A message with its length before it."""
    return encoded_varint(len(message)) + message
