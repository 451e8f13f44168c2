"""Chakra execution traces (.et): a GlobalMetadata message, then one Node message each, all length-delimited.

Field numbers and the numbers of node types and collectives are those of mlcommons/chakra's et_def.proto 0.0.4.
Durations are whole microseconds. Attributes that say nothing about time are not kept.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO

from dovetail.comm.trace.nodes import COLLECTIVES, KINDS, Rank, TraceNode, check_rank
from dovetail.errors import DovetailError, InvalidInput, NotModelled
from dovetail.files.protobuf import (
    DELIMITED,
    VARINT,
    WireError,
    bytes_field,
    delimited,
    fields,
    messages,
    number_field,
    packed,
    signed,
    unzigzag,
)
from dovetail.files.text import one_line
from dovetail.units import MEBI, MEGA

VERSION = "0.0.4"
MAX_MESSAGE_BYTES = int(MEBI)
MAX_NODES = 200_000  # of one rank
MAX_NAME = 20_000  # kernels of C++ templates have names of some thousands
MAX_AFTER = 2_000_000  # dependencies of one rank
MAX_VALUE = 2**63 - 1
MAX_DURATION_S = 1e7  # style: a bound, a third of a year; nanoseconds still count in a sum of such
_ID, _NAME, _TYPE, _CONTROL, _DATA, _DURATION, _ATTRIBUTE = 1, 2, 3, 4, 5, 7, 10
_INT64, _UINT64, _BOOL, _BOOLS, _TEXT = 9, 13, 27, 28, 29
_SIGNED, _ZIGZAG = {7, 9}, {15, 17}
_FIXED = {3: "<d", 5: "<f", 19: "<I", 21: "<Q", 23: "<i", 25: "<q"}
_FIELD_OF = {
    "is_cpu_op": "is_cpu", "comm_type": "collective", "comm_size": "size_bytes", "comm_src": "source",
    "comm_dst": "target", "comm_tag": "tag", "pg_name": "group", "involved_dim": "involved", "num_ops": "num_ops",
    "tensor_size": "tensor_bytes",
}  # fmt: skip
_WHOLE = ("size_bytes", "source", "target", "tag", "num_ops", "tensor_bytes")


def read_rank(stream: BinaryIO, shown: str, rank: int) -> Rank:
    """The nodes in `stream`; every error names the file, the rank and the node."""
    nodes: list[TraceNode] = []
    num_after, place = 0, f"{shown}: rank {rank}"
    try:
        for number, message in enumerate(messages(stream, MAX_MESSAGE_BYTES)):
            if number == 0:
                check_metadata(message)
                continue
            nodes.append(_node(message))
            num_after += len(nodes[-1].after)
            if len(nodes) > MAX_NODES or num_after > MAX_AFTER:
                raise WireError(f"a rank has at most {MAX_NODES:,} nodes and {MAX_AFTER:,} dependencies")
    except WireError as error:
        raise InvalidInput(f"this is no whole Chakra trace: {error}", f"{place}, {_next(nodes)}") from None
    except DovetailError as error:
        raise type(error)(error.message, f"{place}, {error.where or _next(nodes)}") from None
    if not nodes:
        raise InvalidInput("the trace holds no node", place)
    try:
        check_rank(nodes, rank)
    except DovetailError as error:
        raise type(error)(error.message, f"{shown}: {error.where}") from None
    return tuple(nodes)


def _next(nodes: Sequence[TraceNode]) -> str:
    return f"after {nodes[-1].label}" if nodes else "before the first node"


def check_metadata(message: bytes) -> None:
    for number, wire, value in fields(message):
        if number == 1 and wire == DELIMITED:
            text_value(value)
        elif number > 2 or wire != DELIMITED:
            raise WireError("the file does not begin with GlobalMetadata")


def _node(message: bytes) -> TraceNode:
    node: dict[str, Any] = {"id": 0, "name": "", "duration_s": 0.0}
    after: dict[int, None] = {}
    type_number = 0
    for number, wire, value in fields(message):
        if number in (_ID, _TYPE, _DURATION):
            if wire != VARINT or not isinstance(value, int) or value > MAX_VALUE:
                raise WireError(f"field {number} of a node must be a whole number below 2^63")
            if number == _TYPE:
                type_number = value
            else:
                node |= {"id": value} if number == _ID else {"duration_s": value / MEGA}
        elif number == _NAME:
            node["name"] = one_line(text_value(value))
            if len(node["name"]) > MAX_NAME:
                raise WireError(f"a name has at most {MAX_NAME:,} characters; got {len(node['name']):,}")
        elif number in (_CONTROL, _DATA):
            after.update(dict.fromkeys(packed(value) if isinstance(value, bytes) else (value,)))
        elif number == _ATTRIBUTE:
            node |= _attribute(value)
    if not 1 <= type_number <= len(KINDS):
        raise InvalidInput(f"a node's type is 1 to {len(KINDS)}; got {type_number}", f"node {node['id']}")
    return _checked(TraceNode(kind=KINDS[type_number - 1], after=tuple(after), **node))


def _attribute(data: int | bytes) -> dict[str, Any]:
    """What an attribute says of a node; nothing where we do not use it."""
    if not isinstance(data, bytes):
        raise WireError("an attribute is no message")
    name, found = "", None
    for number, wire, value in fields(data):
        if number == 1:
            name = text_value(value)
        elif number > 2:
            found = attribute_value(number, wire, value)
    field = _FIELD_OF.get(name, "")
    if not field or found is None:
        return {}
    if field in _WHOLE:
        if isinstance(found, float) and found.is_integer():
            found = int(found)
        if not isinstance(found, int):
            raise WireError(f"attribute {name} must be a whole number")
        return {field: int(found)}
    if field == "collective":
        if not isinstance(found, int) or not 0 <= found < len(COLLECTIVES):
            raise WireError(f"comm_type is 0 to {len(COLLECTIVES) - 1}; got {found!r:.40}")
        return {field: COLLECTIVES[found]}
    if field == "involved":
        if not isinstance(found, tuple):
            raise WireError("involved_dim must be a list of true and false")
        return {field: found}
    return {field: bool(found) if field == "is_cpu" else one_line(str(found))}


def attribute_value(number: int, wire: int, value: int | bytes) -> Any:
    """What an attribute holds, by the number of the field it is in; nothing where no attribute of ours has such."""
    if isinstance(value, int):
        if number in _ZIGZAG:
            return unzigzag(value)
        return bool(value) if number == _BOOL else signed(value) if number in _SIGNED else value
    if number in _FIXED:
        if len(value) != struct.calcsize(_FIXED[number]):
            raise WireError(f"an attribute's field {number} has {len(value)} bytes")
        return struct.unpack(_FIXED[number], value)[0]
    if number == _TEXT:
        return text_value(value)
    if number == _BOOLS and wire == DELIMITED:
        return tuple(bool(bit) for _, _, part in fields(value) for bit in _numbers(part))
    return None


def _numbers(part: int | bytes) -> Iterable[int]:
    return packed(part) if isinstance(part, bytes) else (part,)


def text_value(value: int | bytes) -> str:
    if not isinstance(value, bytes):
        raise WireError("a name must be text")
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        raise WireError("a name is not UTF-8") from None


def _checked(node: TraceNode) -> TraceNode:
    for name in ("size_bytes", "source", "target", "num_ops", "tensor_bytes"):
        if not 0 <= getattr(node, name) <= MAX_VALUE:
            raise InvalidInput(f"{name} must be from 0 to 2^63; got {getattr(node, name)}", node.label)
    if node.duration_s > MAX_DURATION_S:
        raise InvalidInput(f"duration_micros is at most {MAX_DURATION_S:g} s; got {node.duration_s:g} s", node.label)
    if node.kind == "collective" and not node.collective:
        raise InvalidInput("a collective must state its comm_type", node.label)
    if node.kind == "compute" and node.num_ops and not node.duration_s:
        raise NotModelled("a kernel must state its duration_micros; num_ops alone is no time", node.label)
    return node


def encoded(nodes: Iterable[TraceNode]) -> bytes:
    """The .et file of one rank, which `read_rank` reads back as the same nodes."""
    head = delimited(bytes_field(1, VERSION.encode()))
    return head + b"".join(delimited(_encoded(node)) for node in nodes)


def _encoded(node: TraceNode) -> bytes:
    out = number_field(_ID, node.id) + bytes_field(_NAME, node.name.encode())
    out += number_field(_TYPE, KINDS.index(node.kind) + 1)
    out += b"".join(number_field(_DATA, before) for before in node.after)
    if node.duration_s:
        out += number_field(_DURATION, round(node.duration_s * MEGA))
    attributes = [("is_cpu_op", number_field(_BOOL, int(node.is_cpu)))]
    if node.collective:
        attributes.append(("comm_type", number_field(_INT64, COLLECTIVES.index(node.collective))))
    if node.involved:
        bits = bytes(node.involved)
        attributes.append(("involved_dim", bytes_field(_BOOLS, bytes_field(1, bits))))
    if node.group:
        attributes.append(("pg_name", bytes_field(_TEXT, node.group.encode())))
    for name, field in _FIELD_OF.items():
        if field in _WHOLE and (value := getattr(node, field)):
            attributes.append((name, number_field(_INT64, value)))
    return out + b"".join(bytes_field(_ATTRIBUTE, bytes_field(1, name.encode()) + value) for name, value in attributes)
