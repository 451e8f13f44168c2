"""Clusters: a catalogue family at some size, a chip and a topology written out, or either with a pace of its own."""

from __future__ import annotations

import math
from dataclasses import replace

from pydantic import Field

from dovetail.comm.library.on_group import check_library
from dovetail.cost.engines import with_endpoint
from dovetail.files.chip import chip_of
from dovetail.files.cluster_names import sized_name
from dovetail.files.collective_library import with_written_collectives
from dovetail.files.entry import Entry, followed, placed, spoken
from dovetail.files.reliability import reliability_of
from dovetail.files.schema import Number, Shape, Share, Text, Whole, amount, checked
from dovetail.hardware.cluster import Cluster, OwnRuns
from dovetail.hardware.clusters import clusters
from dovetail.hardware.host import Host
from dovetail.hardware.link import Link
from dovetail.hardware.scales import Scales, scaled
from dovetail.hardware.topology import Dimension, Topology
from dovetail.units import quantity, share_frac

MAX_DEVICES = 2**20  # style: a count; ten times the largest cluster known, and small enough to search for divisors
MAX_DIMENSIONS = 16
KEY, OLD_KEY = "pools", "parts"  # of clusters of several pools, and as 0.1 had it


class DimensionShape(Shape):
    """One level of the network, as written."""

    name: Text
    kind: Text
    devices: Whole
    bandwidth: amount("bytes_per_s")  # type: ignore[valid-type]
    latency: amount("s")  # type: ignore[valid-type]
    oversubscription: Number = 1.0
    library: Text = ""
    network: bool = False
    jitter: amount("s") = 0.0  # type: ignore[valid-type]


class HostShape(Shape):
    """The host of every node, as written: memory and its bandwidth are the node's, the link one device's."""

    devices: Whole
    link: amount("bytes_per_s")  # type: ignore[valid-type]
    memory: amount("bytes")  # type: ignore[valid-type]
    memory_bandwidth: amount("bytes_per_s")  # type: ignore[valid-type]
    latency: amount("s") = 0.0  # type: ignore[valid-type]


class FamilyShape(Shape):
    """A catalogue cluster, as written."""

    name: Text
    devices: Whole | None = None
    host: HostShape | None = None
    reliability: object = None
    endpoint: Text = ""
    headroom: Share | None = None
    collectives: object = None
    jitter: object = None


class ClusterShape(Shape):
    """A cluster of one's own, as written."""

    chip: object
    topology: list[DimensionShape] = Field(min_length=1, max_length=MAX_DIMENSIONS)
    name: Text = "my-cluster"
    host: HostShape | None = None
    reliability: object = None
    endpoint: Text = ""
    headroom: Share | None = None
    collectives: object = None
    jitter: object = None


class PaceShape(Shape):
    """How a cluster does beside its base, and the runs that say so."""

    compute: Number = 1.0
    links: Number = 1.0
    runs: Whole = 0
    scales: Whole = 0
    spread: Number = 0.0
    fitted_on: Text = "given by the user"


class CalibratedShape(Shape):
    """A cluster with a pace of its own, as written."""

    base: object
    calibration: PaceShape | None = None
    devices: Whole | None = None
    name: Text = ""
    host: HostShape | None = None
    reliability: object = None
    endpoint: Text = ""
    headroom: Share | None = None
    collectives: object = None
    jitter: object = None


def load_cluster(reference: str) -> Cluster:
    """The cluster that `reference` names: a catalogue name at its default size, or a file with a cluster in it."""
    return cluster_of(spoken(reference))


def pools_key(entry: Entry) -> str:
    """The key that a cluster's pools are written under; empty where its devices are equal."""
    return next((key for key in (KEY, OLD_KEY) if entry.has(key)), "")


