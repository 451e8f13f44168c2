from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dovetail.cost.mapping.tables import product_shapes
from dovetail.cost.mapping.vector_work import (
    COMPILER_LOSS,
    COMPILER_LOSS_UNALIGNED,
    TPU_V4_FP16,
    compiler_tiles,
    converted_product_s,
    least_visit_tiles,
    operand_visits,
)
from dovetail.units import GIGA, MEBI, MICRO

CLOCK_HZ = 1.05 * GIGA
MACS_PER_S = 8 * 128 * 128 * CLOCK_HZ
CUBE = product_shapes(np.array([1024.0]), np.array([1024.0]), np.array([1024.0]))


def test_inputs_are_visited_for_each_column_of_tiles_and_weights_for_each_row():
    shapes = product_shapes(np.array([10.0]), np.array([20.0]), np.array([30.0]), b=2.0)
    assert operand_visits(shapes, np.array([3.0]), np.array([5.0])) == [2 * (10 * 30 * 5 + 30 * 20 * 3)]


def test_a_cube_with_the_tiles_of_its_profile_takes_what_was_measured():
    # the profile: 1 x 8 tiles, 43.84 us
    known = replace(TPU_V4_FP16, launch_s=0.0, result_cycles_per_element=0.0)
    found = converted_product_s(CUBE, (np.array([1.0]), np.array([8.0])), known, MACS_PER_S, CLOCK_HZ)
    assert found[0] == pytest.approx(43.84 * MICRO, rel=0.06)


def test_what_fits_whole_is_visited_once_and_the_compiler_visits_more_down_to_its_least_tile():
    least = least_visit_tiles(CUBE, 32 * MEBI)
    assert [one[0] for one in least] == [1, 1]
    assert [one[0] for one in compiler_tiles(CUBE, 32 * MEBI, TPU_V4_FP16)] == [TPU_V4_FP16.visits_ratio] * 2
    small = product_shapes(np.array([100.0]), np.array([1000.0]), np.array([64.0]))
    assert compiler_tiles(small, 32 * MEBI, TPU_V4_FP16)[0][0] == 1


def test_less_memory_means_more_visits():
    large = product_shapes(np.array([8192.0]), np.array([8192.0]), np.array([4096.0]))
    visits = [float(operand_visits(large, *least_visit_tiles(large, size * MEBI))[0]) for size in (64, 32, 16, 4, 1)]
    assert visits == sorted(visits)
    assert visits[0] < visits[-1]


def test_the_loss_of_the_compiler_is_an_interval():
    for low, middle, high in (COMPILER_LOSS, COMPILER_LOSS_UNALIGNED):
        assert low < middle < high
