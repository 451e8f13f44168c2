from __future__ import annotations

from dataclasses import replace

from dovetail.cost.lane_products import FEED_EXTENT, FILL_CLOCKS, FULL_ISSUE_RATIO
from dovetail.hardware.chip import VectorUnits
from tests.unit.cost.paper import CLOCK_HZ, close, op, paper, time_s

LOOP_FRAC = 0.8
RATE = 4e12  # style: FLOP/s of four cores
FILL_S = FILL_CLOCKS / CLOCK_HZ


def lanes(num_lanes: int = 64, **more):
    chip = paper(rates=(("fp32", RATE), ("tf32", 8 * RATE)), vector_flop_per_s=RATE, lanes_frac=LOOP_FRAC, **more)
    return replace(chip, vector=VectorUnits(num_units=4, num_lanes=num_lanes, peak_flop_per_s=RATE))


def lanes_with(frac: float):
    chip = lanes()
    return replace(chip, calibration=replace(chip.calibration, lanes_frac=frac))


def tile_s(k: int, frac: float = LOOP_FRAC) -> float:
    return 2 * 128 * 128 * k / (frac * RATE / 4) + FILL_S


def test_fp32_runs_on_the_lanes_in_waves_of_tiles_over_the_cores():
    assert time_s(op("matmul", b=4, m=128, n=128, k=64, dtype="fp32"), lanes()) == close(tile_s(64))
    assert time_s(op("matmul", b=5, m=128, n=128, k=64, dtype="fp32"), lanes()) == close(2 * tile_s(64))


def test_batched_products_fill_part_of_the_largest_tile_where_heads_are_narrow():
    whole_s = time_s(op("matmul", b=8, m=128, n=128, k=256, dtype="fp32"), lanes())
    assert time_s(op("matmul", b=8, m=128, n=64, k=256, dtype="fp32"), lanes()) == close(whole_s)
    assert time_s(op("matmul", b=8, m=80, n=128, k=256, dtype="fp32"), lanes()) == close(whole_s)


def test_a_single_product_takes_smaller_tiles_where_they_occupy_more_cores():
    slower = 1 + FEED_EXTENT * (2 / 64 - 2 / 128)
    quarter_s = 2 * 64 * 64 * 256 * slower / (LOOP_FRAC * RATE / 4) + FILL_S / 2
    assert time_s(op("linear", m=128, n=128, k=256, dtype="fp32"), lanes()) == close(quarter_s)


def test_cores_that_issue_to_all_lanes_each_clock_have_no_slot_left_for_loads():
    found_s = time_s(op("matmul", b=4, m=128, n=128, k=64, dtype="fp32"), lanes(num_lanes=128))
    assert found_s == close(tile_s(64, LOOP_FRAC * FULL_ISSUE_RATIO))


def test_tensor_cores_keep_their_own_tiles():
    assert time_s(op("matmul", b=4, m=8, n=8, k=4, dtype="tf32"), lanes()) < tile_s(64) / 100


def test_a_larger_share_of_the_lanes_peak_is_as_much_faster():
    row = op("matmul", b=4, m=128, n=128, k=4096, dtype="fp32")
    slow_s, fast_s = (time_s(row, lanes_with(frac)) - FILL_S for frac in (0.4, 0.8))
    assert slow_s == close(2 * fast_s)
