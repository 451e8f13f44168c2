"""Networks as people write them: `ring:8@50GB/s,500ns`, several dimensions joined by x, or a file with links."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

from dovetail.comm.events.network_graph import network_graph
from dovetail.comm.events.unit_graphs import UnitGraph, clos, dragonfly, torus_graph
from dovetail.comm.one_collective import Network
from dovetail.errors import DovetailError, InvalidInput, did_you_mean
from dovetail.files.cluster import load_cluster
from dovetail.files.cluster_names import names_cluster
from dovetail.files.entry import is_file_name, opened, placed
from dovetail.files.link_graph import graph_of
from dovetail.files.network_formats import options_of, whole
from dovetail.files.text import quoted
from dovetail.hardware.clusters import clusters
from dovetail.hardware.link import Link
from dovetail.hardware.topology import Dimension
from dovetail.units import EXA, KIBI, KILO, PEBI, format_bytes, format_rate, format_s, quantity

EXAMPLE = "as in ring:8@50GB/s,500ns"
MAX_DEVICES = 2**16  # style: a count; links and clocks of that many fit in half a gigabyte
MAX_MESHED = 2**11  # style: a count; all joined to all is its square, and ways through a graph are searched one by one
MAX_SPINE_LINKS = 2**13  # style: a count; ways through them are searched one by one
MAX_POINTS = 64
MAX_LATENCY_S = KILO  # style: bounds far outside of any network, inside of what floats add up exactly
MIN_BYTES_PER_S, MAX_BYTES_PER_S = 1.0, KILO * EXA
MIN_SIZE_BYTES, MAX_SIZE_BYTES = 1.0, KIBI * PEBI
ASTRA_KEY = "npus_count"  # which its network files have, and ours have not
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
    "twisted-torus": "twisted-torus",
}
_JOINT = re.compile(rf"\s*;\s*|\s+[x×]\s+|x(?=(?:{'|'.join(KINDS)}):)")
_PART = re.compile(r"(?:([A-Za-z_][\w-]*)\s*=\s*)?([A-Za-z-]+)\s*:\s*([0-9x.]+)\s*(?:@(.*))?")
_EXTRAS = {"fat-tree": ("oversubscription", "leaf", "spines"), "switch": ("oversubscription",)}
_EXTRAS["dragonfly"] = ("global", "global-latency")
Part = Dimension | UnitGraph


def load_networks(reference: str) -> tuple[Network, ...]:
    """The networks `reference` says: one, or one for each size where a number of devices is a range, as in 8..64.

    It is a description, the name of a catalogue cluster, or a file with a link graph or a cluster.
    """
    text = reference.strip()
    if is_file_name(text) and "@" not in text:
        return (_from_file(text),)
    if ":" not in text and names_cluster(text):
        return (network_of(text, load_cluster(text).topology.dimensions),)
    return tuple(network_of(one, _parts(one)) for one in _ranged(text))


def network_of(text: str, parts: tuple[Part, ...]) -> Network:
    """The network `text` names, once it is known to be one that fits into memory."""
    num_devices = math.prod(part.num_devices for part in parts)
    if not 1 <= num_devices <= MAX_DEVICES:
        raise InvalidInput(f"a network has 1 to {MAX_DEVICES:,} devices; {quoted(text)} has {num_devices:,}")
    for part in parts:
        is_searched = isinstance(part, UnitGraph) or part.kind == "fully-connected"
        if is_searched and part.num_devices > MAX_MESHED:
            message = f"all joined to all, or as a graph, are at most {MAX_MESHED:,} devices; got {part.num_devices:,}"
            raise InvalidInput(message, part.name)
        for link in {wire.link for wire in part.wires} if isinstance(part, UnitGraph) else (part.link,):
            _check_link(link, part.name)
    names = [part.name for part in parts]
    if len(set(names)) < len(names):
        raise InvalidInput(f"dimension names must differ; got {', '.join(names)}")
    return Network(name=text, parts=parts, graph=network_graph(parts))


def _check_link(link: Link, where: str) -> None:
    if not MIN_BYTES_PER_S <= link.bandwidth_bytes_per_s <= MAX_BYTES_PER_S:
        least, most = (format_rate(limit, "B/s", 0) for limit in (MIN_BYTES_PER_S, MAX_BYTES_PER_S))
        raise InvalidInput(f"bandwidth is from {least} to {most}; got {link.bandwidth_bytes_per_s:g} B/s", where)
    if not link.latency_s <= MAX_LATENCY_S:
        raise InvalidInput(f"latency is at most {format_s(MAX_LATENCY_S, 0)}; got {link.latency_s:g} s", where)


def _ranged(text: str) -> list[str]:
    """`text` once for every number of devices where it has a range of them."""
    found = re.search(r"([0-9]+)\.\.([0-9]+)", text)
    if not found:
        return [text]
    first, last = (whole(word, "devices") for word in found.groups())
    counts = _doubled(first, last, f"{first:,} to {last:,} devices", "--topology")
    return [f"{text[: found.start()]}{count}{text[found.end() :]}" for count in counts]


def _doubled(first: float, last: float, shown: str, option: str) -> list[float]:
    if not 0 < first <= last:
        raise InvalidInput(f"a range goes up; got {shown}", option)
    values = [first]
    while values[-1] * 2 < last:
        values.append(values[-1] * 2)
    values += [last] if last > first else []
    if len(values) > MAX_POINTS:
        raise InvalidInput(f"a range doubles at most {MAX_POINTS} times; {shown} is {len(values)} steps", option)
    return values


def sizes_bytes(text: str) -> tuple[float, ...]:
    """Payloads: one such as 64 MiB, or 1MiB..1GiB by doubling."""
    return _amounts(text, "bytes", "--size", "1MiB..1GiB", (MIN_SIZE_BYTES, MAX_SIZE_BYTES))


def memories_bytes_per_s(text: str) -> tuple[float, ...]:
    """Memory bandwidths: one such as 450 GB/s, or 100GB/s..800GB/s by doubling; no text, no limit."""
    return rates_bytes_per_s(text, "--memory") if text else (math.inf,)


def rates_bytes_per_s(text: str, option: str) -> tuple[float, ...]:
    return _amounts(text, "bytes_per_s", option, "100GB/s..800GB/s", (MIN_BYTES_PER_S, MAX_BYTES_PER_S))


def _amounts(text: str, unit: str, option: str, example: str, limits: tuple[float, float]) -> tuple[float, ...]:
    try:
        ends = [quantity(word.strip(), unit) for word in text.split("..")]
    except DovetailError as error:
        raise InvalidInput(error.message, option) from None
    least, most, *shown = (
        format_bytes(value) if unit == "bytes" else format_rate(value, "B/s") for value in (*limits, *ends)
    )
    if len(ends) > 2 or not all(limits[0] <= end <= limits[1] for end in ends):
        rule = f"this is from {least} to {most}, or a range of two such as {example}"
        raise InvalidInput(f"{rule}; got {quoted(text)}", option)
    return tuple(_doubled(ends[0], ends[-1], " to ".join(shown), option))


def _parts(text: str) -> tuple[Part, ...]:
    parts: list[Part] = []
    if re.search(r"(?:\s[x×]|;)$", text):
        raise InvalidInput(f"there is nothing after the last {text[-1]} of {quoted(text)}", "--topology")
    for word in _JOINT.split(text):
        parts += _part(word.strip(), len(parts))
    return tuple(parts)


def _part(text: str, first: int) -> list[Part]:
    match = _PART.fullmatch(text)
    if match is None:
        hint = did_you_mean(text, clusters.names()) if text else "; there is nothing between two joints"
        hint = "" if "known:" in hint else hint
        raise InvalidInput(f"cannot read {quoted(text)} as a network; write it {EXAMPLE}{hint}", "--topology")
    name, kind, size, options = match.groups()
    if kind not in KINDS:
        raise InvalidInput(f"no network is of kind {quoted(kind)}{did_you_mean(kind, KINDS)}", "--topology")
    if options is None:
        raise InvalidInput(f"{quoted(text)} gives no bandwidth and latency; write it {EXAMPLE}", "--topology")
    link, extra = options_of(options, text, _EXTRAS.get(kind, ()))
    counts = [whole(word, "devices") for word in size.split("x")]
    num_dimensions = len(counts) if kind in ("torus", "mesh") else 1
    names = [NAMES[i : i + 1] or f"d{i}" for i in range(first, first + num_dimensions)]
    if name:
        names = [name] if num_dimensions == 1 else [f"{name}{i}" for i in range(num_dimensions)]
    return _built(kind, names, counts, link, extra, text)


def _built(
    kind: str, names: list[str], counts: list[int], link: Link, extra: dict[str, float], text: str
) -> list[Part]:
    if kind == "twisted-torus":
        if math.prod(counts) > MAX_MESHED:
            rule = f"a twisted torus has at most {MAX_MESHED:,} devices"
            raise InvalidInput(f"{rule}; got {math.prod(counts):,}", "--topology")
        return [torus_graph(names[0], tuple(counts), link, is_twisted=True)]
    if kind == "dragonfly":
        return [_dragonfly(names[0], counts, link, extra, text)]
    if len(counts) != len(names):
        raise InvalidInput(f"a {kind} has one number of devices; got {quoted(text)}", "--topology")
    if "leaf" in extra:
        return [_fat_tree(names[0], counts[0], link, extra)]
    oversubscription = extra.get("oversubscription", 1.0)
    return [
        Dimension(name=name, kind=KINDS[kind], num_devices=count, link=link, oversubscription=oversubscription)
        for name, count in zip(names, counts, strict=True)
    ]


def _fat_tree(name: str, num_devices: int, link: Link, extra: dict[str, float]) -> UnitGraph:
    leaf = int(extra["leaf"])
    num_leaves, num_spines = -(-num_devices // leaf), int(extra.get("spines", leaf))
    if num_devices > MAX_MESHED:
        rule = f"a fat-tree with leaves of its own has at most {MAX_MESHED:,} devices"
        raise InvalidInput(f"{rule}; got {num_devices:,}", "--topology")
    if num_leaves * num_spines > MAX_SPINE_LINKS:
        got = f"{num_leaves:,} leaves x {num_spines:,} spines"
        raise InvalidInput(f"at most {MAX_SPINE_LINKS:,} links join leaves and spines; got {got}", "--topology")
    return clos(name, num_devices, leaf, num_spines, link, extra.get("oversubscription", 1.0))


def _dragonfly(name: str, counts: list[int], link: Link, extra: dict[str, float], text: str) -> UnitGraph:
    if len(counts) != 3:
        form = "groups x routers x devices of a router, as in dragonfly:9x4x2@50GB/s,500ns"
        raise InvalidInput(f"a dragonfly is {form}; got {quoted(text)}", "--topology")
    if math.prod(counts) > MAX_MESHED:
        raise InvalidInput(f"a dragonfly has at most {MAX_MESHED:,} devices; got {math.prod(counts):,}", "--topology")
    far = Link(
        bandwidth_bytes_per_s=extra.get("global", link.bandwidth_bytes_per_s),
        latency_s=extra.get("global-latency", link.latency_s),
    )
    return dragonfly(name, counts[0], counts[1], counts[2], link, far)


def _from_file(name: str) -> Network:
    entry = opened(Path(name))
    if entry.has(ASTRA_KEY):
        raise entry.refused(f"a network file of ASTRA-sim is for dovetail trace run; here write it {EXAMPLE}")
    if not (entry.has("links") or entry.has("nodes")):
        return network_of(name, load_cluster(name).topology.dimensions)
    graph = graph_of(entry)
    with placed(entry):
        return network_of(name, (graph,))


def with_faults(network: Network, text: str) -> Network:
    """`network` with links slowed: '2-3=0.5' leaves half of the bandwidth, both ways; 0 breaks the link."""
    graph = network.graph
    slowed: set[tuple[int, int]] = set()
    for word in filter(None, (word.strip() for word in text.split(","))):
        match = re.fullmatch(r"([0-9]+)\s*([->])\s*([0-9]+)\s*=\s*([0-9.]+)", word)
        if match is None or match[4].count(".") > 1 or not float(match[4]) <= 1:
            raise InvalidInput(f"a slow link is written 2-3=0.5, or 2>3=0 for one way; got {quoted(word)}", "--slow")
        a, b, share = int(match[1]), int(match[3]), float(match[4])
        ways = {(a, b), (b, a)} if match[2] == "-" else {(a, b)}
        if ways & slowed:
            raise InvalidInput(f"name a link once; got {quoted(text)}", "--slow")
        slowed |= ways
        try:
            graph = graph.with_link_scaled(a, b, share)
            graph = graph.with_link_scaled(b, a, share) if match[2] == "-" else graph
        except DovetailError as error:
            raise InvalidInput(error.message, "--slow") from None
    return replace(network, graph=graph)
