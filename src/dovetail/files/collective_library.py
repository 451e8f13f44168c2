"""`collectives` of a cluster file: the library that runs them, and its constants as fitted on the cluster's logs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pydantic import Field

from dovetail.comm.library.on_group import LINK_RATE, check_library, constants_of_links
from dovetail.files.entry import Entry, placed
from dovetail.files.schema import MAX_TEXT_CHARACTERS, Number, Shape, Text, Whole, amount, checked
from dovetail.files.text import one_line
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.topology import FittedConstants
from dovetail.units import GIGA, MICRO

DIGITS = 6
MAX_RATES = 32
# Keys by the constants that they are of.
KEYS = {
    "base_s": "base_latency",
    "hop_s": "hop_latency",
    "channels_s": "channel_latency",
    "chunk_s": "chunk_latency",
    "p2p_s": "p2p_latency",
    "p2p_own_chunk_ratio": "p2p_own_chunk_ratio",
    "ll_frac": "ll_frac",
    "simple_hop_ratio": "simple_hop_ratio",
    "tuner_bytes_per_s": "tuner_bandwidth",
    "step_s": "network_step",
    "fill_s": "network_fill",
    "fill_bytes": "network_fill_size",
    "nic_frac": "nic_frac",
}
WORDS = {
    "base_s": "of any collective",
    "hop_s": "from rank to rank by LL",
    "channels_s": "of running on more than one channel",
    "chunk_s": "of one more chunk in the pipeline of Simple",
    "p2p_s": "sends and receives of an all-to-all take longer to begin",
    "p2p_own_chunk_ratio": "what a rank's own chunk takes of an all-to-all beside one that it sends",
    "ll_frac": "of the links' bandwidth that LL reaches",
    "simple_hop_ratio": "of a hop of Simple over one of LL",
    "tuner_bytes_per_s": "of a ring, by which NCCL's tuner selects",
    "step_s": "per level of a tree and hop of a ring between nodes",
    "fill_s": "to fill the pipeline of node and network, at most",
    "fill_bytes": "the size at which half of that is lost",
    "nic_frac": "of the NICs' bandwidth that is reached",
    LINK_RATE: "of a GPU's links",
}


class RateShape(Shape):
    """What one GPU sends where so many ranks take part, as written."""

    ranks: Whole
    bandwidth: amount("bytes_per_s")  # type: ignore[valid-type]


class CollectivesShape(Shape):
    """The library of a cluster with constants of its own, as written."""

    library: Text
    platform: Text = ""
    bandwidth: list[RateShape] = Field(default=[], max_length=MAX_RATES)
    base_latency: amount("s") | None = None  # type: ignore[valid-type]
    hop_latency: amount("s") | None = None  # type: ignore[valid-type]
    channel_latency: amount("s") | None = None  # type: ignore[valid-type]
    chunk_latency: amount("s") | None = None  # type: ignore[valid-type]
    p2p_latency: amount("s") | None = None  # type: ignore[valid-type]
    p2p_own_chunk_ratio: Number | None = None
    ll_frac: Number | None = None
    simple_hop_ratio: Number | None = None
    tuner_bandwidth: amount("bytes_per_s") | None = None  # type: ignore[valid-type]
    network_step: amount("s") | None = None  # type: ignore[valid-type]
    network_fill: amount("s") | None = None  # type: ignore[valid-type]
    network_fill_size: amount("bytes") | None = None  # type: ignore[valid-type]
    nic_frac: Number | None = None
    fitted_on: Text = "given by the user"


def with_written_collectives(cluster: Cluster, entry: Entry) -> Cluster:
    """`cluster` with the library and constants that are written, if they are."""
    if not entry.has("collectives"):
        return cluster
    place = entry.child("collectives")
    shape: CollectivesShape = checked(place, CollectivesShape)
    dimensions = cluster.topology.dimensions
    if len(dimensions) > 1 and not all(one.library for one in dimensions):
        rule = f"{cluster.name} has dimensions without a library, so which are between nodes is not known"
        raise place.refused(f"{rule}; write its topology out, each dimension with library, and network where it is so")
    with placed(place):
        check_library(shape.library)
        constants = constants_of_links(shape.library, dimensions, _constants(shape))
    named = tuple(replace(one, library=shape.library, library_constants=constants) for one in dimensions)
    source = f"{shape.fitted_on} ({entry.document.source})"
    return replace(
        cluster,
        topology=replace(cluster.topology, dimensions=named),
        platform=shape.platform,
        sources=(*(one for one in cluster.sources if one[0] != "collectives"), ("collectives", source)),
    )


def _constants(shape: CollectivesShape) -> FittedConstants:
    values = ((name, getattr(shape, key)) for name, key in KEYS.items())
    return (
        *((name, 0, float(value)) for name, value in values if value is not None),
        *((LINK_RATE, one.ranks, float(one.bandwidth)) for one in shape.bandwidth),
    )


def collectives_text(library: str, platform: str, constants: FittedConstants, fitted_on: str) -> Iterator[str]:
    """The lines of a cluster file that name a library with these constants."""
    yield "collectives:"
    yield f"  library: {library}"
    if platform:
        yield f"  platform: {_quoted(platform)}"
    yield from (
        f"  {KEYS[name]}: {_value(name, value)}  # {WORDS[name]}" for name, _, value in constants if name in KEYS
    )
    rates = [(count, value) for name, count, value in constants if name == LINK_RATE]
    if rates:
        yield f"  bandwidth:  # {WORDS[LINK_RATE]}, by number of ranks in a node"
        yield from (f"    - {{ranks: {count}, bandwidth: {value / GIGA:.{DIGITS}g} GB/s}}" for count, value in rates)
    yield f"  fitted_on: {_quoted(fitted_on)}"


def _value(name: str, value: float) -> str:
    if name.endswith("bytes_per_s"):
        return f"{value / GIGA:.{DIGITS}g} GB/s"
    if name.endswith("_bytes"):
        return f"{value:.{DIGITS}g} B"
    return f"{value / MICRO:.{DIGITS}g} us" if name.endswith("_s") else f"{value:.{DIGITS}g}"


def _quoted(text: str) -> str:
    return "'" + one_line(text)[:MAX_TEXT_CHARACTERS].replace("'", "''") + "'"


def constant_labels(name: str, num_ranks: int, value: float) -> tuple[str, str]:
    """A constant's key and its value, as tables have them."""
    key = f"bandwidth of {num_ranks} ranks" if name == LINK_RATE else KEYS[name]
    return key, _value(name, value)
