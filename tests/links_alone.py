"""Clusters whose collectives are timed by their links alone, for tests that work closed forms out by hand."""

from __future__ import annotations

from dataclasses import replace

from dovetail.hardware.cluster import Cluster


def links_alone(cluster: Cluster) -> Cluster:
    """`cluster` as if no library's collectives had been measured on it."""
    dimensions = tuple(replace(dimension, library="") for dimension in cluster.topology.dimensions)
    return replace(cluster, topology=replace(cluster.topology, dimensions=dimensions))
