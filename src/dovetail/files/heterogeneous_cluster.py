"""Clusters of several parts, as written: parts, each a cluster of equal devices, and the link between them."""

from __future__ import annotations

from pydantic import Field

from dovetail.errors import NotModelled
from dovetail.files.cluster import MAX_DEVICES, cluster_of, with_written_headroom
from dovetail.files.cluster_names import sized_name
from dovetail.files.entry import Entry, followed, placed, spoken
from dovetail.files.schema import Shape, Share, Text, amount, checked
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.hardware.heterogeneous import BETWEEN, AnyCluster, HeterogeneousCluster
from dovetail.hardware.link import Link

MAX_PARTS = 16
_OF_PARTS = {
    "reliability": "leave it out",
    "host": "give each part its own",
    "endpoint": "give each part its own",
}  # keys of clusters of equal devices


class BetweenShape(Shape):
    """What one device can send to one of another part, as written."""

    bandwidth: amount("bytes_per_s")  # type: ignore[valid-type]
    latency: amount("s")  # type: ignore[valid-type]


class HeterogeneousShape(Shape):
    """A cluster of several parts, as written."""

    parts: list[object] = Field(max_length=MAX_PARTS)
    between: BetweenShape
    name: Text = ""
    headroom: Share | None = None


def load_any_cluster(reference: str, num_devices: int = 0) -> AnyCluster:
    """As `load_cluster`, of equal devices or of several parts; with `num_devices`, of that size."""
    return any_cluster_of(spoken(reference), num_devices)


def any_cluster_of(entry: Entry, num_devices: int = 0) -> AnyCluster:
    """The cluster `entry` names or describes, of equal devices or of several parts; `num_devices` is for the former."""
    entry, num_devices = sized_name(entry, num_devices)
    entry = followed(entry, "cluster", clusters)
    if isinstance(entry.value, str) or not entry.has("parts"):
        return cluster_of(entry, num_devices)
    for key, way_out in _OF_PARTS.items():
        if entry.has(key):
            message = f"{key} is not modelled for clusters of several parts"
            raise NotModelled(f"{message}; {way_out}", entry.child(key).where)
    shape: HeterogeneousShape = checked(entry, HeterogeneousShape)
    place = entry.child("parts")
    parts = tuple(_with_headroom(place.child(index), entry) for index in range(len(shape.parts)))
    if sum(part.num_devices for part in parts) > MAX_DEVICES:
        raise place.refused(f"a cluster has up to {MAX_DEVICES:,} devices; make parts smaller")
    with placed(entry.child(BETWEEN), {"bandwidth_bytes_per_s": "bandwidth", "latency_s": "latency"}):
        between = Link(bandwidth_bytes_per_s=shape.between.bandwidth, latency_s=shape.between.latency)
    sources = tuple((f"{BETWEEN}.{figure}", entry.document.source) for figure in ("bandwidth", "latency"))
    with placed(entry):
        name = shape.name or " + ".join(part.name for part in parts)
        return HeterogeneousCluster(name=name, parts=parts, between=between, sources=sources)


def _with_headroom(part: Entry, whole: Entry) -> Cluster:
    """A part with the headroom that is written of it, or else of the whole."""
    cluster = cluster_of(part)
    has_own = isinstance(part.value, dict) and part.has("headroom")
    return cluster if has_own else with_written_headroom(cluster, whole)
