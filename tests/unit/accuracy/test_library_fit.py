"""A collective library fitted to rows that were made with known constants: it finds them, and leaves the others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dovetail.accuracy.collective_rows import Collectives, seconds_of
from dovetail.accuracy.library_fit import LibraryFit, fit_library, identified
from dovetail.comm.library.on_group import LIBRARIES, Library
from dovetail.comm.library.platforms import NetworkConstants
from dovetail.units import GIGA, MICRO

SIZES = tuple(512.0 * 4**power for power in range(11))
HOPPER, PCIE, MI300X = (LIBRARIES[name] for name in ("nccl-h100", "nccl-l40s", "rccl-mi300x"))


def rows_of(
    points: list[tuple[str, int, float]], library: Library, *, num_nodes: int = 1, nic_bytes_per_s: float = 0.0
) -> Collectives:
    """What `library` takes for operation, ranks and size of each point, as if it had been measured."""
    blank = Collectives(
        products=("mine",) * len(points),
        operations=tuple(operation for operation, _, _ in points),
        num_ranks=np.array([ranks for _, ranks, _ in points]),
        num_nodes=np.full(len(points), num_nodes),
        nic_bytes_per_s=np.full(len(points), nic_bytes_per_s),
        size_bytes=np.array([size for _, _, size in points]),
        measured_s=np.ones(len(points)),
        kinds=("mine",) * len(points),
    )
    return replace(blank, measured_s=seconds_of(library.platform, library.network, blank)[0])


def every_point(
    operations: tuple[str, ...] = ("all-gather", "all-reduce", "all-to-all"),
) -> list[tuple[str, int, float]]:
    return [(operation, ranks, size) for operation in operations for ranks in (2, 4, 8) for size in SIZES]


def after(fit: LibraryFit, name: str, num_ranks: int = 0) -> float:
    return next(one.after for one in fit.constants if (one.name, one.num_ranks) == (name, num_ranks))


def changed(library: Library, **constants: float) -> Library:
    return library.with_constants(tuple((name, 0, value) for name, value in constants.items()))


def test_a_fit_to_many_rows_finds_the_constants_that_made_them():
    true = changed(HOPPER, base_s=8 * MICRO, hop_s=1.6 * MICRO, chunk_s=3 * MICRO)
    found = fit_library(HOPPER, rows_of(every_point(), true))
    assert after(found, "base_s") == pytest.approx(8 * MICRO, rel=0.06)  # the prior holds it back
    assert after(found, "hop_s") == pytest.approx(1.6 * MICRO, rel=0.08)
    assert after(found, "chunk_s") == pytest.approx(3 * MICRO, rel=0.2)
    assert found.error_frac(found.after_s) < 0.02 < 0.2 < found.error_frac(found.before_s)
    assert found.error_frac(found.left_out_s) < 0.025


def test_rows_that_agree_with_the_library_move_nothing():
    found = fit_library(HOPPER, rows_of(every_point(), HOPPER))
    assert identified(found) == []
    assert found.error_frac(found.after_s) == pytest.approx(0, abs=1e-6)


def test_one_small_row_moves_latencies_together_and_no_bandwidth():
    true = changed(HOPPER, base_s=9 * MICRO, hop_s=1.83 * MICRO)  # both twice as long
    found = fit_library(HOPPER, rows_of([("all-gather", 2, 2048.0)], true))
    moved = {one.name: one.after / one.before for one in found.constants}
    assert 1.6 < moved["base_s"] < 2.1
    assert 1.6 < moved["hop_s"] < 2.1
    assert moved["link_bytes_per_s"] == pytest.approx(1, abs=0.01)
    assert moved["chunk_s"] == pytest.approx(1, abs=0.01)
    assert found.left_out_s.size == 0


def test_one_large_all_gather_for_each_number_of_ranks_gives_pcie_its_bandwidths():
    rates = ((2, 47 * GIGA), (4, 27 * GIGA), (8, 24 * GIGA))
    true = PCIE.with_constants(tuple(("link_bytes_per_s", ranks, rate) for ranks, rate in rates))
    found = fit_library(PCIE, rows_of([("all-gather", ranks, 2.0**27) for ranks, _ in rates], true))
    for ranks, rate in rates:
        assert after(found, "link_bytes_per_s", ranks) == pytest.approx(rate, rel=0.05)
    final = PCIE.with_constants(found.fitted)
    whole = rows_of(every_point(), true)
    assert np.abs(seconds_of(final.platform, final.network, whole)[0] / whole.measured_s - 1).mean() < 0.03


def test_the_network_between_nodes_is_fitted_where_rows_are_of_several():
    network = replace(NetworkConstants(), step_s=20 * MICRO, fill_s=100 * MICRO)
    points = [("all-reduce", 16, size * 64) for size in SIZES]
    rows = rows_of(points, replace(HOPPER, network=network), num_nodes=2, nic_bytes_per_s=400 * GIGA)
    found = fit_library(HOPPER, rows)
    assert after(found, "step_s") == pytest.approx(20 * MICRO, rel=0.1)
    assert found.error_frac(found.after_s) < 0.02
    assert not any(one.name == "step_s" for one in fit_library(HOPPER, rows_of(every_point(), HOPPER)).constants)


def test_a_ring_over_the_nics_has_three_constants():
    true = changed(MI300X, hop_s=2 * MICRO, nic_frac=0.8)
    points = [("all-reduce", 16, size * 4096) for size in SIZES]
    rows = rows_of(points, true, num_nodes=2, nic_bytes_per_s=400 * GIGA)
    found = fit_library(MI300X, rows)
    assert {one.name for one in found.constants} == {"hop_s", "chunk_s", "nic_frac"}
    assert after(found, "nic_frac") == pytest.approx(0.8, rel=0.03)
    assert found.error_frac(found.after_s) < 0.03 < 0.1 < found.error_frac(found.before_s)


def test_where_protocols_change_tells_the_bandwidth_that_the_tuner_goes_by():
    true = changed(HOPPER, tuner_bytes_per_s=90 * GIGA)  # a quarter of Hopper's
    rows = rows_of([("all-gather", 8, 512.0 * 2**power) for power in range(21)], true)
    found = fit_library(HOPPER, rows)
    assert found.tuner_ratio in (0.25, 0.5)
    assert found.error_frac(found.after_s) < 0.05
