"""A network's links, written one by one in a file: devices, switches, and what joins them."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from dovetail.comm.events.unit_graphs import UnitGraph, Wire, both_ways
from dovetail.errors import did_you_mean
from dovetail.files.entry import Entry, placed
from dovetail.files.schema import MAX_LIST, MAX_TEXT_CHARACTERS, Shape, Text, amount, checked
from dovetail.hardware.link import Link

MAX_VERTICES = 2**16  # style: a count; no more are joined by as many links as a file may have


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= MAX_TEXT_CHARACTERS and value.isprintable()


def _end(value: object) -> object:
    if not (_is_count(value) or _is_name(value)):
        raise PydanticCustomError("rule", "{rule}", {"rule": "must be the name or number of a node or switch"})
    return value


def _vertices(value: object) -> object:
    is_list = isinstance(value, list) and 1 <= len(value) <= MAX_LIST and all(_is_name(name) for name in value)
    if not (_is_count(value) or is_list):
        raise PydanticCustomError("rule", "{rule}", {"rule": "must be a number or names"})
    if isinstance(value, int) and value > MAX_VERTICES:
        raise PydanticCustomError("rule", "{rule}", {"rule": f"must be at most {MAX_VERTICES:,}"})
    return value


class LinkShape(Shape):
    """One link of a graph, as written; it goes both ways unless stated otherwise."""

    old_keys: ClassVar = {"oneway": "one_way"}
    source: Annotated[Any, BeforeValidator(_end)]
    target: Annotated[Any, BeforeValidator(_end)]
    bandwidth: amount("bytes_per_s")  # type: ignore[valid-type]
    latency: amount("s")  # type: ignore[valid-type]
    one_way: bool = False


class GraphShape(Shape):
    """A link graph, as written: devices, switches, and what joins them."""

    nodes: Annotated[Any, BeforeValidator(_vertices)]
    switches: Annotated[Any, BeforeValidator(_vertices)] = 0
    links: list[LinkShape] = Field(min_length=1, max_length=MAX_LIST)
    name: Text = "graph"


def graph_of(entry: Entry) -> UnitGraph:
    """The graph that the file of `entry` describes."""
    shape: GraphShape = checked(entry, GraphShape)
    devices = _names(shape.nodes, 0)
    switches = _names(shape.switches, len(devices))
    if not devices:
        raise entry.child("nodes").refused(f"a network has 1 to {MAX_VERTICES:,} nodes; got 0")
    numbers = {**{word: i for i, word in enumerate(devices)}, **{w: len(devices) + i for i, w in enumerate(switches)}}
    if len(numbers) < len(devices) + len(switches):
        raise entry.child("nodes").refused("names of nodes and switches must differ")
    wires: dict[tuple[int, int], Wire] = {}
    for index, link in enumerate(shape.links):
        place = entry.child("links").child(index)
        for wire in _wires(link, numbers, len(devices) + len(switches), place):
            if (wire.source, wire.target) in wires:
                way_out = "give one link the bandwidth of both"
                raise place.refused(f"this links {wire.source} to {wire.target} twice; {way_out}")
            wires[wire.source, wire.target] = wire
    return UnitGraph(name=shape.name, num_devices=len(devices), num_switches=len(switches), wires=tuple(wires.values()))


def _names(value: int | list[str], first: int) -> list[str]:
    return list(value) if isinstance(value, list) else [f"#{first + index}" for index in range(value)]


def _wires(shape: LinkShape, numbers: dict[str, int], num_vertices: int, entry: Entry) -> tuple[Wire, ...]:
    ends = []
    for key in ("source", "target"):
        word = getattr(shape, key)
        number = word if isinstance(word, int) else numbers.get(word, -1)
        if not 0 <= number < num_vertices:
            hint = did_you_mean(str(word), [name for name in numbers if not name.startswith("#")])
            raise entry.child(key).refused(f"{key} names no node or switch: {word!r} of {num_vertices}{hint}")
        ends.append(number)
    if ends[0] == ends[1]:
        raise entry.refused(f"a link joins two; this joins {ends[0]} to itself")
    with placed(entry):
        link = Link(bandwidth_bytes_per_s=shape.bandwidth, latency_s=shape.latency)
    wires = both_ways(ends[0], ends[1], link)
    return wires[:1] if shape.one_way else wires
