"""An ONNX file without its weights: only their shapes count, so gigabytes of numbers are never read.

Source of the field numbers: onnx.proto of ONNX 1.17, which may not change them.
"""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.files.protobuf import DELIMITED, FIXED32, FIXED64, MAX_VARINT_BYTES, VARINT, WireError
from dovetail.units import KIBI

KEPT_BYTES = 64 * int(KIBI)  # a message up to this size stays whole: shapes, axes, scales and masks of use are smaller
_WIDTHS = {FIXED64: 8, FIXED32: 4}

# Which fields of a message hold messages that may hold weights, from ModelProto down to TensorProto.
_TENSOR = "tensor"
_INSIDE: dict[str, dict[int, str]] = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: _TENSOR},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: _TENSOR, 6: "graph", 10: _TENSOR, 11: "graph"},
}
_DATA = {4, 5, 6, 7, 9, 10, 11}  # float, int32, string, int64, raw, double, uint64
_RAW, _NAME = 9, 8
_MAX_DEPTH = 64  # subgraphs inside subgraphs; protocol buffers themselves stop at 100


def slim(data: memoryview) -> tuple[bytes, dict[str, int]]:
    """The model less the numbers of its large tensors, and where in `data` those of each begin.

    A `WireError` where the bytes are no message.
    """
    starts: dict[str, int] = {}
    return _slim(data, "model", 0, 0, starts), starts


def _slim(data: memoryview, message: str, depth: int, offset: int, starts: dict[str, int]) -> bytes:
    if depth > _MAX_DEPTH:
        raise WireError(f"its graphs are nested more than {_MAX_DEPTH} deep")
    inside = _INSIDE.get(message, {})
    kept: list[bytes] = []
    name, raw_at = "", 0
    for number, start, content, end in _fields(data):
        if message == _TENSOR and number in _DATA:
            raw_at = offset + content if number == _RAW else raw_at
            continue
        if message == _TENSOR and number == _NAME:
            name = str(data[content:end], "utf-8", "replace")
        if number in inside and end - content > KEPT_BYTES:
            smaller = _slim(data[content:end], inside[number], depth + 1, offset + content, starts)
            kept += (_varint(number << 3 | DELIMITED), _varint(len(smaller)), smaller)
        else:
            kept.append(bytes(data[start:end]))
    if name and raw_at:
        starts[name] = raw_at
    return b"".join(kept)


def _fields(data: memoryview) -> Iterator[tuple[int, int, int, int]]:
    """(number, where the field starts, where its content starts, where it ends)."""
    at, size = 0, len(data)
    while at < size:
        start = at
        key, at = _number(data, at)
        number, wire = key >> 3, key & 7
        if not number:
            raise WireError("a field has number 0")
        content = at
        if wire == VARINT:
            _, at = _number(data, at)
        elif wire == DELIMITED:
            length, content = _number(data, at)
            at = content + length
        elif wire in _WIDTHS:
            at += _WIDTHS[wire]
        else:
            raise WireError(f"field {number} is of wire type {wire}")
        if at > size:
            raise WireError(f"field {number} needs {at - content:,} bytes and {size - content:,} are left")
        yield number, start, content, at


def _number(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for place, byte in enumerate(data[at : at + MAX_VARINT_BYTES]):
        value |= (byte & 127) << (7 * place)
        if byte < 128:
            return value, at + place + 1
    raise WireError("a number is cut off, or has more than 64 bits")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
