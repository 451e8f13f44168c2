"""Collectives as libraries run them: equations by hand, and what NCCL selects."""

import math

import numpy as np
import pytest

from dovetail.comm.library.platforms import (
    ADA_PCIE,
    AMPERE,
    BLACKWELL,
    HOPPER,
    LL,
    LL128,
    MI300X,
    SIMPLE,
    NetworkConstants,
)
from dovetail.comm.library.timing import (
    NVLS,
    OPERATIONS,
    P2P,
    RING,
    SELECTABLE,
    library_group,
    library_times,
    link_rate_bytes_per_s,
)
from dovetail.errors import InvalidInput, NotModelled
from dovetail.units import GIBI, GIGA, KIBI, MEBI, MICRO

NICS = 400 * GIGA


def test_a_small_all_gather_is_a_ring_by_ll_as_worked_out_by_hand() -> None:
    times = library_times(HOPPER, "all-gather", 2, 512.0)
    rate = 18 * 20.6 * GIGA
    filled = (512 / (2 * 4096)) ** 2
    hops_s = HOPPER.hop_s + HOPPER.channels_s * filled / (1 + filled)
    transfer_s = 512.0 / (HOPPER.protocols.ll_frac * rate)
    by_hand_s = HOPPER.base_s + (hops_s**1.5 + transfer_s**1.5) ** (1 / 1.5)
    assert (times.algorithms, times.protocols) == (("ring",), ("LL",))
    assert times.seconds[0] == pytest.approx(by_hand_s, rel=1e-12)


def test_a_large_all_gather_is_a_ring_by_simple_as_worked_out_by_hand() -> None:
    size_bytes, own = 512 * MEBI, AMPERE.protocols
    times = library_times(AMPERE, "all-gather", 4, size_bytes)
    transfer_s = (3 + own.own_chunk_ratio) / 4 * size_bytes / (own.simple_frac * 240 * GIGA)
    hops_s = 3 * own.simple_hop_ratio * AMPERE.hop_s
    piped_s = (hops_s**3 + transfer_s**3) ** (1 / 3) + 2 * math.sqrt(AMPERE.chunk_s * transfer_s)
    assert times.protocols == ("Simple",)
    assert times.seconds[0] == pytest.approx(AMPERE.base_s + AMPERE.channels_s + own.simple_s + piped_s, rel=1e-6)


@pytest.mark.parametrize(
    ("platform", "operation", "ranks", "size_bytes", "selected"),
    [
        (HOPPER, "all-reduce", 8, KIBI, ("ring", "LL")),
        (HOPPER, "all-reduce", 8, 512 * MEBI, ("NVLS", "Simple")),
        (HOPPER, "all-reduce", 4, 512 * MEBI, ("ring", "Simple")),
        (HOPPER, "all-reduce", 4, 8 * MEBI, ("ring", "LL128")),
        (AMPERE, "all-reduce", 8, 512 * MEBI, ("ring", "Simple")),
        (BLACKWELL, "all-reduce", 4, 8 * MEBI, ("ring", "Simple")),
        (HOPPER, "all-to-all", 4, 64 * KIBI, ("p2p", "LL")),
        (HOPPER, "all-to-all", 4, 65 * KIBI, ("p2p", "Simple")),
    ],
)
def test_the_tuner_selects_as_nccl_does(platform, operation, ranks, size_bytes, selected) -> None:
    times = library_times(platform, operation, ranks, size_bytes)
    assert (times.algorithms[0], times.protocols[0]) == selected


def test_the_tuner_of_a100_selects_simple_where_others_are_faster_so_that_time_jumps_at_2_mib() -> None:
    sizes = np.array([512 * KIBI, 2 * MEBI])
    tuned = library_times(AMPERE, "all-gather", 2, sizes)
    least = library_times(AMPERE, "all-gather", 2, sizes, selection="least")
    assert tuned.protocols == ("LL", "Simple")
    assert "Simple" not in least.protocols
    assert tuned.seconds[1] > 1.3 * least.seconds[1]


