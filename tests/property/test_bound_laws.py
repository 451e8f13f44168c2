"""The lower bound of a collective is of the same collective: no engine and no algorithm is faster than it."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dovetail.comm.library.on_group import library_algorithms
from dovetail.comm.one_collective import (
    COLLECTIVES,
    CollectiveJob,
    Network,
    NetworkAnswer,
    network_answer,
    whole_group,
    why_no_library,
)
from dovetail.errors import DovetailError
from dovetail.files.network import network_of
from dovetail.hardware.clusters import clusters
from dovetail.units import GIBI, KIBI
from tests.unit.comm.events.networks import PAYLOAD_BYTES, dimensions, network_graph

SOON = settings(max_examples=40, deadline=None)
ALGORITHMS = ("", "ring", "direct", "halving-doubling", "double-binary-tree", "in-switch", "nvls")
TIMED = (
    "dgx-a100",
    "dgx-h100",
    "dgx-b200",
    "gb200-nvl72",
    "hgx-h800",
    "l40s-nodes",
    "mi300x-nodes",
    "llama3-grandteton",
)


@SOON
@given(
    dimensions(max_dimensions=3, max_devices=5), st.sampled_from(COLLECTIVES),
    st.lists(st.sampled_from(ALGORITHMS), min_size=3, max_size=3), st.integers(1, 4),
    st.sampled_from((1.0, 0.25)), st.booleans(),
)  # fmt: skip
def test_no_event_simulation_beats_the_bound(parts, collective, named, num_chunks, slow_frac, is_one_dimension):
    graph = network_graph(parts)
    if slow_frac < 1:
        link = int(graph.is_alive.argmax())
        graph = graph.with_link_scaled(int(graph.source[link]), int(graph.target[link]), slow_frac)
    network = Network(name="it", parts=parts, graph=graph)
    pairs = tuple((part.name, name) for part, name in zip(parts, named, strict=False) if name)
    is_message = collective == "point-to-point"
    try:
        found = network_answer(
            CollectiveJob(
                collective=collective, payload_bytes=PAYLOAD_BYTES, network=network,
                algorithms=() if is_message else pairs, num_chunks=1 if is_message else num_chunks,
                dimensions=(parts[0].name,) if is_one_dimension else (),
            )
        )  # fmt: skip
    except DovetailError:
        assume(False)
    assert found.bound_s <= found.time_s * (1 + 1e-9)


def _on(cluster: str, num_nodes: int, collective: str, size_bytes: float) -> CollectiveJob:
    inner = clusters[cluster].build(clusters[cluster].default_devices).topology.dimensions[0].num_devices
    topology = clusters[cluster].build(inner * num_nodes).topology
    network = network_of(cluster, topology.dimensions)
    return CollectiveJob(collective=collective, payload_bytes=size_bytes, network=network, engine="library")


def _by(job: CollectiveJob, algorithm: str = "") -> NetworkAnswer:
    pairs = (("*", algorithm),) if algorithm else ()
    return network_answer(
        CollectiveJob(
            collective=job.collective, payload_bytes=job.payload_bytes, network=job.network, engine="library",
            algorithms=pairs,
        )
    )  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(TIMED), st.sampled_from((1, 2, 8, 32)),
    st.sampled_from(("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "point-to-point")),
    st.floats(math.log(4 * KIBI), math.log(16 * GIBI)).map(math.exp),
)  # fmt: skip
def test_no_library_beats_the_bound_and_what_it_selects_is_one_of_its_algorithms(
    cluster, num_nodes, collective, size_bytes
):
    try:
        job = _on(cluster, num_nodes, collective, size_bytes)
    except DovetailError:
        assume(False)
    assume(not why_no_library(job))
    selected = _by(job)
    names = library_algorithms(collective, whole_group(job)[:1] if collective == "point-to-point" else whole_group(job))
    by_name = {name: _by(job, name) for name in names}
    for one in (selected, *by_name.values()):
        assert 0 < one.bound_s <= one.time_s
    same = by_name[selected.algorithm.lower().replace(" ", "-")]
    assert (same.time_s, same.protocol, same.bound_s) == (selected.time_s, selected.protocol, selected.bound_s)
    if num_nodes > 1 and cluster == "dgx-a100":  # where no tuner selects, and nothing is left to requests
        assert selected.time_s == min(one.time_s for one in by_name.values())


@pytest.mark.parametrize("num_nodes", [2, 4])
def test_a_node_must_pass_its_network_cards_twice_less_its_own_part(num_nodes: int):
    """NVLS adds in a node's switches and none between nodes: 2 (m - 1) / m of the payload over eight of 50 GB/s."""
    found = _by(_on("dgx-h100", num_nodes, "all-reduce", 1.0 * GIBI))
    assert found.algorithm == "NVLS tree"
    assert found.bound_s == pytest.approx(2 * (num_nodes - 1) / num_nodes * GIBI / 400e9)
