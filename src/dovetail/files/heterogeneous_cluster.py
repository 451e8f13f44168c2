"""Clusters of several pools, as written: pools, each a cluster of equal devices, and the link between them."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from dovetail.errors import NotModelled
from dovetail.files.cluster import KEY, MAX_DEVICES, OLD_KEY, cluster_of, pools_key, with_written_headroom
from dovetail.files.cluster_names import sized_name
from dovetail.files.entry import Entry, followed, placed, spoken
from dovetail.files.schema import Shape, Share, Text, amount, checked
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.hardware.heterogeneous import BETWEEN, AnyCluster, HeterogeneousCluster
from dovetail.hardware.link import Link

MAX_POOLS = 16
_OF_POOLS = {
    "reliability": "leave it out",
    "host": "give each pool its own",
    "endpoint": "give each pool its own",
}  # keys of clusters of equal devices


class BetweenShape(Shape):
    """What one device can send to one of another pool, as written."""

    bandwidth: amount("bytes_per_s")  # type: ignore[valid-type]
    latency: amount("s")  # type: ignore[valid-type]


class HeterogeneousShape(Shape):
    """A cluster of several pools, as written."""

    old_keys: ClassVar = {OLD_KEY: KEY}
    pools: list[object] = Field(max_length=MAX_POOLS)
    between: BetweenShape
    name: Text = ""
    headroom: Share | None = None


def load_any_cluster(reference: str, num_devices: int = 0) -> AnyCluster:
    """As `load_cluster`, of equal devices or of several pools; with `num_devices`, of that size."""
    return any_cluster_of(spoken(reference), num_devices)


def any_cluster_of(entry: Entry, num_devices: int = 0) -> AnyCluster:
    """The cluster `entry` names or describes, of equal devices or of several pools; `num_devices` is for the former."""
    entry, num_devices = sized_name(entry, num_devices)
    entry = followed(entry, "cluster", clusters)
    key = pools_key(entry)
    if isinstance(entry.value, str) or not key:
        return cluster_of(entry, num_devices)
    for other, way_out in _OF_POOLS.items():
        if entry.has(other):
            message = f"{other} is not modelled for clusters of several pools"
            raise NotModelled(f"{message}; {way_out}", entry.child(other).where)
    shape: HeterogeneousShape = checked(entry, HeterogeneousShape)
    place = entry.child(key)
    pools = tuple(_with_headroom(place.child(index), entry) for index in range(len(shape.pools)))
    if sum(pool.num_devices for pool in pools) > MAX_DEVICES:
        raise place.refused(f"a cluster has up to {MAX_DEVICES:,} devices; make pools smaller")
    with placed(entry.child(BETWEEN), {"bandwidth_bytes_per_s": "bandwidth", "latency_s": "latency"}):
        between = Link(bandwidth_bytes_per_s=shape.between.bandwidth, latency_s=shape.between.latency)
    sources = tuple((f"{BETWEEN}.{figure}", entry.document.source) for figure in ("bandwidth", "latency"))
    with placed(entry):
        name = shape.name or " + ".join(pool.name for pool in pools)
        return HeterogeneousCluster(name=name, pools=pools, between=between, sources=sources)


def _with_headroom(pool: Entry, whole: Entry) -> Cluster:
    """A pool with the headroom that is written of it, or else of the whole."""
    cluster = cluster_of(pool)
    has_own = isinstance(pool.value, dict) and pool.has("headroom")
    return cluster if has_own else with_written_headroom(cluster, whole)
