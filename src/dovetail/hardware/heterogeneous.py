"""Clusters whose devices are not all equal: pools, each a cluster of equal devices, and what joins them."""

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
    """Pools of equal devices, two or more, joined by a network over which only neighbouring stages talk.

    `between` is what one device can send in one direction to a device of another pool, all its ports together.
    """

    name: str
    pools: tuple[Cluster, ...]
    between: Link
    sources: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if len(self.pools) < 2:
            message = f"a cluster of pools has at least 2; got {len(self.pools)}"
            raise InvalidInput(f"{message}; write a cluster of equal devices without pools", "pools")
        names = [pool.name for pool in self.pools]
        if len(set(names)) != len(names):
            way_out = f"give one another, as in {{base: {names[0]}, devices: {self.pools[0].num_devices}, name: more}}"
            raise InvalidInput(f"names of pools must differ; got {', '.join(names)}; {way_out}", "pools")

    @property
    def num_devices(self) -> int:
        return sum(pool.num_devices for pool in self.pools)

    @property
    def own_runs(self) -> OwnRuns:
        """Runs fit a cluster of equal devices, so there are none of the whole."""
        return OwnRuns()

    @property
    def group_between(self) -> Group:
        """Two devices of two pools, as ranks of a group.

        Where all pools have one collective library, with the same constants, it also sends between them.
        """
        dimensions = [one for pool in self.pools for one in pool.topology.dimensions]
        libraries = {(one.library, one.library_constants) for one in dimensions}
        library, constants = libraries.pop() if len(libraries) == 1 else ("", ())
        dimension = Dimension(
            name=BETWEEN,
            kind="switch",
            num_devices=2,
            link=self.between,
            library=library,
            is_network=bool(library),
            library_constants=constants,
        )
        return (Span(dimension=dimension, num_ranks=2),)


AnyCluster: TypeAlias = Cluster | HeterogeneousCluster


def pools_of(cluster: AnyCluster) -> tuple[Cluster, ...]:
    """The pools of a cluster; equal devices are one."""
    return cluster.pools if isinstance(cluster, HeterogeneousCluster) else (cluster,)


def chips_of(cluster: AnyCluster) -> tuple[Chip, ...]:
    """The chips of a cluster, each once, in the order of its pools."""
    return tuple({pool.chip.name: pool.chip for pool in pools_of(cluster)}.values())


def chip_names(cluster: AnyCluster) -> str:
    return " and ".join(chip.name for chip in chips_of(cluster))


def devices_label(cluster: AnyCluster) -> str:
    """How many of which: 512 x h100-sxm, or 256 x h100-sxm and 256 x a100-80gb-sxm."""
    return " and ".join(f"{pool.num_devices:,} x {pool.chip.name}" for pool in pools_of(cluster))


def equal_devices(cluster: AnyCluster, what: str) -> Cluster:
    """`cluster`, where its devices are equal; raises `NotModelled` for what is done with no others."""
    if isinstance(cluster, HeterogeneousCluster):
        raise NotModelled(f"{what} is not modelled for clusters of several pools; name one of equal devices", "cluster")
    return cluster
