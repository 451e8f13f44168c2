from __future__ import annotations

import numpy as np
import pytest

from dovetail.cost.mapping.memory_level import HELD, level_tiles, tile_counts
from dovetail.cost.mapping.tables import product_shapes
from dovetail.units import KIBI, MEBI


def tiles(m, n, k, capacity_bytes, **more):
    found = level_tiles(product_shapes(*(np.array([float(x)]) for x in (m, n, k)), **more), np.array([capacity_bytes]))
    return found, HELD[found.held[0, 0]]


def test_results_that_fill_the_memory_are_read_from_as_seldom_as_tiles_allow():
    # 1 MiB: 4 B of accumulators, 2 x 2 B x 128 of slabs of each operand: a tile of 391 x 408 leaves nothing larger
    found, held = tiles(8192, 12288, 4096, MEBI)
    assert held == "results"
    num_m, num_n = np.ceil(8192 / found.tile_m[0, 0]), np.ceil(12288 / found.tile_n[0, 0])
    operands = 8192 * 4096 * num_n + 4096 * 12288 * num_m
    assert found.moved_bytes[0, 0] == 2 * (operands + 8192 * 12288)
    assert found.needed_bytes[0, 0] == 4 * 391 * 408 + 512 * (391 + 408)
    assert found.needed_bytes[0, 0] <= MEBI


def test_a_small_operand_stays_whole_and_needs_no_second_buffer():
    found, held = tiles(100_000, 256, 512, 1024 * KIBI)
    assert held == "weights"
    assert found.moved_bytes[0, 0] == 2 * (100_000 * 512 + 512 * 256 + 100_000 * 256)
    assert found.needed_bytes[0, 0] == 2 * 512 * 256 + 2 * 128 * (2 * 512 + 4 * 256)
    _, other = tiles(256, 100_000, 512, 1024 * KIBI)
    assert other == "inputs"


def test_partial_sums_leave_and_come_back_for_each_tile_of_the_contraction():
    found, held = tiles(4, 4, 65536, 4 * KIBI)
    assert held in HELD
    assert found.moved_bytes[0, 0] >= 2 * (2 * 4 * 65536 + 16)


def test_inputs_of_a_convolution_are_stored_once():
    plain, _ = tiles(3136, 64, 576, 64 * MEBI)
    found, _ = tiles(3136, 64, 576, 64 * MEBI, window=9.0, input_reuse=9.0)
    assert plain.moved_bytes[0, 0] - found.moved_bytes[0, 0] == 2 * 3136 * 576 * 8 / 9


def test_counts_are_all_whole_numbers_up_to_sixteen_and_reach_every_extent():
    counts = tile_counts(5000.0)
    assert counts[:17] == pytest.approx([*range(1, 17), 18])
    assert counts[-1] >= 5000
    assert (np.diff(counts) / counts[:-1])[16:] == pytest.approx(0.125, abs=0.06)
