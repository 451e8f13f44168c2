"""A Chakra trace (.et) of one rank as the events of a profile: operators of the host, and kernels by who called them.

A node's caller is the first it depends on by control, as Chakra's converter writes it. Shapes and types of inputs are
those of PyTorch's execution trace. Field numbers are those of mlcommons/chakra's et_def.proto 0.0.4.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from dovetail.errors import InvalidInput
from dovetail.files.chakra import MAX_DURATION_S, MAX_MESSAGE_BYTES, attribute_value, check_metadata, text_value
from dovetail.files.profiles.aten import is_known
from dovetail.files.profiles.call_tree import NO_CALL, CallTree
from dovetail.files.profiles.kineto import MAX_EVENTS, Events, HostCall, Kernel
from dovetail.files.protobuf import DELIMITED, VARINT, WireError, fields, messages, packed
from dovetail.files.text import one_line
from dovetail.units import MEGA

_ID, _NAME, _TYPE, _CONTROL, _DURATION, _INPUTS, _ATTRIBUTE = 1, 2, 3, 4, 7, 8, 10
_VALUES, _SHAPES, _TYPES = 1, 2, 3
_COMPUTE, _COLLECTIVE = 4, 7
_COUNTS = ("is_cpu_op", "comm_size", "seq_id", "fw_tid")  # attributes that are numbers; words there say nothing
MAX_TEXT = 200_000


@dataclass(slots=True)
class _Node:
    number: int = 0
    name: str = ""
    kind: int = 0
    caller: int = NO_CALL
    took_s: float = 0.0
    inputs: dict[int, str] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def is_on_host(self) -> bool:
        return bool(self.attributes.get("is_cpu_op", True))


def read_chakra(stream: BinaryIO) -> tuple[Events, CallTree]:
    """The events of a trace, and their calls; raises `InvalidInput` where it is none."""
    nodes: dict[int, _Node] = {}
    try:
        for place, message in enumerate(messages(stream, MAX_MESSAGE_BYTES)):
            if place == 0:
                check_metadata(message)
                continue
            node = _node(message)
            if node.number in nodes:
                raise WireError(f"two nodes have the id {node.number}")
            nodes[node.number] = node
            if len(nodes) > MAX_EVENTS:
                raise WireError(f"a trace has at most {MAX_EVENTS:,} nodes")
    except WireError as error:
        raise InvalidInput(f"this is no whole Chakra trace: {error}") from None
    return _events(nodes)


def _events(nodes: dict[int, _Node]) -> tuple[Events, CallTree]:
    events, place = Events(), {}
    for node in nodes.values():
        if node.is_on_host:
            place[node.number] = len(events.call)
            _add_call(events, node)
        elif node.took_s and node.kind in (_COMPUTE, _COLLECTIVE):
            _add_kernel(events, node)
    parents = [NO_CALL] * len(events.call)
    for number, index in place.items():
        parents[index] = place.get(nodes[number].caller, NO_CALL)
    return events, CallTree(events.call, list(events.calls), parents, _outermost_first(parents))


def _outermost_first(parents: list[int]) -> list[int]:
    """Every call behind the one around it; raises where calls stand within each other in a ring."""
    children: list[list[int]] = [[] for _ in parents]
    order = []
    for index, around in enumerate(parents):
        if around == NO_CALL:
            order.append(index)
        else:
            children[around].append(index)
    for index in order:  # grows as it is gone through
        order.extend(children[index])
    if len(order) != len(parents):
        raise InvalidInput("this is no Chakra trace: nodes call each other in a ring")
    return order


def _add_call(events: Events, node: _Node) -> None:
    attributes = node.attributes
    is_recorded = attributes.get("seq_id", -1) >= 0 and not attributes.get("fw_tid")
    is_operator = node.kind == _COMPUTE
    order = (_SHAPES, _TYPES, _VALUES) if is_operator and is_known(node.name) else ()
    call = HostCall(node.name, is_operator, is_recorded, *(_literal(node.inputs.get(part, "")) for part in order))
    events.begin_s.append(0.0)
    events.took_s.append(node.took_s)
    events.thread.append(0)
    events.id.append(node.number + 1)
    events.call.append(events.calls.setdefault(call, len(events.calls)))


def _add_kernel(events: Events, node: _Node) -> None:
    kernel = Kernel(node.name, "")
    if node.kind == _COLLECTIVE:
        size_bytes, group = node.attributes.get("comm_size", 0), node.attributes.get("pg_name", "")
        # how many ranks take part is in no node, so its message alone is known
        kernel = Kernel(node.name, "", False, one_line(str(group)) or node.name, float(size_bytes), 0)
    events.kernel_s.append(node.took_s)
    events.kernel_id.append(node.caller + 1 if node.caller != NO_CALL else 0)
    events.kernel_launch.append(0)
    events.kernel.append(events.kernels.setdefault(kernel, len(events.kernels)))


def _node(message: bytes) -> _Node:
    node = _Node()
    for number, wire, value in fields(message):
        if number in (_ID, _TYPE, _DURATION):
            if wire != VARINT or not isinstance(value, int) or value >= 2**62:
                raise WireError(f"field {number} of a node must be a whole number")
            if number == _ID:
                node.number = value
            elif number == _TYPE:
                node.kind = value
            else:
                node.took_s = value / MEGA
        elif number == _NAME:
            node.name = one_line(text_value(value))[:MAX_TEXT]
        elif number == _CONTROL and node.caller == NO_CALL:
            node.caller = next(iter(packed(value) if isinstance(value, bytes) else (value,)), NO_CALL)
            if node.caller >= 2**62:
                raise WireError(f"node {node.number} depends on node {node.caller}, and ids are below 2^62")
        elif number == _INPUTS and wire == DELIMITED and isinstance(value, bytes):
            node.inputs = {part: text_value(text) for part, _, text in fields(value) if part <= _TYPES}
        elif number == _ATTRIBUTE and isinstance(value, bytes):
            node.attributes |= _attribute(value)
    if node.took_s > MAX_DURATION_S:
        raise WireError(f"a duration is at most {MAX_DURATION_S:g} s; node {node.number} has {node.took_s:g} s")
    return node


def _attribute(data: bytes) -> dict[str, Any]:
    name, found = "", None
    for number, wire, value in fields(data):
        if number == 1:
            name = text_value(value)
        elif number > 2:
            found = attribute_value(number, wire, value)
    if name == "pg_name":
        return {name: str(found)} if isinstance(found, bool | int | str) else {}
    if isinstance(found, str) and re.fullmatch(r"-?[0-9]{1,18}", found):
        found = int(found)
    return {name: int(found)} if name in _COUNTS and isinstance(found, bool | int) else {}


def _literal(text: str) -> str:
    """Words of a list as PyTorch writes them; nothing where they are none."""
    try:
        found = ast.literal_eval(text) if len(text) <= MAX_TEXT else None
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return ""
    return repr(found) if isinstance(found, list) else ""