def test_one_call_of_many_sizes_and_ranks_is_the_same_as_many_calls() -> None:
    ranks, sizes = np.array([2, 4, 8, 8]), np.array([KIBI, MEBI, 64 * MEBI, GIBI])
    for operation in OPERATIONS:
        together = library_times(BLACKWELL, operation, ranks, sizes)
        alone = [library_times(BLACKWELL, operation, int(n), float(s)) for n, s in zip(ranks, sizes, strict=True)]
        assert together.seconds.tolist() == [float(one.seconds[0]) for one in alone]
        assert together.algorithms == tuple(one.algorithms[0] for one in alone)


def test_pcie_bandwidth_lies_between_what_was_measured() -> None:
    rates = link_rate_bytes_per_s(ADA_PCIE, np.array([2, 3, 4, 8, 16]))
    assert rates[0] == pytest.approx(20.9 * GIGA)
    assert rates[2] < rates[1] < rates[0]
    assert rates[3] == pytest.approx(rates[4])


def test_two_nodes_are_bound_by_nvls_inside_and_many_by_nics() -> None:
    def of(nodes: int, nics: float) -> float:
        times = library_times(HOPPER, "all-reduce", 8 * nodes, GIBI, num_nodes=nodes, nic_bytes_per_s=nics)
        assert times.algorithms == ("NVLS tree",)
        return float(times.seconds[0])

    assert of(2, 2 * NICS) > 0.9 * of(2, NICS)
    assert of(32, 2 * NICS) < 0.75 * of(32, NICS)


def test_32_nodes_reach_the_bus_bandwidth_that_is_reported_of_them() -> None:
    times = library_times(HOPPER, "all-reduce", 256, 16 * GIBI, num_nodes=32, nic_bytes_per_s=NICS)
    bus_bytes_per_s = 2 * 255 / 256 * 16 * GIBI / float(times.seconds[0])
    assert bus_bytes_per_s == pytest.approx(340 * GIGA, rel=0.03)


def test_rccl_over_nodes_is_one_ring_by_hand() -> None:
    times = library_times(MI300X, "all-reduce", 16, GIBI, num_nodes=2, nic_bytes_per_s=NICS)
    transfer_s = 30 / 16 * GIBI / (MI300X.nic_frac * NICS)
    by_hand_s = 30 * MI300X.hop_s + transfer_s + 2 * math.sqrt(MI300X.chunk_s * transfer_s)
    assert times.seconds[0] == pytest.approx(by_hand_s, rel=1e-12)


def test_latency_of_rings_grows_with_ranks_and_that_of_trees_with_their_logarithm() -> None:
    def small_s(operation: str, nodes: int) -> tuple[float, str]:
        times = library_times(AMPERE, operation, 8 * nodes, KIBI, num_nodes=nodes, nic_bytes_per_s=NICS)
        return float(times.seconds[0]), times.algorithms[0]

    few_s, few = small_s("all-reduce", 16)
    many_s, many = small_s("all-reduce", 256)
    assert few == many == "tree"
    assert many_s - few_s == pytest.approx(2 * 4 * NetworkConstants().step_s, rel=1e-5)
    ringed_s, algorithm = small_s("all-gather", 256)
    assert algorithm == "ring"
    assert ringed_s > 255 * NetworkConstants().step_s


@pytest.mark.parametrize("operation", ["all-reduce", "all-gather", "reduce-scatter"])
def test_gigabytes_never_go_by_ll_with_one_rank_on_each_node(operation: str) -> None:
    """LL sends a flag with every word, so it carries half of what the NICs do; slow NICs do not change that."""
    for nic_bytes_per_s in (6 * GIGA, 50 * GIGA):
        for num_nodes in (4, 24):
            times = library_times(
                AMPERE, operation, num_nodes, 4 * GIGA, num_nodes=num_nodes, nic_bytes_per_s=nic_bytes_per_s
            )
            assert times.protocols == ("Simple",)


