"""Networks as people write them: `ring:8@50GB/s,500ns`, several dimensions joined by x, or a file with links."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

from pydantic import Field

from dovetail.errors import DovetailError, InvalidInput, did_you_mean
from dovetail.files.cluster import load_cluster
from dovetail.files.entry import Entry, is_file_name, opened, placed
from dovetail.files.network_words import options_of, whole
from dovetail.files.schema import MAX_LIST, Shape, Text, Whole, amount, checked
from dovetail.files.text import quoted
from dovetail.hardware.clusters import clusters
from dovetail.hardware.link import Link
from dovetail.hardware.topology import Dimension
from dovetail.network.events.asked import Network
from dovetail.network.events.network_graph import network_graph
from dovetail.network.events.unit_graphs import UnitGraph, Wire, both_ways, clos, dragonfly
from dovetail.units import quantity

EXAMPLE = "as in ring:8@50GB/s,500ns"
MAX_DEVICES = 2**16  # style: a count; links and clocks of that many fit in half a gigabyte
MAX_MESHED = 2**11  # style: a count; all joined to all is its square, and ways through a graph are searched one by one
MAX_POINTS = 64
NAMES = "xyzwvu"
KINDS = {  # as written: as a topology has it
    "ring": "bidirectional-ring",
    "bidirectional-ring": "bidirectional-ring",
    "uniring": "ring",
    "mesh": "mesh",
    "torus": "bidirectional-ring",
    "switch": "switch",
    "fully-connected": "fully-connected",
    "fat-tree": "fat-tree",
    "dragonfly": "dragonfly",
}
_JOINT = re.compile(rf"\s*;\s*|\s+[x×]\s+|x(?=(?:{'|'.join(KINDS)}):)")
_PART = re.compile(r"(?:([A-Za-z_][\w-]*)\s*=\s*)?([A-Za-z-]+)\s*:\s*([0-9x.]+)\s*(?:@(.*))?")
_EXTRAS = {"fat-tree": ("oversubscription", "leaf", "spines"), "switch": ("oversubscription",)}
_EXTRAS["dragonfly"] = ("global", "global-latency")
Part = Dimension | UnitGraph


class LinkShape(Shape):
    """One link of a graph, as written; it goes both ways unless it says otherwise."""

    source: Text | Whole
    target: Text | Whole
    bandwidth: amount("bytes_per_s")  # type: ignore[valid-type]
    latency: amount("s")  # type: ignore[valid-type]
    oneway: bool = False


class GraphShape(Shape):
    """A link graph, as written: devices, switches, and what joins them."""

    nodes: Whole | list[Text]
    switches: Whole | list[Text] = 0
    links: list[LinkShape] = Field(min_length=1, max_length=MAX_LIST)
    name: Text = "graph"


def load_networks(reference: str) -> tuple[Network, ...]:
    """The networks `reference` says: one, or one for each size where a number of devices is a range, as in 8..64.

    It is a description, the name of a catalogue cluster, or a file with a link graph or a cluster.
    """
    text = reference.strip()
    if is_file_name(text) and "@" not in text:
        return (_from_file(text),)
    if ":" not in text and text in clusters:
        return (_network(text, load_cluster(text).topology.dimensions),)
    return tuple(_network(one, _parts(one)) for one in _ranged(text))


def _network(text: str, parts: tuple[Part, ...]) -> Network:
    num_devices = math.prod(part.num_devices for part in parts)
    if not 1 <= num_devices <= MAX_DEVICES:
        raise InvalidInput(f"a network has 1 to {MAX_DEVICES:,} devices; {quoted(text)} has {num_devices:,}")
    for part in parts:
        is_searched = isinstance(part, UnitGraph) or part.kind == "fully-connected"
        if is_searched and part.num_devices > MAX_MESHED:
            said = f"all joined to all, or as a graph, are at most {MAX_MESHED:,} devices; got {part.num_devices:,}"
            raise InvalidInput(said, part.name)
    names = [part.name for part in parts]
    if len(set(names)) < len(names):
        raise InvalidInput(f"dimension names must differ; got {', '.join(names)}")
    return Network(name=text, parts=parts, graph=network_graph(parts))


def _ranged(text: str) -> list[str]:
    """`text` once for every number of devices where it has a range of them."""
    found = re.search(r"([0-9]+)\.\.([0-9]+)", text)
    if not found:
        return [text]
    first, last = (whole(word, "devices") for word in found.groups())
    return [f"{text[: found.start()]}{count}{text[found.end() :]}" for count in _doubled(first, last)]


def _doubled(first: float, last: float) -> list[float]:
    if not 0 < first <= last:
        raise InvalidInput(f"a range goes up from above 0; got {first:g} to {last:g}")
    values = [first]
    while values[-1] * 2 < last:
        values.append(values[-1] * 2)
    values += [last] if last > first else []
    if len(values) > MAX_POINTS:
        raise InvalidInput(f"a range doubles at most {MAX_POINTS} times; got {len(values)} steps")
    return values


def sizes_bytes(text: str) -> tuple[float, ...]:
    """Payloads: one such as 64 MiB, or 1MiB..1GiB by doubling."""
    return _amounts(text, "bytes", "--size", "1MiB..1GiB")


def memories_bytes_per_s(text: str) -> tuple[float, ...]:
    """Memory bandwidths: one such as 450 GB/s, or 100GB/s..800GB/s by doubling; no text, no limit."""
    return _amounts(text, "bytes_per_s", "--memory", "100GB/s..800GB/s") if text else (math.inf,)


def _amounts(text: str, unit: str, option: str, example: str) -> tuple[float, ...]:
    try:
        ends = [quantity(word.strip(), unit) for word in text.split("..")]
    except DovetailError as error:
        raise InvalidInput(error.message, option) from None
    if len(ends) > 2 or min(ends) <= 0:
        raise InvalidInput(f"this is above 0, or a range of two such as {example}; got {quoted(text)}", option)
    return tuple(_doubled(ends[0], ends[-1]))


def _parts(text: str) -> tuple[Part, ...]:
    parts: list[Part] = []
    for word in _JOINT.split(text):
        parts += _part(word.strip(), len(parts))
    return tuple(parts)


def _part(text: str, first: int) -> list[Part]:
    match = _PART.fullmatch(text)
    if match is None:
        known = "" if text else "; there is nothing between two joints"
        raise InvalidInput(f"cannot read {quoted(text)} as a network; write it {EXAMPLE}{known}", "--topology")
    name, kind, size, said = match.groups()
    if kind not in KINDS:
        raise InvalidInput(f"no network is of kind {quoted(kind)}{did_you_mean(kind, KINDS)}", "--topology")
    if said is None:
        raise InvalidInput(f"{quoted(text)} says no bandwidth and latency; write it {EXAMPLE}", "--topology")
    link, extra = options_of(said, text, _EXTRAS.get(kind, ()))
    counts = [whole(word, "devices") for word in size.split("x")]
    num_dimensions = len(counts) if kind in ("torus", "mesh") else 1
    names = [NAMES[i : i + 1] or f"d{i}" for i in range(first, first + num_dimensions)]
    if name:
        names = [name] if num_dimensions == 1 else [f"{name}{i}" for i in range(num_dimensions)]
    return _built(kind, names, counts, link, extra, text)


def _built(
    kind: str, names: list[str], counts: list[int], link: Link, extra: dict[str, float], text: str
) -> list[Part]:
    if kind == "dragonfly":
        return [_dragonfly(names[0], counts, link, extra, text)]
    if len(counts) != len(names):
        raise InvalidInput(f"a {kind} has one number of devices; got {quoted(text)}", "--topology")
    if "leaf" in extra:
        leaf, oversubscription = int(extra["leaf"]), extra.get("oversubscription", 1.0)
        return [clos(names[0], counts[0], leaf, int(extra.get("spines", leaf)), link, oversubscription)]
    oversubscription = extra.get("oversubscription", 1.0)
    return [
        Dimension(name=name, kind=KINDS[kind], num_devices=count, link=link, oversubscription=oversubscription)
        for name, count in zip(names, counts, strict=True)
    ]


def _dragonfly(name: str, counts: list[int], link: Link, extra: dict[str, float], text: str) -> UnitGraph:
    if len(counts) != 3:
        form = "groups x routers x devices of a router, as in dragonfly:9x4x2@50GB/s,500ns"
        raise InvalidInput(f"a dragonfly says {form}; got {quoted(text)}", "--topology")
    if math.prod(counts) > MAX_MESHED:
        raise InvalidInput(f"a dragonfly has at most {MAX_MESHED:,} devices; got {math.prod(counts):,}", "--topology")
    far = Link(
        bandwidth_bytes_per_s=extra.get("global", link.bandwidth_bytes_per_s),
        latency_s=extra.get("global-latency", link.latency_s),
    )
    return dragonfly(name, counts[0], counts[1], counts[2], link, far)


def _from_file(name: str) -> Network:
    entry = opened(Path(name))
    if not entry.has("links"):
        return _network(name, load_cluster(name).topology.dimensions)
    shape: GraphShape = checked(entry, GraphShape)
    devices, switches = _vertices(shape.nodes), _vertices(shape.switches)
    numbers = {**{word: i for i, word in enumerate(devices)}, **{w: len(devices) + i for i, w in enumerate(switches)}}
    if len(numbers) < len(devices) + len(switches):
        raise entry.child("nodes").refused("names of nodes and switches must differ")
    wires: list[Wire] = []
    for index, link in enumerate(shape.links):
        wires += _wires(link, numbers, len(devices) + len(switches), entry.child("links").child(index))
    unit = UnitGraph(name=shape.name, num_devices=len(devices), num_switches=len(switches), wires=tuple(wires))
    return _network(name, (unit,))


def _vertices(said: int | list[str]) -> list[str]:
    return list(said) if isinstance(said, list) else [f"#{index}" for index in range(min(said, MAX_DEVICES))]


def _wires(shape: LinkShape, numbers: dict[str, int], num_vertices: int, entry: Entry) -> tuple[Wire, ...]:
    ends = []
    for key in ("source", "target"):
        word = getattr(shape, key)
        number = word if isinstance(word, int) else numbers.get(word, -1)
        if not 0 <= number < num_vertices:
            hint = did_you_mean(str(word), [name for name in numbers if not name.startswith("#")])
            raise entry.child(key).refused(f"{key} names no node or switch: {word!r} of {num_vertices}{hint}")
        ends.append(number)
    with placed(entry):
        link = Link(bandwidth_bytes_per_s=shape.bandwidth, latency_s=shape.latency)
    wires = both_ways(ends[0], ends[1], link)
    return wires[:1] if shape.oneway else wires


def with_faults(network: Network, text: str) -> Network:
    """`network` with links slowed: '2-3=0.5' leaves half of the bandwidth, both ways; 0 breaks the link."""
    graph = network.graph
    for word in filter(None, (word.strip() for word in text.split(","))):
        match = re.fullmatch(r"([0-9]+)\s*([->])\s*([0-9]+)\s*=\s*([0-9.]+)", word)
        if match is None or match[4].count(".") > 1 or not float(match[4]) <= 1:
            raise InvalidInput(f"a slow link is written 2-3=0.5, or 2>3=0 for one way; got {quoted(word)}", "--slow")
        a, b, share = int(match[1]), int(match[3]), float(match[4])
        try:
            graph = graph.with_link_scaled(a, b, share)
            graph = graph.with_link_scaled(b, a, share) if match[2] == "-" else graph
        except DovetailError as error:
            raise InvalidInput(error.message, "--slow") from None
    return replace(network, graph=graph)
