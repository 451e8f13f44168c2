"""Ways to join so many devices of a hypothetical chip, by name."""

from __future__ import annotations

from dovetail.errors import InvalidInput, did_you_mean
from dovetail.hardware.chip import Chip
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.hardware.clusters.template_torus import template_torus
from dovetail.hardware.link import Link
from dovetail.hardware.topology import Dimension, Topology
from dovetail.search.codesign.plan_sets import Networks


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


def on_pod(family: str) -> Networks:
    """Devices in the pods that a chip of the catalogue stands in, with links as fast as the chip's own."""
    entry = clusters[family]

    def joined(chip: Chip, num_devices: int) -> Cluster:
        pod = entry.build(num_devices)
        ratio = chip.interconnect_bytes_per_s / pod.chip.interconnect_bytes_per_s
        topology = pod.topology
        if ratio != 1.0:
            for dimension in pod.topology.dimensions:
                topology = topology.with_link_scaled(dimension.name, ratio)
        name = f"{num_devices} x {chip.name} in a {family}"
        return Cluster(name=name, chip=chip, topology=topology, sources=pod.sources)

    return joined


NETWORKS: dict[str, Networks] = {"torus": template_torus, "flat": flat_switch}
POD = "pod"  # the pods that the base stands in, or a torus where nobody built any


def own_network(name: str, base: Chip) -> str:
    """The network that `name` stands for where systems are built on `base`."""
    family = f"{base.name}-{POD}"
    return name if name != POD else family if family in clusters else "torus"


def network_named(name: str) -> Networks:
    if name in NETWORKS:
        return NETWORKS[name]
    if name.endswith(f"-{POD}") and name in clusters:
        return on_pod(name)
    raise InvalidInput(f"no network is named {name!r}{did_you_mean(name, (*NETWORKS, POD))}", "network")