def test_pat_runs_with_one_rank_on_each_node_alone() -> None:
    """As NCCL has it (ncclPatEnable)."""
    for ranks_per_node, algorithm in ((1, "PAT"), (2, "ring"), (8, "ring")):
        ranks = 256 * ranks_per_node
        times = library_times(HOPPER, "all-gather", ranks, KIBI, num_nodes=256, nic_bytes_per_s=NICS)
        assert times.algorithms == (algorithm,)
    times = library_times(HOPPER, "all-gather", 256, KIBI, num_nodes=256, nic_bytes_per_s=NICS)
    levels_s = 8 * NetworkConstants().step_s / 3.5
    begun_s = HOPPER.base_s + HOPPER.channels_s + HOPPER.protocols.simple_s
    by_hand_s = begun_s + levels_s + 256 * NetworkConstants().pat_rank_s
    assert times.seconds[0] == pytest.approx(by_hand_s, rel=1e-3)


@pytest.mark.parametrize(
    ("platform", "operation", "ranks", "more", "error"),
    [
        (HOPPER, "broadcast", 8, {}, NotModelled),
        (HOPPER, "all-reduce", 1, {}, InvalidInput),
        (HOPPER, "all-reduce", 9, {"num_nodes": 2, "nic_bytes_per_s": NICS}, InvalidInput),
        (HOPPER, "all-reduce", 16, {"num_nodes": 2}, InvalidInput),
        (HOPPER, "all-reduce", 8, {"selection": "best"}, InvalidInput),
        (MI300X, "all-reduce", 8, {}, NotModelled),
        (MI300X, "all-to-all", 16, {"num_nodes": 2, "nic_bytes_per_s": NICS}, NotModelled),
    ],
)
def test_what_cannot_be_timed_is_refused(platform, operation, ranks, more, error) -> None:
    with pytest.raises(error):
        library_times(platform, operation, ranks, 1 * MEBI, **more)


def test_measured_medians_of_h100_are_met_within_a_tenth() -> None:
    """A few medians as spec sheets quote them: nccl-tests, NCCL 2.27 and 2.29, DGX H100."""
    for operation, ranks, size_bytes, measured_s in (
        ("all-gather", 2, 2 * KIBI, 5.4 * MICRO),
        ("all-reduce", 8, 2 * KIBI, 15.9 * MICRO),
        ("all-reduce", 8, 512 * MEBI, 2112 * MICRO),
        ("all-gather", 8, 512 * MEBI, 1400 * MICRO),
    ):
        assert library_times(HOPPER, operation, ranks, size_bytes).seconds[0] == pytest.approx(measured_s, rel=0.10)


@pytest.mark.parametrize(
    ("chosen", "size_bytes", "expected"),
    [
        ((RING, LL), 1.0, 1),  # one channel at least
        ((RING, LL), 2 * 8 * 512 * 8, 2),  # 512 threads of 8 bytes for each rank
        ((RING, LL), 1 * GIBI, 24),
        ((RING, LL128), 3 * 640 * 8, 3),
        ((RING, SIMPLE), 23.9 * 512 * 64, 23),
        ((RING, SIMPLE), 1 * GIBI, 24),
        ((NVLS, SIMPLE), 1.0, 16),  # all that there are, whatever the size
        ((P2P, SIMPLE), 1 * GIBI, 0),  # not modelled
    ],
)
def test_channels_are_as_many_as_a_size_fills_with_threads(chosen, size_bytes, expected):
    group = library_group(HOPPER, "all-reduce", 8)
    assert group.num_channels(SELECTABLE.index(chosen), size_bytes) == expected
    assert group.in_switch.num_channels(SELECTABLE.index(chosen), size_bytes) == expected


def test_channels_over_nodes_and_of_platforms_without_a_log():
    row = SELECTABLE.index((RING, SIMPLE))
    pair = library_group(HOPPER, "all-gather", 16, num_nodes=2, nic_bytes_per_s=400 * GIGA)
    assert pair.num_channels(row, 1 * GIBI) == 16
    assert library_group(ADA_PCIE, "all-gather", 8).num_channels(row, 1 * GIBI) == 0
    unknown = library_group(AMPERE, "all-gather", 16, num_nodes=2, nic_bytes_per_s=200 * GIGA)
    assert unknown.num_channels(row, 1 * GIBI) == 0
