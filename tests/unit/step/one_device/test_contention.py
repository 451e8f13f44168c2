"""Compute beside communication: laws, edges and what an H200 was seen to do."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from dovetail.accuracy.sets.contention import QUEUE_S, kernel_ops
from dovetail.cost.chosen import num_clusters, num_waves
from dovetail.cost.op_cost import OpCosts
from dovetail.errors import InvalidInput
from dovetail.hardware.catalog import chips
from dovetail.step.one_device.contention import (
    BLOCK_BYTES_PER_S,
    LATENCY_OF_LOAD,
    LOOKUP_FRAC,
    SHARED_BYTES_PER_S,
    OccupiedResources,
    _lost_frac,
    _shared,
    _sram_left_bytes_per_s,
    _units_left,
    beside,
    beside_blocks,
    block_bytes_per_s,
)
from dovetail.units import GIGA
from dovetail.workload.graph import Ops
from dovetail.workload.operators import code_of

CHIP = chips["h200-sxm"]()
NAMES = ("gemm1024", "gemm2048", "gemm4096", "gemm8192", "gelu8192x8192", "attention4x32x2048x128", "embedding_bag")


def kernel(name: str) -> Ops:
    found = kernel_ops(name)
    assert found is not None, name
    return found


KERNELS = {name: kernel(name) for name in NAMES}


def slowdown(name: str, num_blocks: int, queue_s: float = 0.0) -> float:
    held = OccupiedResources(num_units=num_blocks, sram_bytes_per_s=block_bytes_per_s(num_blocks))
    return float(beside(KERNELS[name], CHIP, held, queue_s=queue_s).compute_slowdown[0])


@pytest.mark.parametrize("name", KERNELS)
def test_nothing_held_slows_nothing(name: str) -> None:
    found = beside(KERNELS[name], CHIP, OccupiedResources())
    assert found.compute_slowdown[0] == 1.0
    assert found.comm_slowdown[0] == 1.0


@pytest.mark.parametrize("name", KERNELS)
def test_more_held_units_never_speed_compute_up(name: str) -> None:
    found = [slowdown(name, k) for k in range(125)]
    assert all(later >= sooner * (1 - 1e-9) for sooner, later in pairwise(found))


@pytest.mark.parametrize("name", KERNELS)
def test_more_hbm_traffic_never_speeds_compute_up(name: str) -> None:
    held = [OccupiedResources(hbm_bytes_per_s=rate * GIGA) for rate in range(0, 4000, 250)]
    found = [float(beside(KERNELS[name], CHIP, h).compute_slowdown[0]) for h in held]
    assert found == sorted(found)


def test_hbm_wanted_twice_over_is_shared_in_proportion() -> None:
    ops = kernel("add32768x8192")
    full = CHIP.hbm.bandwidth_bytes_per_s * CHIP.calibration.hbm_frac
    found = beside(ops, CHIP, OccupiedResources(hbm_bytes_per_s=full))
    assert found.compute_slowdown[0] == pytest.approx(2, rel=0.02)
    assert found.comm_slowdown[0] == pytest.approx(2, rel=0.02)


def test_a_cluster_breaks_for_each_of_the_first_held_units() -> None:
    pairs = CHIP.tensor.tiling
    assert [num_clusters(132, k, pairs) for k in (0, 1, 2, 4, 64, 96, 132)] == [66, 65, 64, 62, 32, 16, 0]
    single = replace(pairs, num_cluster_units=1)
    assert [num_clusters(108, k, single) for k in (0, 1, 108)] == [108, 107, 0]


def test_one_more_wave_doubles_a_product_of_one_wave() -> None:
    assert slowdown("gemm2048", 2) == 1.0
    assert 1.8 < slowdown("gemm2048", 4) < 2.0


def test_a_vector_kernel_runs_beside_a_collective_on_every_unit() -> None:
    assert slowdown("gelu8192x8192", 132) == pytest.approx(4 / 3, rel=0.02)


def test_lookups_lose_about_half_of_a_held_unit() -> None:
    assert slowdown("embedding_bag", 96) == pytest.approx(1.535, rel=0.05)  # measured, one H200


def test_a_kernel_that_stays_is_a_wave_late_beside_one_block() -> None:
    assert slowdown("gemm4096", 1) == pytest.approx(1.228, rel=0.05)  # measured, one H200
    assert slowdown("gemm8192", 1) == pytest.approx(1.0716, rel=0.05)


def test_norms_lose_whole_units_beside_blocks_without_shared_memory_and_threads_beside_others() -> None:
    def slow(has_shared_memory: bool) -> float:
        held = OccupiedResources(num_units=96, has_shared_memory=has_shared_memory)
        return float(beside(kernel("layernorm32768x1024"), CHIP, held).compute_slowdown[0])

    assert slow(has_shared_memory=False) == pytest.approx(3.52, rel=0.05)  # measured, one H200
    assert slow(has_shared_memory=True) == pytest.approx(1.188, rel=0.05)


def test_norms_with_no_unit_left_are_refused() -> None:
    with pytest.raises(InvalidInput, match="leaves none for norms"):
        beside(kernel("layernorm1024x1024"), CHIP, OccupiedResources(num_units=132))


def test_a_product_of_two_waves_lets_one_late_pair_in_and_not_two() -> None:
    found = [float(beside_blocks(kernel("gemm2048x4096x4096"), CHIP, k).compute_slowdown[0]) for k in (1, 2, 4)]
    assert found == pytest.approx([1.012, 1.463, 1.880], rel=0.06)  # measured, one H200


def test_a_skinny_product_waits_for_a_unit_and_not_for_hbm_in_its_second_wave() -> None:
    assert float(beside_blocks(kernel("gemm16x8192x8192"), CHIP, 4).compute_slowdown[0]) == pytest.approx(
        1.207, rel=0.08
    )


def test_a_collective_on_the_cores_waits_longer_for_an_hbm_that_compute_keeps_busy() -> None:
    held = OccupiedResources(num_units=1)
    busy, idle = (beside(kernel(name), CHIP, held).comm_slowdown[0] for name in ("add32768x8192", "gemm8192"))
    assert busy == pytest.approx(1 + LATENCY_OF_LOAD, rel=0.01)  # nearly all of the HBM's bandwidth
    assert 1 < idle < busy


def test_beside_blocks_hbm_goes_to_whoever_has_more_in_flight() -> None:
    rate = block_bytes_per_s(96)
    held = OccupiedResources(num_units=96, sram_bytes_per_s=rate, hbm_bytes_per_s=rate)
    found = beside(kernel("copy8192x8192"), CHIP, held)
    assert found.compute_slowdown[0] == pytest.approx(1.389, rel=0.1)  # measured, one H200
    assert found.comm_slowdown[0] > found.compute_slowdown[0]


@pytest.mark.parametrize("num_left", [130, 128, 124, 112, 66, 64, 32])
def test_late_pieces_run_once_and_waves_hold_all_of_them(num_left: int) -> None:
    pieces = np.arange(1.0, 3000.0)
    waves = num_waves(pieces, num_left, 132)
    assert (waves * num_left >= pieces).all()
    assert (waves <= np.ceil(pieces / num_left) + 2).all()


@pytest.mark.parametrize("num_units", [129, 132, 133])
def test_products_with_no_units_left_are_refused(num_units: int) -> None:
    with pytest.raises(InvalidInput, match="leaves no cluster"):
        beside(kernel("gemm1024"), CHIP, OccupiedResources(num_units=num_units))


def test_negative_traffic_is_refused() -> None:
    with pytest.raises(InvalidInput, match="hbm_bytes_per_s"):
        OccupiedResources(hbm_bytes_per_s=-1.0)


def test_a_launch_bound_kernel_is_not_slowed_where_the_host_is_slower() -> None:
    assert slowdown("gemm1024", 16, QUEUE_S) == 1.0


def of_kind(name: str) -> Ops:
    return replace(KERNELS["gelu8192x8192"], kind=np.array([code_of(name)]))


@pytest.mark.parametrize(
    ("name", "threads_frac", "has_shared_memory", "lost"),
    [
        ("gelu", 0.25, False, 0.25),
        ("gelu", 0.5, True, 0.5),
        ("embedding", 0.25, False, LOOKUP_FRAC),
        ("embedding_bag", 0.5, False, 2 * LOOKUP_FRAC),
        ("embedding", 0.75, False, 0.99),  # something is left to lookups whatever is held
        ("cross_entropy", 0.0, False, 0.0),  # two blocks of half a unit's threads fit
        ("cross_entropy", 0.25, False, 0.5),  # one does
        ("cross_entropy", 0.6, False, 0.99),  # none does
        ("layernorm", 0.25, False, 1.0),
        ("rmsnorm", 0.25, True, 0.25),
    ],
)
def test_a_kernel_loses_of_a_held_unit_what_its_blocks_cannot_have(name, threads_frac, has_shared_memory, lost) -> None:
    held = OccupiedResources(num_units=8, threads_frac=threads_frac, has_shared_memory=has_shared_memory)
    assert _lost_frac(of_kind(name), held) == pytest.approx([lost])
    assert _units_left(of_kind(name), CHIP, held) == pytest.approx([132 - 8 * lost])


def test_products_have_the_clusters_left_and_attention_the_units() -> None:
    held = OccupiedResources(num_units=96)
    assert _units_left(KERNELS["attention4x32x2048x128"], CHIP, held) == pytest.approx([36])
    assert _units_left(KERNELS["gemm4096"], CHIP, held) == pytest.approx([2 * 16])


def shared(full: float, held: OccupiedResources, *wanted_frac: float) -> tuple[list[float], list[float]]:
    """What rows that run for two seconds and want so much of HBM are left of it, and what communication takes."""
    moved = 2 * full * np.array(wanted_frac)[:, None]
    alone = cast("OpCosts", SimpleNamespace(compute_s=np.full(moved.shape, 2.0), hbm_bytes=moved))
    left, stretch = _shared(alone, full, held, np.full(len(moved), 10.0))
    return (left / full).tolist(), stretch.tolist()


def test_an_engine_that_streams_and_compute_share_hbm_by_what_both_want() -> None:
    left, stretch = shared(100.0, OccupiedResources(hbm_bytes_per_s=50.0), 0.8, 0.2, 1.0, 2.0)
    assert left == pytest.approx([0.8 / 1.3, 0.5, 1 / 1.5, 1 / 1.5])
    assert stretch == pytest.approx([1.3, 1.0, 1.5, 1.5])


def test_blocks_on_cores_and_compute_share_hbm_by_what_both_have_in_flight() -> None:
    """Ten units have 1.1 times a block's bytes in flight each, the collective those of two blocks: 11 to 2."""
    held = OccupiedResources(num_units=4, hbm_bytes_per_s=2 * BLOCK_BYTES_PER_S)
    left, stretch = shared(2.5 * BLOCK_BYTES_PER_S, held, 1.0, 0.1)
    assert left == pytest.approx([11 / 13, 0.2])
    assert stretch == pytest.approx([0.8 / (2 / 13) * (1 + LATENCY_OF_LOAD), 1 + 0.1 * LATENCY_OF_LOAD])