def cluster_of(entry: Entry, num_devices: int = 0) -> Cluster:
    """The cluster `entry` names or describes; with `num_devices`, of that size: a catalogue one, or based on one."""
    entry, num_devices = sized_name(entry, num_devices)
    entry = followed(entry, "cluster", clusters)
    if isinstance(entry.value, str):
        with placed(entry):
            family = clusters[entry.value]
            return family.build(num_devices or family.default_devices)
    if key := pools_key(entry):
        raise entry.child(key).refused(f"here a cluster is of equal devices; name one without {key}")
    if entry.has("base"):
        cluster = _calibrated(entry, num_devices)
    elif entry.has("topology") or entry.has("chip"):
        cluster = _written_out(entry)
        if num_devices not in (0, cluster.num_devices):
            message = f"{cluster.name} is written out and has {cluster.num_devices:,} devices by its topology"
            raise entry.child("topology").refused(f"{message}; change that for {num_devices:,}")
    else:
        cluster = _of_family(entry, num_devices)
    cluster = _jittered(with_written_collectives(cluster, entry), entry)
    return with_written_headroom(_failing(_ended(cluster, entry), entry), entry)


def with_written_headroom(cluster: Cluster, entry: Entry) -> Cluster:
    """`cluster` with what plans leave free of its memory as is written, if that is."""
    if not entry.has("headroom"):
        return cluster
    with placed(entry):
        return cluster.with_headroom(share_frac(entry.child("headroom").value))


def _ended(cluster: Cluster, entry: Entry) -> Cluster:
    """`cluster` with devices whose collectives are run as is written, if that is."""
    if not entry.has("endpoint"):
        return cluster
    with placed(entry):
        return replace(cluster, chip=with_endpoint(cluster.chip, entry.child("endpoint").value))


def _jittered(cluster: Cluster, entry: Entry) -> Cluster:
    """`cluster` whose ranks come late to collectives as is written, if that is."""
    if not entry.has("jitter"):
        return cluster
    with placed(entry.child("jitter")):
        jitter_s = quantity(entry.child("jitter").value, "s")
        return replace(cluster, topology=cluster.topology.with_jitter(jitter_s))


def _failing(cluster: Cluster, entry: Entry) -> Cluster:
    """`cluster` with how it fails, if that is written."""
    if not entry.has("reliability"):
        return cluster
    reliability = reliability_of(entry.child("reliability"), cluster)
    with placed(entry):
        return replace(cluster, reliability=reliability)


def _calibrated(entry: Entry, num_devices: int) -> Cluster:
    """A base, and how much faster or slower than that its devices and links are."""
    shape: CalibratedShape = checked(entry, CalibratedShape)
    base = _sized(entry, num_devices or shape.devices or 0, is_written=shape.devices is not None)
    if shape.calibration is None:
        changes = (
            shape.host is not None,
            shape.name,
            *(entry.has(key) for key in ("reliability", "endpoint", "headroom", "collectives", "jitter")),
        )
        if not any(changes):
            others = "host, reliability, endpoint, headroom, collectives, jitter and name"
            message = f"calibration is missing, and so are {others}: nothing changes"
            raise entry.child("calibration").refused(message)
        return _hosted(replace(base, name=shape.name or base.name), shape.host, entry)
    pace, place = shape.calibration, entry.child("calibration")
    with placed(place):
        scales = Scales(compute_scale=pace.compute, link_scale=pace.links)
        own = OwnRuns(num_runs=pace.runs, num_scales=pace.scales, spread_frac=pace.spread, fitted_on=pace.fitted_on)
    changed = scaled(base, scales)
    message = f"{pace.fitted_on}: compute x {pace.compute:.3g}, links x {pace.links:.3g}"
    calibration = changed.chip.calibration
    calibration = replace(calibration, fitted_on=f"{calibration.fitted_on}; then {message}")
    calibrated = replace(
        changed,
        name=shape.name or f"{base.name}-calibrated",
        chip=replace(changed.chip, calibration=calibration),
        sources=(*base.sources, ("calibration", entry.document.source)),
        own_runs=own,
    )
    return _hosted(calibrated, shape.host, entry)


