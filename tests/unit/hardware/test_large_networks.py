"""Networks beyond a node: slices over a data-centre network, a dragonfly, rails under a spine, twisted tori."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dovetail as dv
from dovetail.comm.events.network_graph import network_graph
from dovetail.comm.events.unit_graphs import UnitGraph, dragonfly, next_links, torus_graph
from dovetail.comm.library.on_group import LIBRARIES, SUMMARIES, is_timed_by_library, library_s
from dovetail.comm.one_collective import CollectiveJob, Network, network_answer
from dovetail.errors import InvalidInput
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.hardware.link import Link
from dovetail.hardware.topology import XLA_ICI, Dimension, Group, Span, Topology
from dovetail.step.communication import timed
from dovetail.units import GIBI, GIGA, MICRO

LINK = Link(bandwidth_bytes_per_s=90 * GIGA, latency_s=MICRO)


def whole(cluster: Cluster) -> Group:
    return tuple(Span(dimension=one, num_ranks=one.num_devices) for one in cluster.topology.dimensions)


def mean_hops(graph: UnitGraph) -> float:
    """Links that messages pass on the mean, over all pairs."""
    source, target = (np.array([getattr(wire, end) for wire in graph.wires]) for end in ("source", "target"))
    alive, total = np.ones(len(source), dtype=np.bool_), 0
    for goal in range(graph.num_devices):
        onward = next_links(graph.num_devices, source, target, alive, goal)
        for start in range(graph.num_devices):
            place = start
            while place != goal:
                place, total = int(target[onward[place]]), total + 1
    return total / (graph.num_devices * (graph.num_devices - 1))


# --- multislice ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "rate"), [("tpu-v5e-multislice", 3.125), ("tpu-v6e-multislice", 12.5)])
def test_slices_are_whole_pods_under_the_data_centre_network(name, rate):
    cluster = clusters[name].build(1024)
    assert [one.num_devices for one in cluster.topology.dimensions] == [16, 16, 4]
    dcn = cluster.topology.dimensions[-1]
    assert dcn.link.bandwidth_bytes_per_s == rate * GIGA
    assert dcn.is_network
    one = clusters[name].build(64)
    assert one.topology == clusters[name.replace("multislice", "pod")].build(64).topology
    with pytest.raises(InvalidInput, match="whole slices of 256 chips; got 300 devices; try 256 or 512"):
        clusters[name].build(300)


def test_gradients_over_slices_wait_for_the_data_centre_network():
    gathered = {}
    for count in (256, 512):
        group = whole(clusters["tpu-v5e-multislice"].build(count))
        gathered[count] = float(timed("all-reduce", np.array([GIBI]), group, 0.9)[0][0])
    # each chip sends its 256th share of the sum to the other slice and back
    assert gathered[512] - gathered[256] > GIBI / 256 / (3.125 * GIGA)


# --- XLA on ICI ---------------------------------------------------------------------------------------------------


def test_tpu_pods_name_xla_whose_collectives_take_links_alone():
    assert XLA_ICI not in LIBRARIES
    assert "whole TPU steps" in SUMMARIES[XLA_ICI]
    for name in ("tpu-v3-pod", "tpu-v4-pod", "tpu-v5e-pod", "tpu-v5p-pod", "tpu-v6e-pod", "tpu-v7-pod"):
        cluster = clusters[name].build(clusters[name].default_devices)
        assert {one.library for one in cluster.topology.dimensions} == {XLA_ICI}
        assert not is_timed_by_library("all-reduce", whole(cluster))
    named = whole(clusters["tpu-v4-pod"].build(64))
    nameless = tuple(replace(span, dimension=replace(span.dimension, library="")) for span in named)
    for collective in ("all-reduce", "all-gather", "all-to-all", "point-to-point"):
        found, same = (timed(collective, np.array([GIBI]), group, 0.9, MICRO)[0] for group in (named, nameless))
        assert found == same


def test_a_library_without_constants_cannot_be_given_any(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("base: tpu-v4-pod\ndevices: 64\ncollectives: {library: xla-ici, base_latency: 1 us}\n", "utf-8")
    with pytest.raises(InvalidInput, match="xla-ici has no constants of its own"):
        dv.network("all-reduce", size="1MiB", topology=str(file))


# --- dragonfly ----------------------------------------------------------------------------------------------------


def test_frontier_is_nodes_in_groups_all_joined_to_all():
    cluster = clusters["frontier"].build(4096)
    assert [(one.kind, one.num_devices) for one in cluster.topology.dimensions] == [
        ("fully-connected", 4), ("switch", 128), ("fully-connected", 8),
    ]  # fmt: skip
    inside, across = cluster.topology.dimensions[1:]
    assert across.link.bandwidth_bytes_per_s == pytest.approx(0.57 * inside.link.bandwidth_bytes_per_s)
    step = dv.simulate(model="llama3-8b", cluster="frontier", devices=512, plan="zero3", global_batch=512, seq=2048)
    assert step.record["step_s"] > 0


def test_a_dragonfly_as_a_graph_has_a_global_link_between_any_two_groups():
    graph = dragonfly("x", 4, 3, 2, LINK, LINK)
    routers = range(graph.num_devices, graph.num_devices + graph.num_switches)
    pairs = {
        tuple(sorted(((wire.source - 24) // 3, (wire.target - 24) // 3)))
        for wire in graph.wires
        if wire.source in routers and wire.target in routers
    }
    assert {pair for pair in pairs if pair[0] != pair[1]} == {(a, b) for b in range(4) for a in range(b)}


# --- rails --------------------------------------------------------------------------------------------------------


def test_rails_under_a_narrow_spine_slow_what_leaves_the_rail_alone():
    """Devices of one place in each node share a leaf: rings pass the spine once for all nodes of a leaf."""
    node, leaf = clusters["dgx-h100"].build(256).topology.dimensions
    rails = replace(leaf, name="rail", num_devices=32)
    spine = replace(leaf, name="spine", num_devices=4, oversubscription=4.0)
    narrow, wide = (
        tuple(Span(dimension=one, num_ranks=one.num_devices) for one in Topology(dimensions=dimensions).dimensions)
        for dimensions in ((node, rails, spine), (node, rails, replace(spine, oversubscription=1.0)))
    )
    assert library_s("all-reduce", GIBI, narrow) == library_s("all-reduce", GIBI, wide)
    assert library_s("all-to-all", 16 * GIBI, narrow) > 2 * library_s("all-to-all", 16 * GIBI, wide)


def test_two_devices_that_share_a_nic_have_half_of_it_each():
    node, port = clusters["dgx-h100"].build(256).topology.dimensions
    half = replace(port.link, bandwidth_bytes_per_s=port.link.bandwidth_bytes_per_s / 2)
    groups = [
        (Span(dimension=node, num_ranks=8), Span(dimension=replace(port, link=link), num_ranks=32))
        for link in (port.link, half)
    ]
    whole_s, shared_s = (float(library_s("all-gather", 64 * GIBI, group)) for group in groups)
    assert shared_s == pytest.approx(2 * whole_s, rel=0.02)


# --- twisted tori -------------------------------------------------------------------------------------------------


def test_a_torus_as_a_graph_is_the_torus_of_its_sides():
    graph = torus_graph("x", (3, 4, 5), LINK)
    assert graph.num_devices == 60
    assert len(graph.wires) == 2 * 3 * 60
    assert mean_hops(graph) * 59 / 60 == pytest.approx(2 / 3 + 1 + 6 / 5)  # of rings of 3, 4 and 5


@pytest.mark.parametrize("sides", [(3, 3, 6), (4, 4, 8), (3, 6, 6)])
def test_a_twist_shortens_the_mean_way(sides):
    plain, twisted = (torus_graph("x", sides, LINK, is_twisted=flag) for flag in (False, True))
    assert len({(wire.source, wire.target) for wire in twisted.wires}) == len(twisted.wires)
    assert mean_hops(twisted) < mean_hops(plain)


def test_an_all_to_all_is_faster_on_a_twisted_torus():
    """By 1.5 on 4 x 4 x 8; Jouppi et al. (ISCA 2023) measured 1.6 on TPU v4."""

    def taken_s(*, is_twisted: bool) -> float:
        part = torus_graph("x", (4, 4, 8), LINK, is_twisted=is_twisted)
        network = Network(name="x", parts=(part,), graph=network_graph((part,)))
        return network_answer(CollectiveJob(collective="all-to-all", payload_bytes=64e6, network=network)).time_s

    assert 1.4 < taken_s(is_twisted=False) / taken_s(is_twisted=True) < 1.7


@pytest.mark.parametrize("shape", ["4x4x4", "4x4", "4x8x16", "2x2x4"])
def test_what_cannot_be_twisted_is_refused(shape):
    with pytest.raises(InvalidInput, match=r"a twisted torus is k x k x 2k|3 devices or more"):
        dv.network("all-to-all", size="1MB", topology=f"twisted-torus:{shape}@90GB/s,1us")


def test_a_dimension_of_links_has_no_measured_library():
    named = Dimension(name="x", kind="ring", num_devices=4, link=LINK, library=XLA_ICI)
    assert not named.has_measured_library
    assert not replace(named, library="").has_measured_library
    assert replace(named, library="nccl-h100").has_measured_library