@pytest.mark.parametrize(("held_frac", "left_frac"), [(0.0, 1.0), (0.25, 0.8), (1.0, 0.5), (3.0, 0.25)])
def test_sram_is_shared_by_what_is_asked_of_it(held_frac: float, left_frac: float) -> None:
    whole = CHIP.sram.bandwidth_bytes_per_s
    held = OccupiedResources(sram_bytes_per_s=held_frac * whole)
    assert _sram_left_bytes_per_s(CHIP, held) == pytest.approx(left_frac * whole)


@pytest.mark.parametrize("num_blocks", [1, 16, 96])
def test_blocks_move_what_their_round_trips_bring_up_to_where_they_saturate(num_blocks: int) -> None:
    s_per_byte = 1 / (num_blocks * BLOCK_BYTES_PER_S) + 1 / SHARED_BYTES_PER_S
    assert block_bytes_per_s(num_blocks) == pytest.approx(1 / s_per_byte)


@pytest.mark.parametrize(("field", "value"), [("threads_frac", 1.0), ("threads_frac", -0.1), ("num_units", -1)])
def test_what_cannot_be_held_is_refused(field: str, value: float) -> None:
    with pytest.raises(InvalidInput, match=field):
        OccupiedResources(**{field: value})  # type: ignore[arg-type]
