"""Ways to join so many devices of a hypothetical chip, by name."""

from __future__ import annotations

from dovetail.errors import InvalidInput, did_you_mean
from dovetail.hardware.chip import Chip
from dovetail.hardware.cluster import Cluster
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


NETWORKS: dict[str, Networks] = {"torus": template_torus, "flat": flat_switch}


def network_named(name: str) -> Networks:
    if name not in NETWORKS:
        raise InvalidInput(f"no network is named {name!r}{did_you_mean(name, NETWORKS)}", "network")
    return NETWORKS[name]
