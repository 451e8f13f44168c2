"""Ways to join so many devices of a hypothetical chip, by name: their topology, and what parts they take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from dovetail.cost.network_parts import (
    CO_PACKAGED_OPTICS,
    COPPER_THEN_OPTICS,
    NICS,
    OPTICAL_CIRCUITS,
    OPTICS,
    NetworkParts,
    switched_latency_s,
)
from dovetail.errors import InvalidInput, did_you_mean
from dovetail.hardware.chip import Chip
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.hardware.clusters._torus import ICI_LATENCY_S, ICI_LATENCY_SOURCE
from dovetail.hardware.clusters.template_torus import template_torus
from dovetail.hardware.endpoints import endpoint_coded
from dovetail.hardware.link import Link
from dovetail.hardware.topology import Dimension, Topology
from dovetail.registry import Registry, holding, named
from dovetail.workload.graph import BoolArray, FloatArray

Networks = Callable[[Chip, int], Cluster]  # so many devices of a chip, joined
AS_GIVEN = 0  # the code of a network that a program gives with its question
AS_GIVEN_WORD = "given"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkKind:
    """A network to join devices by; `code` is what it is in columns of numbers, from 1 on and for good."""

    name: str
    code: int
    summary: str
    build: Networks
    has_switches: bool  # that could add for collectives
    parts: NetworkParts = field(default_factory=NetworkParts)


def flat_switch(chip: Chip, num_devices: int) -> Cluster:
    """Every two devices joined by one switch, without latency, as PHAZE has it."""
    link = Link(bandwidth_bytes_per_s=chip.interconnect_bytes_per_s, latency_s=0.0)
    flat = Dimension(name="flat", kind="switch", num_devices=num_devices, link=link)
    return Cluster(
        name=f"{num_devices} x {chip.name} on one switch",
        chip=chip,
        topology=Topology(dimensions=(flat,)),
        sources=(("topology", "one switch between all devices, as PHAZE assumes"), ("latency", "PHAZE: none")),
    )


def switched(chip: Chip, num_devices: int) -> Cluster:
    """A fat tree of full bisection between all devices, as many tiers as they need."""
    latency_s = ICI_LATENCY_S + switched_latency_s(num_devices)
    link = Link(bandwidth_bytes_per_s=chip.interconnect_bytes_per_s, latency_s=latency_s)
    tree = Dimension(name="switch", kind="fat-tree", num_devices=num_devices, link=link)
    return Cluster(
        name=f"{num_devices} x {chip.name} on switches",
        chip=chip,
        topology=Topology(dimensions=(tree,)),
        sources=(
            ("topology", "a fat tree of full bisection, switches of 64 ports"),
            ("latency", f"{ICI_LATENCY_SOURCE}; and 150 ns a switch (Quantum-2)"),
        ),
    )


def _check(name: str, kind: NetworkKind) -> None:
    holding("network", NetworkKind)(name, kind)
    named("network", name, kind.name)
    taken = {known.code: known.name for _, known in networks.items()}
    if kind.code in taken or kind.code < 1:
        message = f"the code of a network is its own, and at least 1; {name!r} has {kind.code}"
        raise InvalidInput(f"{message}; free are those from {max(taken) + 1} on", "code")


networks: Registry[NetworkKind] = Registry("network", check=_check)
for _kind in (
    NetworkKind(
        name="torus",
        code=1,
        summary="a two-dimensional torus over passive copper, which takes next to no power and is not priced",
        build=template_torus,
        has_switches=False,
    ),
    NetworkKind(
        name="flat",
        code=2,
        summary="one switch without latency, power or price, as PHAZE assumes",
        build=flat_switch,
        has_switches=True,
    ),
    NetworkKind(
        name="torus-ocs",
        code=3,
        summary="a torus with optical circuit switches, as a TPU v4 pod has",
        build=template_torus,
        has_switches=False,
        parts=OPTICAL_CIRCUITS,
    ),
    NetworkKind(
        name="switch",
        code=4,
        summary="a fat tree of switches: passive copper to the first tier, pluggable optics above",
        build=switched,
        has_switches=True,
        parts=NetworkParts(needed=COPPER_THEN_OPTICS),
    ),
    NetworkKind(
        name="switch-optics",
        code=5,
        summary="a fat tree of switches over pluggable optics",
        build=switched,
        has_switches=True,
        parts=NetworkParts(needed=OPTICS),
    ),
    NetworkKind(
        name="switch-cpo",
        code=6,
        summary="a fat tree of switches over co-packaged optics, which has no published price",
        build=switched,
        has_switches=True,
        parts=NetworkParts(needed=CO_PACKAGED_OPTICS),
    ),
    NetworkKind(
        name="nic-switch",
        code=7,
        summary="a NIC for every 400 Gb/s, and a fat tree of switches over pluggable optics; NICs have no known price",
        build=switched,
        has_switches=True,
        parts=NetworkParts(needed=NICS),
    ),
):
    networks.register(_kind.name)(_kind)


def on_pod(family: str) -> Networks:
    """Devices in the pods that a chip of the catalogue stands in, with links as fast as the chip's own."""

    def joined(chip: Chip, num_devices: int) -> Cluster:
        pod = clusters[family].build(num_devices)
        ratio = chip.interconnect_bytes_per_s / pod.chip.interconnect_bytes_per_s
        topology = pod.topology
        if ratio != 1.0:
            for dimension in pod.topology.dimensions:
                topology = topology.with_link_scaled(dimension.name, ratio)
        name = f"{num_devices} x {chip.name} in a {family}"
        return Cluster(name=name, chip=chip, topology=topology, sources=pod.sources)

    return joined


