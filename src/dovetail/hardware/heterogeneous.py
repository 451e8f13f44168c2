"""Clusters whose devices are not all equal: parts, each a cluster of equal devices, and what joins them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from dovetail.errors import InvalidInput, NotModelled
from dovetail.hardware.chip import Chip
from dovetail.hardware.cluster import Cluster, OwnRuns
from dovetail.hardware.link import Link
from dovetail.hardware.topology import Dimension, Group, Span

BETWEEN = "between"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeterogeneousCluster:
    """Parts of equal devices, two or more, joined by a network over which only neighbouring stages talk.

    `between` is what one device can send in one direction to a device of another part, all its ports together.
    """

    name: str
    parts: tuple[Cluster, ...]
    between: Link
    sources: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if len(self.parts) < 2:
            message = f"a cluster of parts has at least 2; got {len(self.parts)}"
            raise InvalidInput(f"{message}; write a cluster of equal devices without parts", "parts")
        names = [part.name for part in self.parts]
        if len(set(names)) != len(names):
            way_out = f"give one another, as in {{base: {names[0]}, devices: {self.parts[0].num_devices}, name: more}}"
            raise InvalidInput(f"names of parts must differ; got {', '.join(names)}; {way_out}", "parts")

    @property
    def num_devices(self) -> int:
        return sum(part.num_devices for part in self.parts)

    @property
    def own_runs(self) -> OwnRuns:
        """Runs fit a cluster of equal devices, so there are none of the whole."""
        return OwnRuns()

    @property
    def group_between(self) -> Group:
        """Two devices of two parts, as ranks of a group."""
        dimension = Dimension(name=BETWEEN, kind="switch", num_devices=2, link=self.between)
        return (Span(dimension=dimension, num_ranks=2),)


AnyCluster: TypeAlias = Cluster | HeterogeneousCluster


def pools_of(cluster: AnyCluster) -> tuple[Cluster, ...]:
    """The parts of a cluster; equal devices are one."""
    return cluster.parts if isinstance(cluster, HeterogeneousCluster) else (cluster,)


def chips_of(cluster: AnyCluster) -> tuple[Chip, ...]:
    """The chips of a cluster, each once, in the order of its parts."""
    return tuple({part.chip.name: part.chip for part in pools_of(cluster)}.values())


def chip_names(cluster: AnyCluster) -> str:
    return " and ".join(chip.name for chip in chips_of(cluster))


def devices_label(cluster: AnyCluster) -> str:
    """How many of which: 512 x h100-sxm, or 256 x h100-sxm and 256 x a100-80gb-sxm."""
    return " and ".join(f"{part.num_devices:,} x {part.chip.name}" for part in pools_of(cluster))


def equal_devices(cluster: AnyCluster, what: str) -> Cluster:
    """`cluster`, where its devices are equal; raises `NotModelled` for what is done with no others."""
    if isinstance(cluster, HeterogeneousCluster):
        raise NotModelled(f"{what} is not modelled for clusters of several parts; name one of equal devices", "cluster")
    return cluster
