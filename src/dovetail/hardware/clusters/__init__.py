"""Real and published clusters, one file each; each takes the number of devices it is built with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dovetail.hardware.cluster import Cluster
from dovetail.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterEntry:
    """A cluster family: `build(num_devices)` gives one, `default_devices` is the size it is known for."""

    build: Callable[[int], Cluster]
    default_devices: int
    summary: str


clusters: Registry[ClusterEntry] = Registry("cluster", __name__)
