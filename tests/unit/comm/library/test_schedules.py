"""Libraries' forms and message schedules by events: the same rounds of latency, and the same bytes past each rank."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.comm.events.network_graph import network_graph
from dovetail.comm.events.program import Queueing
from dovetail.comm.library.platforms import AMPERE, BLACKWELL, HOPPER, LL, SIMPLE, NetworkConstants, Platform
from dovetail.comm.library.timing import NVLS, NVLS_TREE, P2P, RING, SELECTABLE, TREE, Form, library_group
from dovetail.comm.messages import compiled
from dovetail.comm.one_collective import CollectiveJob, Network, NetworkAnswer, network_answer
from dovetail.hardware.link import Link
from dovetail.hardware.topology import Dimension
from dovetail.units import GIGA, TERA

SMALL, LARGE = 1e-3, 1e18  # bytes that weigh nothing beside latency, and beside which latency weighs nothing
RATE = 100 * GIGA
NUM_ACTIVE = 16  # chunks under way at once, of which the first and last have a link to themselves


def events_s(operation: str, num_ranks: int, size_bytes: float, latency_s: float, algorithm: str) -> float:
    """By the schedule of `algorithm`, on a switch with such links."""
    link = Link(bandwidth_bytes_per_s=RATE, latency_s=latency_s)
    part = Dimension(name="x", kind="switch", num_devices=num_ranks, link=link)
    network = Network(name="x", parts=(part,), graph=network_graph((part,)))
    job = CollectiveJob(
        collective=operation, payload_bytes=size_bytes, network=network, algorithms=(("x", algorithm),)
    )  # fmt: skip
    return network_answer(job).time_s


def form_s(platform: Platform, operation: str, num_ranks: int, chosen: tuple[str, str], size_bytes: float) -> float:
    forms = library_group(platform, operation, num_ranks).forms
    return float(forms[SELECTABLE.index(chosen)](np.array([size_bytes]))[0])


def shares(platform: Platform, operation: str, num_ranks: int, chosen: tuple[str, str]) -> float:
    """How often the payload passes a rank's link by the library's form, where bandwidth alone counts."""
    own, rate = platform.protocols, dict(platform.link_bytes_per_s)[2]
    frac = own.ll_frac if chosen[1] == LL else own.simple_frac
    slope = (form_s(platform, operation, num_ranks, chosen, 2 * LARGE) - form_s(
        platform, operation, num_ranks, chosen, LARGE
    )) / LARGE  # fmt: skip
    return slope * frac * rate


@pytest.mark.parametrize("platform", [AMPERE, HOPPER, BLACKWELL], ids=lambda one: one.name)
@pytest.mark.parametrize("operation", ["all-gather", "reduce-scatter", "all-reduce"])
@pytest.mark.parametrize("num_ranks", [2, 4, 8])
def test_a_ring_of_the_library_has_the_rounds_and_the_bytes_of_its_schedule(platform, operation, num_ranks):
    latency_s = form_s(platform, operation, num_ranks, (RING, LL), SMALL) - platform.base_s
    assert latency_s == pytest.approx(events_s(operation, num_ranks, 1.0, platform.hop_s, "ring"), rel=1e-3)
    sent = events_s(operation, num_ranks, TERA, 0.0, "ring") * RATE / TERA
    own = {LL: platform.protocols.ll_own_chunk_ratio, SIMPLE: platform.protocols.own_chunk_ratio}
    for protocol in (LL, SIMPLE):  # and the rank's own chunk, which no link carries
        passed = shares(platform, operation, num_ranks, (RING, protocol)) - own[protocol] / num_ranks
        assert passed == pytest.approx(sent, rel=1e-3)


@pytest.mark.parametrize("num_ranks", [2, 4, 8])
def test_an_all_to_all_of_the_library_sends_what_its_schedule_sends(num_ranks):
    sent = events_s("all-to-all", num_ranks, TERA, 0.0, "direct") * RATE / TERA
    kept = HOPPER.p2p_own_chunk_ratio / num_ranks
    assert shares(HOPPER, "all-to-all", num_ranks, (P2P, SIMPLE)) - kept == pytest.approx(sent, rel=1e-3)


def simulated(
    sizes: dict[str, int], algorithms: dict[str, str], num_chunks: int = 1, rates: tuple[float, ...] = (RATE, RATE)
) -> NetworkAnswer:
    """An all-reduce of a terabyte by events, on switches one in another, whose links have no latency."""
    parts = tuple(
        Dimension(name=name, kind="switch", num_devices=count, link=Link(bandwidth_bytes_per_s=rate, latency_s=0.0))
        for (name, count), rate in zip(sizes.items(), rates, strict=False)
    )
    job = CollectiveJob(
        collective="all-reduce", payload_bytes=TERA, network=Network(name="x", parts=parts, graph=network_graph(parts)),
        algorithms=tuple(algorithms.items()), num_chunks=num_chunks, queueing=Queueing(num_active_chunks=NUM_ACTIVE),
    )  # fmt: skip
    return network_answer(job)


def passed(found: NetworkAnswer, dimension: str, rate: float = RATE) -> float:
    """How often the payload passes a link of a dimension by events, in the mean over its links."""
    [load] = [load for load in found.loads if load.dimension == dimension]
    return load.mean_frac * found.time_s * rate / TERA


def slope_s_per_byte(form: Form) -> float:
    ends_s = form(np.array([LARGE, 2 * LARGE]))
    return float(ends_s[1] - ends_s[0]) / LARGE


@pytest.mark.parametrize("platform", [HOPPER, BLACKWELL], ids=lambda one: one.name)
@pytest.mark.parametrize("num_ranks", [8, 16, 72])
def test_nvls_sends_the_buffer_once_and_its_part_of_the_result(platform, num_ranks):
    """(n + 1) / n of the payload past every port, each way; and that is its time once chunks follow one another.

    Scheduled is the transfer. What NVLS takes to begin and its ramp were fitted, and no schedule has them.
    """
    found = simulated({"x": num_ranks}, {"x": "nvls"}, num_chunks=1024)
    own, rate = platform.protocols, dict(platform.link_bytes_per_s)[2]
    form = library_group(platform, "all-reduce", num_ranks).forms[SELECTABLE.index((NVLS, SIMPLE))]
    shares = slope_s_per_byte(form) * own.nvls_frac * platform.nvls_efficiency_frac * rate
    assert passed(found, "x") == pytest.approx(shares, rel=1e-3)
    assert shares * (1 - 1e-9) <= found.time_s * RATE / TERA <= (1 + 1 / NUM_ACTIVE) * shares


@pytest.mark.parametrize("num_nodes", [2, 4, 8, 16])
def test_a_tree_over_nodes_has_the_rounds_and_the_bytes_of_its_schedule(num_nodes):
    """One rank on each node: log2 of the nodes up and as many down, and 2 (m - 1) / m past a NIC in the mean.

    Scheduled are steps and bytes. LL's cap on bandwidth is NCCL's own figure, and filling the pipeline was fitted.
    """
    forms = library_group(AMPERE, "all-reduce", num_nodes, num_nodes=num_nodes, nic_bytes_per_s=RATE).forms
    network = NetworkConstants()
    small_s = float(forms[SELECTABLE.index((TREE, LL))](np.array([SMALL]))[0]) - AMPERE.base_s
    by_events_s = events_s("all-reduce", num_nodes, 1.0, network.step_s, "double-binary-tree")
    assert small_s == pytest.approx(by_events_s, rel=1e-3)
    sent = slope_s_per_byte(forms[SELECTABLE.index((TREE, SIMPLE))]) * network.nic_frac * RATE
    assert sent == pytest.approx(passed(simulated({"x": num_nodes}, {"x": "double-binary-tree"}), "x"), rel=1e-3)


@pytest.mark.parametrize(("num_local", "num_nodes"), [(1, 2), (8, 2), (4, 4), (8, 16)])
@pytest.mark.parametrize("operation", ["all-gather", "reduce-scatter", "all-reduce"])
def test_a_ring_over_nodes_has_the_rounds_and_the_bytes_of_its_schedule(operation, num_local, num_nodes):
    """All ranks in one ring: a round is a hop in a node, or a step of the network between two."""
    num_ranks, network = num_local * num_nodes, NetworkConstants()
    ring = compiled("ring", operation, num_ranks, "any")
    forms = library_group(HOPPER, operation, num_ranks, num_nodes=num_nodes, nic_bytes_per_s=RATE).forms
    small_s = float(forms[SELECTABLE.index((RING, LL))](np.array([SMALL]))[0]) - HOPPER.base_s
    num_steps = ring.num_steps * (num_nodes - 1) // (num_ranks - 1)  # of its rounds, those that cross nodes
    num_hops = ring.num_steps - num_steps
    assert small_s == pytest.approx(num_steps * network.step_s + num_hops * HOPPER.hop_s, rel=1e-3)
    sent = slope_s_per_byte(forms[SELECTABLE.index((RING, SIMPLE))]) * network.nic_frac * RATE
    assert sent == pytest.approx(ring.moved[0] / ring.moved[1], rel=1e-3)


@pytest.mark.parametrize("num_nodes", [2, 4, 8])
def test_nvls_tree_is_nvls_in_nodes_beside_trees_over_nics(num_nodes):
    """Phases in the node and over NICs are pipelined, and the slower sets the pace: here the NICs.

    Scheduled are the bytes of both phases and the longer of them; filling the pipeline (`fill_s`) was fitted.
    """
    local, network, nic = 8, NetworkConstants(), RATE / 100
    sizes, algorithms = {"x": local, "y": num_nodes}, {"x": "nvls", "y": "double-binary-tree"}
    found = simulated(sizes, algorithms, num_chunks=256, rates=(RATE, nic))
    assert passed(found, "x") == pytest.approx((local + 1) / local, rel=1e-3)
    nics_bytes_per_s = local * nic
    group = library_group(
        HOPPER, "all-reduce", local * num_nodes, num_nodes=num_nodes, nic_bytes_per_s=nics_bytes_per_s
    )
    slope = slope_s_per_byte(group.forms[SELECTABLE.index((NVLS_TREE, SIMPLE))]) * network.nic_frac
    assert passed(found, "y", nic) == pytest.approx(slope * nic, rel=1e-3)
    busiest = max(load.most_frac for load in found.loads) * found.time_s  # inner ranks of a tree send more than leaves
    assert found.time_s == pytest.approx(busiest, rel=0.05)
