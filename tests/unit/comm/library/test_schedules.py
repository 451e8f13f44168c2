"""Libraries' forms and message schedules by events: the same rounds of latency, and the same bytes past each rank."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.comm.events.network_graph import network_graph
from dovetail.comm.library.platforms import AMPERE, BLACKWELL, HOPPER, LL, SIMPLE, Platform
from dovetail.comm.library.timing import NVLS, P2P, RING, SELECTABLE, library_group
from dovetail.comm.one_collective import CollectiveJob, Network, network_answer
from dovetail.hardware.link import Link
from dovetail.hardware.topology import Dimension
from dovetail.units import GIGA, TERA

SMALL, LARGE = 1e-3, 1e18  # bytes that weigh nothing beside latency, and beside which latency weighs nothing
RATE = 100 * GIGA


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


def test_nvls_sends_the_buffer_once_and_its_part_of_the_result():
    """In-switch reduction by events streams each buffer once; the library's switch returns 1/n of it through a rank."""
    sent = events_s("all-reduce", 8, TERA, 0.0, "in-switch") * RATE / TERA
    own = HOPPER.protocols
    found = shares(HOPPER, "all-reduce", 8, (NVLS, SIMPLE)) * own.nvls_frac * HOPPER.nvls_efficiency_frac
    assert found == pytest.approx(9 / 8, rel=1e-3)
    assert sent == pytest.approx(1.0, rel=1e-3)