def _sized(entry: Entry, num_devices: int, *, is_written: bool) -> Cluster:
    """The base of `entry`, at the size that is given, if one is."""
    if is_written:
        _check_devices(num_devices, entry.child("devices"))
    base = entry.child("base")
    if not num_devices or not isinstance(base.value, str) or base.value not in clusters:
        return cluster_of(base, num_devices)
    with placed(entry, {"num_devices": "devices"}):
        return clusters[base.value].build(num_devices)


def _of_family(entry: Entry, num_devices: int) -> Cluster:
    hint = "" if entry.has("name") else "; name a catalogue cluster, or give a chip and a topology"
    shape: FamilyShape = checked(entry, FamilyShape, hint=hint)
    with placed(entry.child("name")):
        family = clusters[shape.name]
    devices = num_devices or (family.default_devices if shape.devices is None else shape.devices)
    _check_devices(devices, entry.child("devices"))
    with placed(entry, {"num_devices": "devices"}):
        cluster = family.build(devices)
    return _hosted(cluster, shape.host, entry)


def _written_out(entry: Entry) -> Cluster:
    if entry.has("devices"):
        raise entry.child("devices").refused("devices is what the topology's dimensions multiply to; remove it")
    shape: ClusterShape = checked(entry, ClusterShape)
    chip = chip_of(entry.child("chip"))
    place = entry.child("topology")
    dimensions = tuple(_dimension(item, place.child(index)) for index, item in enumerate(shape.topology))
    _check_devices(math.prod(dimension.num_devices for dimension in dimensions), place)
    with placed(entry, {"dimensions": "topology"}):
        topology = Topology(dimensions=dimensions)
        cluster = Cluster(name=shape.name, chip=chip, topology=topology, sources=_sources(topology, entry))
    return _hosted(cluster, shape.host, entry)


def _hosted(cluster: Cluster, shape: HostShape | None, entry: Entry) -> Cluster:
    """`cluster` with the host that is written, if one is."""
    if shape is None:
        return cluster
    keys = {"num_devices": "devices", "memory_bytes": "memory", "memory_bytes_per_s": "memory_bandwidth"}
    with placed(entry.child("host"), keys):
        host = Host(
            num_devices=shape.devices,
            link=Link(bandwidth_bytes_per_s=shape.link, latency_s=shape.latency),
            memory_bytes=shape.memory,
            memory_bytes_per_s=shape.memory_bandwidth,
        )
    own = tuple((figure, entry.document.source) for figure in ("host.link", "host.memory", "host.memory_bandwidth"))
    given = {figure for figure, _ in own}
    return replace(cluster, host=host, sources=(*(s for s in cluster.sources if s[0] not in given), *own))


def _sources(topology: Topology, entry: Entry) -> tuple[tuple[str, str], ...]:
    figures = [f"{d.name}.{figure}" for d in topology.dimensions for figure in ("bandwidth", "latency")]
    return tuple((figure, entry.document.source) for figure in (*figures, "num_devices"))


def _dimension(shape: DimensionShape, entry: Entry) -> Dimension:
    with placed(entry, {"num_devices": "devices"}):
        check_library(shape.library)
        return Dimension(
            name=shape.name,
            kind=shape.kind,
            num_devices=shape.devices,
            link=Link(bandwidth_bytes_per_s=shape.bandwidth, latency_s=shape.latency),
            oversubscription=shape.oversubscription,
            library=shape.library,
            is_network=shape.network,
            jitter_s=shape.jitter,
        )


def _check_devices(num_devices: int, entry: Entry) -> None:
    if not 1 <= num_devices <= MAX_DEVICES:
        raise entry.refused(f"a cluster has 1 to {MAX_DEVICES:,} devices; got {num_devices:,}")
