"""Real and published clusters, one file each; each takes the number of devices it is built with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dovetail.hardware.cluster import Cluster
from dovetail.registry import Registry, holding, made


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterEntry:
    """A cluster family: `build(num_devices)` gives one, `default_devices` is the size it is known for."""

    build: Callable[[int], Cluster]
    default_devices: int
    summary: str


def _check(name: str, entry: ClusterEntry) -> None:
    holding("cluster", ClusterEntry)(name, entry)
    made("cluster", Cluster, name, entry.build, entry.default_devices)


clusters: Registry[ClusterEntry] = Registry("cluster", __name__, check=_check)
