"""Laws of collectives as libraries run them, at a fixed algorithm and protocol: selection itself may jump."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dovetail.comm.library.platforms import ADA_PCIE, AMPERE, BLACKWELL, BLACKWELL_PCIE, HOPPER, MI300X, Platform
from dovetail.comm.library.timing import (
    ALL_REDUCE,
    OPERATIONS,
    SELECTABLE,
    library_group,
    library_times,
)
from dovetail.units import GIGA

PLATFORMS = (AMPERE, HOPPER, BLACKWELL, ADA_PCIE, BLACKWELL_PCIE)
platforms = st.sampled_from(PLATFORMS)
operations = st.sampled_from(OPERATIONS)
sizes = st.floats(min_value=8.0, max_value=2.0**36)
ranks = st.integers(min_value=2, max_value=72)


def _row(platform: Platform, operation: str, num_ranks: int, size_bytes: float) -> np.ndarray:
    times_s = np.full(len(SELECTABLE), np.inf)
    for row, form in library_group(platform, operation, num_ranks).forms.items():
        times_s[row] = form(np.array([size_bytes]))[0]
    return times_s


@given(platforms, operations, ranks, sizes, st.floats(min_value=1.0, max_value=100.0))
def test_more_bytes_never_take_less(platform, operation, num_ranks, size_bytes, factor) -> None:
    small, large = (_row(platform, operation, num_ranks, size) for size in (size_bytes, size_bytes * factor))
    known = np.isfinite(small)
    assert (large[known] >= small[known] * (1 - 1e-12)).all()


@given(platforms, operations, ranks, sizes)
def test_more_ranks_never_take_less_with_as_much_per_rank(platform, operation, num_ranks, size_bytes) -> None:
    """But for NVLS, where the switch reduces, and on PCIe only while the measured bandwidth per rank falls."""
    per_rank = 1 if operation == ALL_REDUCE else num_ranks
    few = _row(platform, operation, num_ranks, size_bytes * per_rank)
    many = _row(platform, operation, num_ranks + 1, size_bytes * (per_rank if per_rank == 1 else num_ranks + 1))
    for row, (algorithm, _) in enumerate(SELECTABLE):
        if algorithm != "NVLS" and np.isfinite(few[row]):
            assert many[row] >= few[row] * (1 - 1e-12)


@given(platforms, operations, ranks, sizes)
def test_the_least_is_never_above_any_protocol_nor_the_tuner(platform, operation, num_ranks, size_bytes) -> None:
    least = library_times(platform, operation, num_ranks, size_bytes, selection="least")
    tuned = library_times(platform, operation, num_ranks, size_bytes)
    every = _row(platform, operation, num_ranks, size_bytes)
    assert least.seconds[0] == every.min()
    assert least.seconds[0] <= tuned.seconds[0]
    assert tuned.seconds[0] == every[tuned.selected[0]]


@given(platforms, operations, ranks, sizes, st.floats(min_value=1.0, max_value=10.0))
def test_faster_links_never_take_longer(platform, operation, num_ranks, size_bytes, factor) -> None:
    rates = tuple((count, rate * factor) for count, rate in platform.link_bytes_per_s)
    slow = _row(platform, operation, num_ranks, size_bytes)
    fast = _row(replace(platform, link_bytes_per_s=rates), operation, num_ranks, size_bytes)
    known = np.isfinite(slow)
    assert (fast[known] <= slow[known] * (1 + 1e-12)).all()


@given(
    st.sampled_from((AMPERE, HOPPER, BLACKWELL)),
    operations,
    st.integers(min_value=2, max_value=4096),
    sizes,
    st.floats(min_value=1.0, max_value=10.0),
)
def test_over_nodes_more_bytes_never_take_less_and_faster_nics_never_longer(
    platform, operation, num_nodes, size_bytes, factor
) -> None:
    def seconds(size: float, nics: float) -> float:
        times = library_times(platform, operation, 8 * num_nodes, size, num_nodes=num_nodes, nic_bytes_per_s=nics)
        return float(times.seconds[0])

    base_s = seconds(size_bytes, 400 * GIGA)
    assert 0 < base_s < np.inf
    assert seconds(size_bytes * factor, 400 * GIGA) >= base_s * (1 - 1e-12)
    assert seconds(size_bytes, 400 * GIGA * factor) <= base_s * (1 + 1e-12)


@given(st.sampled_from(OPERATIONS[:3]), st.integers(min_value=2, max_value=1024), sizes)
def test_a_longer_ring_over_nodes_never_takes_less(operation, num_nodes, size_bytes) -> None:
    few, many = (
        library_times(MI300X, operation, 8 * nodes, size_bytes, num_nodes=nodes, nic_bytes_per_s=400 * GIGA).seconds[0]
        for nodes in (num_nodes, num_nodes + 1)
    )
    assert many >= few
