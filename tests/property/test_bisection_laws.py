"""No all-to-all is faster than the middle of its network, and slower links there never lower the bound."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.comm.events.bisection import bisection_bound_s
from dovetail.comm.events.network_graph import LinkGraph
from dovetail.comm.events.unit_graphs import clos, dragonfly
from dovetail.hardware.link import Link
from tests.unit.comm.events.networks import PAYLOAD_BYTES, dimension, dimensions, end_s, network_graph, one

SOON = settings(max_examples=20, deadline=None)
ALGORITHMS = ("", "ring", "direct", "halving-doubling")
RATES = st.sampled_from((1e10, 5e10, 4e11))


def bound_s(graph: LinkGraph) -> float:
    return bisection_bound_s(PAYLOAD_BYTES, np.arange(graph.num_devices)[None], graph)


@SOON
@given(dimensions(), st.sampled_from(ALGORITHMS), st.integers(1, 4), st.integers(1, 4))
def test_no_all_to_all_beats_the_middle_of_its_network(parts, algorithm, num_chunks, num_active):
    graph = network_graph(parts)
    task = one("all-to-all", algorithm=algorithm, num_chunks=num_chunks)
    assert end_s(graph, task, num_active_chunks=num_active) >= bound_s(graph) * (1 - 1e-9)


@SOON
@given(RATES, RATES, st.integers(1, 4), st.sampled_from((1.0, 2.0, 4.0)), st.integers(2, 4), st.integers(1, 2))
def test_no_all_to_all_beats_the_middle_of_a_tree_or_a_dragonfly(
    rate, far_rate, num_spines, oversubscription, num_groups, num_each
):
    near, far = (Link(bandwidth_bytes_per_s=one_rate, latency_s=1e-7) for one_rate in (rate, far_rate))
    for part in (
        clos("x", 8, 4, num_spines, near, oversubscription),
        dragonfly("x", num_groups, 2, num_each, near, far),
    ):
        graph = network_graph([part])
        assert end_s(graph, one("all-to-all")) >= bound_s(graph) * (1 - 1e-9)


@SOON
@given(dimensions(max_dimensions=2), st.data())
def test_a_slower_link_never_lowers_the_bound(parts, data):
    graph = network_graph(parts)
    index = data.draw(st.sampled_from(np.flatnonzero(graph.is_alive).tolist()))
    slower = graph.with_link_scaled(int(graph.source[index]), int(graph.target[index]), 0.25)
    assert bound_s(slower) >= bound_s(graph) * (1 - 1e-9)


@pytest.mark.parametrize("size", [4, 6, 8, 12])
def test_the_middle_of_rings_meshes_and_trees_is_what_their_links_say(size):
    crossing = PAYLOAD_BYTES * size / 4  # half the devices, half of what each sends
    for kind, num_links in (("ring", 1), ("bidirectional-ring", 1), ("mesh", 0.5)):
        graph = network_graph((dimension("x", kind, size, 1e11),))
        assert bound_s(graph) == pytest.approx(crossing / (num_links * 1e11)), kind
    near = Link(bandwidth_bytes_per_s=1e11, latency_s=0.0)
    tree = network_graph([clos("x", size, size // 2, 2, near, 4.0)])
    assert bound_s(tree) == pytest.approx(crossing / (size / 2 * 1e11 / 4))


def test_a_torus_is_cut_across_its_longer_side():
    graph = network_graph((dimension("x", "bidirectional-ring", 8), dimension("y", "bidirectional-ring", 4)))
    assert bound_s(graph) == pytest.approx(PAYLOAD_BYTES * 32 / 4 / (4 * 1e11))


def test_groups_that_stay_on_one_side_cross_nothing():
    graph = network_graph((dimension("x", "ring", 4), dimension("y", "ring", 2)))
    rows = np.arange(8).reshape(2, 4)
    alone = bisection_bound_s(PAYLOAD_BYTES, rows[:1], graph, ("x",))
    assert bisection_bound_s(PAYLOAD_BYTES, rows, graph, ("x",)) == pytest.approx(2 * alone)
    assert bisection_bound_s(PAYLOAD_BYTES, rows, graph, ("y",)) == 0.0