# Pods of the catalogue; those whose sides are closed by optical circuit switches have them.
for _family, _code, _parts in (
    ("tpu-v3-pod", 11, NetworkParts()),
    ("tpu-v4-pod", 12, OPTICAL_CIRCUITS),
    ("tpu-v5e-pod", 13, NetworkParts()),
    ("tpu-v5p-pod", 14, OPTICAL_CIRCUITS),
    ("tpu-v6e-pod", 15, NetworkParts()),
    ("tpu-v7-pod", 16, OPTICAL_CIRCUITS),
):
    _summary = f"as {_family} of the catalogue, links as fast as the chip's"
    networks.register(_family)(
        NetworkKind(name=_family, code=_code, summary=_summary, build=on_pod(_family), has_switches=False, parts=_parts)
    )
POD = "pod"  # the pods that the base stands in, or a torus where there are none


def own_network(name: str, base: Chip) -> str:
    """The network that `name` stands for where systems are built on `base`."""
    family = f"{base.name}-{POD}"
    return name if name != POD else family if family in networks else "torus"


def network_kind(name: str) -> NetworkKind:
    if name not in networks:
        known = (*(kind.name for kind in by_code()), POD)
        hint = did_you_mean(name[:100], known) or f"; there are {', '.join(known)}"
        raise InvalidInput(f"no network is named {name[:60]!r}{hint}", "network")
    return networks[name]


def network_named(name: str) -> Networks:
    return network_kind(name).build


def by_code() -> list[NetworkKind]:
    return sorted((kind for _, kind in networks.items()), key=lambda kind: kind.code)


def network_word(code: float) -> str:
    """The name of a network in a column of numbers."""
    return AS_GIVEN_WORD if code == AS_GIVEN else network_coded(code).name


def network_code(word: str) -> int:
    """The other way round than `network_word`."""
    return AS_GIVEN if word == AS_GIVEN_WORD else network_kind(word).code


def network_coded(code: float) -> NetworkKind:
    [found] = [kind for _, kind in networks.items() if kind.code == code]
    return found


def parts_of(code: float) -> NetworkParts:
    return NetworkParts() if code == AS_GIVEN else network_coded(code).parts


def can_be_joined(endpoint: FloatArray, network: FloatArray, *, has_own_switches: bool) -> BoolArray:
    """Which systems have switches where their endpoint needs some to add; of a network given, as given."""
    with_switches = [kind.code for _, kind in networks.items() if kind.has_switches]
    with_switches += [AS_GIVEN] if has_own_switches else []
    needs = np.array([code for code in np.unique(endpoint) if endpoint_coded(code).is_in_switch])
    return np.asarray(~np.isin(endpoint, needs) | np.isin(network, with_switches))
