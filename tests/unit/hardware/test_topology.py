from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.errors import InvalidInput
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.link import Link
from dovetail.hardware.topology import Dimension, Topology
from tests.unit.hardware.test_chip import CHIP

NODE = Dimension(name="node", kind="switch", num_devices=8, link=Link(bandwidth_bytes_per_s=4.0, latency_s=1.0))
NETWORK = replace(NODE, name="network", kind="fat-tree", num_devices=3, oversubscription=2.0)


def test_devices_are_the_product_of_the_dimensions() -> None:
    topology = Topology(dimensions=(NODE, NETWORK))
    assert topology.num_devices == 24
    assert Cluster(name="toy", chip=CHIP, topology=topology, sources=()).num_devices == 24


def test_a_cluster_holds_in_each_device_what_its_chip_holds() -> None:
    cluster = Cluster(name="toy", chip=CHIP, topology=Topology(dimensions=(NODE,)), sources=())
    assert cluster.usable_bytes == CHIP.usable_bytes


def test_scaling_one_link_leaves_the_others() -> None:
    scaled = Topology(dimensions=(NODE, NETWORK)).with_link_scaled("network", 3.0)
    assert scaled.dimensions[0] == NODE
    assert scaled.dimensions[1].link.bandwidth_bytes_per_s == 12.0
    assert scaled.dimensions[1].link.latency_s == NETWORK.link.latency_s


def test_an_unknown_kind_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(InvalidInput, match="no network dimension is of kind 'swich'; did you mean switch"):
        replace(NODE, kind="swich")


def test_a_dimension_joins_at_least_one_device() -> None:
    with pytest.raises(InvalidInput, match="a dimension joins at least 1 device; got 0"):
        replace(NODE, num_devices=0)


@pytest.mark.parametrize("oversubscription", [0.5, float("nan")])
def test_a_tree_has_at_most_its_full_bandwidth(oversubscription: float) -> None:
    with pytest.raises(InvalidInput, match=f"oversubscription must be at least 1; got {oversubscription:g}"):
        replace(NETWORK, oversubscription=oversubscription)


def test_a_topology_has_dimensions_with_names_of_their_own() -> None:
    with pytest.raises(InvalidInput, match="a topology has at least one dimension"):
        Topology(dimensions=())
    with pytest.raises(InvalidInput, match="dimension names must differ; got node, node"):
        Topology(dimensions=(NODE, NODE))
