"""Libraries on groups of ranks of a cluster: nodes and ports by hand, links of another pace, and who asks."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import dovetail as dv
from dovetail.comm.library.on_group import (
    LIBRARIES,
    check_library,
    constants_on,
    group_times,
    is_timed_by_library,
    library_of,
    library_s,
    why_outside,
)
from dovetail.comm.library.platforms import ADA_PCIE, HOPPER, MI300X, NetworkConstants, Platform
from dovetail.comm.library.timing import library_times
from dovetail.errors import InvalidInput
from dovetail.evaluate import Outcome, evaluate
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.hardware.topology import Group, Span
from dovetail.parallel.plan import Overlap, Plan
from dovetail.step.work import COMM_AXES
from dovetail.units import GIBI, GIGA, KIBI, MEBI, MICRO
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

SIZES = np.array([4 * KIBI, 1 * MEBI, 64 * MEBI, 1 * GIBI])
OPERATIONS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")


def whole(cluster: Cluster) -> Group:
    return tuple(Span(dimension=d, num_ranks=d.num_devices) for d in cluster.topology.dimensions)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_node_of_the_catalogue_is_the_platform_as_it_was_measured(operation: str) -> None:
    found = library_s(operation, SIZES, whole(clusters["dgx-h100"].build(8)))
    assert found.tolist() == library_times(HOPPER, operation, 8, SIZES).seconds.tolist()


def test_the_steps_of_a_network_go_from_efas_latency_to_the_links_own() -> None:
    """Small all-reduces over two nodes: InfiniBand's 4 us where EFA's 15 were measured, and nothing else."""
    network = NetworkConstants()
    ratio = 4 / 15
    by_hand = replace(network, step_s=network.step_s * ratio, fill_s=network.fill_s * ratio)
    known = library_times(HOPPER, "all-reduce", 16, SIZES, num_nodes=2, nic_bytes_per_s=400 * GIGA, network=by_hand)
    found = library_s("all-reduce", SIZES, whole(clusters["dgx-h100"].build(16)))
    assert found == pytest.approx(known.seconds, rel=1e-12)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("num_devices", [4, 16])
def test_links_of_half_the_pace_take_twice_as_long(operation: str, num_devices: int) -> None:
    topology = clusters["dgx-a100"].build(num_devices).topology
    group, slow = (
        tuple(Span(dimension=d, num_ranks=d.num_devices) for d in one.dimensions)
        for one in (topology, topology.with_links_scaled(0.5, 0.5))
    )
    assert library_s(operation, SIZES, slow) == pytest.approx(2 * library_s(operation, SIZES, group), rel=1e-9)


def test_a_spine_is_passed_by_one_node_of_those_below_it_and_by_all_of_an_all_to_all() -> None:
    """Eight pods, 1:7 oversubscribed: rings cross once for 256 nodes, all-to-alls with nearly all they send."""
    dimensions = clusters["llama3-grandteton"].build(16384).topology.dimensions
    free = tuple(replace(d, oversubscription=1.0) for d in dimensions)
    group, wide = (tuple(Span(dimension=d, num_ranks=d.num_devices) for d in one) for one in (dimensions, free))
    for operation in ("all-gather", "reduce-scatter", "all-reduce"):
        assert library_s(operation, GIBI, group) == library_s(operation, GIBI, wide)
    assert library_s("all-to-all", GIBI, group) > 4 * library_s("all-to-all", GIBI, wide)
    # ranks one a pod have nothing below the spine to share its ports with
    alone, alone_wide = group[-1:], wide[-1:]
    assert library_s("all-reduce", 16 * GIBI, alone) > 5 * library_s("all-reduce", 16 * GIBI, alone_wide)


def test_lower_bounds_take_the_least_over_protocols() -> None:
    for name in ("dgx-a100", "dgx-h100", "dgx-b200"):
        for num_devices in (2, 4, 8, 16):
            group = whole(clusters[name].build(num_devices))
            for operation in OPERATIONS:
                sizes = np.geomspace(KIBI, GIBI, 81)
                least, tuned = (library_s(operation, sizes, group, one) for one in ("least", "tuner"))
                assert (least <= tuned).all()
                assert (np.diff(least) >= 0).all()


def test_what_was_not_measured_is_left_to_the_links() -> None:
    node, nodes = (whole(clusters["mi300x-nodes"].build(count)) for count in (8, 16))
    assert library_of(node) == "rccl-mi300x"
    assert not is_timed_by_library("all-reduce", node)
    assert is_timed_by_library("all-reduce", nodes)
    assert not is_timed_by_library("all-to-all", nodes)
    assert not is_timed_by_library("broadcast", whole(clusters["dgx-h100"].build(16)))
    assert not is_timed_by_library("all-reduce", whole(clusters["tpu-v4-pod"].build(64)))


def test_every_cluster_names_a_library_that_there_is_on_all_its_dimensions_or_on_none() -> None:
    for name, entry in clusters.items():
        dimensions = entry.build(entry.default_devices).topology.dimensions
        [library] = {dimension.library for dimension in dimensions}
        check_library(library)
        if library in LIBRARIES:
            assert [d.is_network for d in dimensions] == [False, *[True] * (len(dimensions) - 1)], name
    with pytest.raises(InvalidInput, match="library must be one of nccl-a100"):
        check_library("nccl-h10")
    assert all(library.summary for library in LIBRARIES.values())


@pytest.mark.parametrize(
    ("name", "size"), [("dgx-h100x16", "64 MiB"), ("dgx-b200x4", "2 MiB"), ("gb200-nvl72x144", "1 GiB")]
)
def test_network_answers_what_steps_take(name: str, size: str) -> None:
    family, _, count = name.rpartition("x")
    answer = dv.network("all-gather", size=size, topology=name)
    payload_bytes = answer.outcome[0].job.payload_bytes
    times = group_times("all-gather", payload_bytes, whole(clusters[family].build(int(count))))
    assert answer.time_s == times.seconds[0]
    assert (answer.outcome[0].algorithm, answer.outcome[0].protocol) == (times.algorithms[0], times.protocols[0])


def test_a_step_pays_what_network_says_of_its_gradients() -> None:
    """ZeRO-0, nothing overlapped, one all-reduce of all gradients in fp32."""
    cluster = clusters["dgx-h100"].build(64)
    workload = Workload(model=models["gpt2-345m"](), global_batch=128, seq=1024)
    plan = Plan(data_parallel=64, recompute=("full",), overlap=Overlap(data=False))
    found = evaluate(workload, cluster, plan, has_changes=False)
    assert isinstance(found, Outcome)
    answer = dv.network("all-reduce", size=f"{354_823_168 * 4} B", topology="dgx-h100x64")
    assert found.step.comm[COMM_AXES.index("dp")].exposed_s == pytest.approx(answer.time_s, rel=1e-9)


def test_eight_l40s_answer_with_the_constants_that_were_measured_on_them():
    group = whole(clusters["l40s-nodes"].build(8))
    sizes = np.array([2.0**power for power in range(9, 30)])
    measured = library_times(ADA_PCIE, "all-reduce", 8, sizes)
    assert library_s("all-reduce", sizes, group) == pytest.approx(measured.seconds, rel=1e-12)


def test_a_message_is_a_send_of_an_all_to_all_without_the_chunk_that_stays() -> None:
    node = whole(clusters["dgx-h100"].build(8))
    own, rate = HOPPER.protocols, HOPPER.link_bytes_per_s[0][1]
    begin_s = HOPPER.base_s + own.p2p_s + own.p2p_peer_s + HOPPER.channels_s
    chunks_s = 2 * math.sqrt(HOPPER.chunk_s * GIBI / rate)
    assert library_s("point-to-point", GIBI, node) == pytest.approx(begin_s + GIBI / rate + chunks_s, rel=1e-5)
    [protocol] = group_times("point-to-point", 16 * KIBI, node).protocols
    assert protocol == "LL"
    exchanged_s = library_s("all-to-all", 2 * GIBI, (replace(node[0], num_ranks=2),))
    assert library_s("point-to-point", GIBI, node) < exchanged_s  # two chunks, one of which stays


def test_a_message_between_nodes_takes_a_step_of_the_network_and_the_port_of_its_device() -> None:
    nodes = whole(clusters["dgx-h100"].build(16))
    platform, network = constants_on(nodes)
    assert isinstance(platform, Platform)
    begin_s = platform.base_s + platform.protocols.p2p_s + platform.protocols.p2p_peer_s + network.step_s
    port = nodes[1].dimension.link.bandwidth_bytes_per_s
    assert library_s("point-to-point", GIBI, nodes) == pytest.approx(begin_s + GIBI / (0.85 * port), rel=1e-12)
    assert library_s("point-to-point", GIBI, nodes[1:]) == library_s("point-to-point", GIBI, nodes)
    ring = whole(clusters["mi300x-nodes"].build(16))
    port = ring[1].dimension.link.bandwidth_bytes_per_s
    by_hand_s = MI300X.hop_s * ring[1].dimension.link.latency_s / (4 * MICRO) + GIBI / (MI300X.nic_frac * port)
    assert library_s("point-to-point", GIBI, ring) == pytest.approx(by_hand_s, rel=1e-9)


@pytest.mark.parametrize("name", ["dgx-h100x8", "dgx-h100x16", "l40s-nodesx8"])
def test_network_answers_what_the_sends_of_a_pipeline_take(name: str) -> None:
    answer = dv.network("point-to-point", size="4MiB", topology=name).outcome[0]
    group = whole(clusters[name.rpartition("x")[0]].build(8))
    assert answer.time_s == pytest.approx(float(library_s("point-to-point", 4 * MEBI, group)), rel=1e-9)
    assert (answer.algorithm, answer.protocol) == ("p2p", "Simple")


@pytest.mark.parametrize(
    ("name", "num_devices", "words"),
    [
        ("dgx-h100", 8, ""),
        ("dgx-h100", 16, ""),
        ("dgx-h100", 64, "over 8 nodes, measured over 2"),
        ("gb200-nvl72", 64, "over 64 ranks of a node, measured over 8"),
        ("tpu-v4-pod", 64, "by links alone"),
        ("gaudi3-nodes", 16, "by links alone"),
    ],
)
def test_what_lies_outside_of_what_was_measured_is_told(name: str, num_devices: int, words: str) -> None:
    assert why_outside(whole(clusters[name].build(num_devices))) == words


@pytest.mark.parametrize(
    ("name", "constants", "num_devices", "words"),
    [
        ("gb200-nvl72", (("base_s", 0, 5e-6),), 64, ""),
        ("dgx-h100", (("base_s", 0, 5e-6),), 64, "over 8 nodes, measured over 2"),
        ("dgx-h100", (("base_s", 0, 5e-6), ("step_s", 0, 3e-5)), 64, ""),
        ("mi300x-nodes", (("hop_s", 0, 3e-6),), 64, ""),
    ],
)
def test_a_cluster_fitted_on_one_node_was_not_measured_over_several(name, constants, num_devices, words) -> None:
    group = whole(clusters[name].build(num_devices))
    own = tuple(replace(one, dimension=replace(one.dimension, library_constants=constants)) for one in group)
    assert why_outside(own) == words


def test_a_step_outside_the_evidence_tells_so_in_its_headline() -> None:
    asked = {"model": "gpt2-345m", "cluster": "dgx-h100", "plan": "zero3", "seq": 128}
    inside = dv.simulate(**asked, devices=8, global_batch=8)  # type: ignore[arg-type]
    outside = dv.simulate(**asked, devices=16384, global_batch=16384)  # type: ignore[arg-type]
    lacking = "no published run is on more than 11,616 devices"
    assert outside.record["outside_evidence"] == [lacking, "dp over 2,048 nodes, measured over 2"]
    assert outside.headline.endswith(f"; outside the evidence: {lacking}")
    assert f"outside: {lacking}" in " ".join(str(outside).split())
    assert inside.record["outside_evidence"] == []
    assert "outside" not in inside.headline + str(inside)
