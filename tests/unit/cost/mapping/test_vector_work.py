from __future__ import annotations

import numpy as np
import pytest

from dovetail.cost.mapping.memory_level import PARTIAL_BYTES, SLAB
from dovetail.cost.mapping.tables import product_shapes
from dovetail.cost.mapping.vector_work import (
    ConvertedOperands,
    compiler_tiles,
    conversion_s,
    conversion_slots,
    least_visit_tiles,
    operand_visits,
)
from dovetail.hardware.families.tpu import COMPILER_LOSS, COMPILER_LOSS_UNALIGNED
from dovetail.units import GIGA, KIBI, MEBI, MICRO

CLOCK_HZ = 1.05 * GIGA
LANES = 2048.0
CUBE = product_shapes(np.array([1024.0]), np.array([1024.0]), np.array([1024.0]))
VMEM = np.array([32 * MEBI])
TPU_V4_FP16 = ConvertedOperands(visit_slots=7.95, result_slots=12.07, visits_ratio=1.66, least_tile=128.0)


def test_inputs_are_visited_for_each_column_of_tiles_and_weights_for_each_row():
    shapes = product_shapes(np.array([10.0]), np.array([20.0]), np.array([30.0]), b=2.0)
    assert operand_visits(shapes, np.array([3.0]), np.array([5.0])) == [2 * (10 * 30 * 5 + 30 * 20 * 3)]


def test_a_cube_with_the_tiles_of_its_profile_takes_what_was_measured():
    # the profile: 1 x 8 tiles, 43.84 us
    visits = operand_visits(CUBE, np.array([1.0]), np.array([8.0]))
    found = CUBE.macs / (8 * 128 * 128 * CLOCK_HZ) + TPU_V4_FP16.visit_slots * visits / (LANES * CLOCK_HZ)
    assert found[0] == pytest.approx(43.84 * MICRO, rel=0.06)


def test_what_fits_whole_is_visited_once_and_the_compiler_visits_more_down_to_its_least_tile():
    assert [one[0, 0] for one in least_visit_tiles(CUBE, VMEM)] == [1, 1]
    assert [one[0, 0] for one in compiler_tiles(CUBE, VMEM, TPU_V4_FP16)] == [TPU_V4_FP16.visits_ratio] * 2
    small = product_shapes(np.array([100.0]), np.array([1000.0]), np.array([64.0]))
    assert compiler_tiles(small, VMEM, TPU_V4_FP16)[0][0, 0] == 1


def test_less_memory_means_more_visits():
    large = product_shapes(np.array([8192.0]), np.array([8192.0]), np.array([4096.0]))
    visits = operand_visits(large, *least_visit_tiles(large, np.array([64, 32, 16, 4, 1]) * MEBI))[0].tolist()
    assert visits == sorted(visits)
    assert visits[0] < visits[-1]


def test_conversions_take_half_as_long_on_twice_the_lanes_and_longer_beside_a_smaller_memory():
    shapes = product_shapes(np.array([1024.0, 4096.0]), np.array([1024.0, 4096.0]), np.array([1024.0, 4096.0]))
    slots_per_s = np.array([LANES, 2 * LANES]) * CLOCK_HZ
    found = conversion_s(shapes, 32 * MEBI, slots_per_s, TPU_V4_FP16)
    assert found[:, 0] == pytest.approx(2 * found[:, 1])
    slots = conversion_slots(shapes, compiler_tiles(shapes, VMEM, TPU_V4_FP16), TPU_V4_FP16)[:, 0]
    assert found[:, 0] == pytest.approx(slots / (LANES * CLOCK_HZ))
    assert conversion_s(shapes, 1 * MEBI, slots_per_s, TPU_V4_FP16)[1, 0] > found[1, 0]


def test_the_loss_of_the_compiler_is_an_interval():
    for low, middle, high in (COMPILER_LOSS, COMPILER_LOSS_UNALIGNED):
        assert low < middle < high


def test_tiles_of_fewest_visits_fit_the_memory_with_what_streams_past_them():
    shapes = product_shapes(np.array([4096.0, 777.0]), np.array([1024.0, 5000.0]), np.array([2048.0, 96.0]))
    capacity_bytes = np.array([256.0 * KIBI, 1.0 * MEBI, 8.0 * MEBI])
    num_m, num_n = least_visit_tiles(shapes, capacity_bytes)
    rows, cols = np.ceil(shapes.m[:, None] / num_m), np.ceil(shapes.n[:, None] / num_n)
    slab_bytes = 2 * shapes.operand_bytes * np.minimum(shapes.k, SLAB)  # two, as the next streams in
    held_bytes = PARTIAL_BYTES * rows * cols + slab_bytes[:, None] * (rows + cols)
    assert np.all(held_bytes <= capacity_bytes)
    assert np.all(held_bytes > 0.3 * np.minimum(capacity_bytes, held_bytes.max(axis=1)[:, None]))
