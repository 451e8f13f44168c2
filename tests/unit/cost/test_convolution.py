from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from dovetail.cost.costs import op_costs
from dovetail.cost.families.convolution import EXTRA_LAUNCHES, PIECE_CLOCKS, SECTOR_BYTES_OF_CLOCK, TURN_LAUNCHES
from dovetail.cost.op_cost import OpCosts, Setting
from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import Tiling
from dovetail.units import MICRO
from dovetail.workload.graph import Phase
from tests.unit.cost.paper import CLOCK_HZ, RATE, close, costs, op, ops_of, paper, time_s

GROUP_S = 2 * 8 * 8 * 4 / (RATE / 4)  # four steps of one tile
PHASES = (Phase.FORWARD, Phase.INPUT_GRAD, Phase.WEIGHT_GRAD)


def convolution(pixels: int, outputs: int, channels: int, window: int = 9, **more):
    """As a product of output pixels by output channels over window and input channels, or one of its gradients."""
    m, n, k = pixels, outputs, window * channels
    phase = more.get("phase", Phase.FORWARD)
    if phase == Phase.INPUT_GRAD:
        n, k = k, n
    elif phase == Phase.WEIGHT_GRAD:
        m, k = k, m
    return op("convolution", b=more.pop("groups", 1), m=m, n=n, k=k, v=window, **more)


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("name", ["h200-sxm", "tpu-v5e", "tpuv4-like"])
def test_a_window_of_one_pixel_is_a_plain_product(name, phase):
    chip = chips[name]()
    as_image = costs(convolution(5000, 256, 128, window=1, phase=phase), chip, Setting.ALONE)
    m, n, k = {
        Phase.FORWARD: (5000, 256, 128), Phase.INPUT_GRAD: (5000, 128, 256), Phase.WEIGHT_GRAD: (128, 256, 5000)
    }[phase]  # fmt: skip
    as_product = costs(op("linear", m=m, n=n, k=k, phase=phase), chip, Setting.ALONE)
    for field in fields(OpCosts):
        assert getattr(as_image, field.name)[0] == getattr(as_product, field.name)[0], field.name


@pytest.mark.parametrize("phase", PHASES)
def test_arrays_that_hold_an_operand_take_the_product_that_a_convolution_unrolls_to(phase):
    chip = chips["tpuv4-like"]()
    row = convolution(5000, 256, 128, phase=phase, stride=2)
    extents = [extent for extent, _ in row.extents]
    assert time_s(row, chip) == time_s(op("linear", m=extents[1], n=extents[2], k=extents[3], phase=phase), chip)


def test_forward_streams_the_window_past_tiles_of_pixels_by_channels():
    assert time_s(convolution(8, 8, 64), paper()) == close(9 * 64 / 4 * GROUP_S)
    assert time_s(convolution(40, 8, 64), paper()) == close(2 * 9 * 64 / 4 * GROUP_S)  # five tiles, two waves
    assert time_s(convolution(8, 40, 64), paper(fill_s=MICRO)) == close(2 * (9 * 64 / 4 * GROUP_S + MICRO))


def test_an_input_gradient_streams_output_channels_and_fills_every_class_of_pixels():
    row = convolution(8, 64, 8, phase=Phase.INPUT_GRAD)
    assert time_s(row, paper(fill_s=MICRO)) == close(9 * 64 / 4 * GROUP_S + MICRO)
    strided = convolution(8, 64, 8, phase=Phase.INPUT_GRAD, stride=2)
    assert time_s(strided, paper(fill_s=MICRO)) == close(9 * 64 / 4 * GROUP_S + 4 * MICRO)
    forward = convolution(8, 8, 64, stride=2)
    assert time_s(forward, paper(fill_s=MICRO)) == close(9 * 64 / 4 * GROUP_S + MICRO)


def test_a_weight_gradient_streams_pixels_past_tiles_of_the_window():
    row = convolution(64, 8, 64, phase=Phase.WEIGHT_GRAD)
    assert time_s(row, paper()) == close(72 / 4 * 64 / 4 * GROUP_S)  # 72 tiles: too many to split


def test_a_weight_gradient_of_few_tiles_is_split_over_its_pixels_in_turns():
    row = convolution(64, 8, 64, window=1, stride=2, phase=Phase.WEIGHT_GRAD)  # eight tiles for sixteen units
    chip = paper(num_units=16)
    assert time_s(row, chip) == close(8 * 4 * GROUP_S)  # in two, eight of sixteen groups each; a unit is a quarter
    launch_s = GROUP_S
    launched = paper(num_units=16, launch_s=launch_s)
    kernels_s = (1 + EXTRA_LAUNCHES + 2) * launch_s  # the sum is cleared and cast
    assert time_s(row, launched) == close(8 * 4 * GROUP_S + TURN_LAUNCHES * 2 * launch_s + kernels_s)
    dear = paper(num_units=16, launch_s=1000 * GROUP_S)
    assert time_s(row, dear) == close(16 * 4 * GROUP_S + (1 + EXTRA_LAUNCHES) * 1000 * GROUP_S)


def test_a_weight_gradient_is_not_split_into_more_than_four_waves():
    row = convolution(64, 8, 72, window=1, stride=2, phase=Phase.WEIGHT_GRAD)  # nine tiles for four units
    assert time_s(row, paper()) == close(3 * 16 * GROUP_S)  # in two they would be five waves of eight groups


def test_gathering_a_window_may_take_longer_than_multiplying_it():
    fast = paper(rates=(("bf16", 1000 * RATE),))
    clocks = 8 * 4 * 2 / SECTOR_BYTES_OF_CLOCK
    assert time_s(convolution(8, 8, 64), fast) == close(9 * 64 / 4 * clocks / CLOCK_HZ)
    few = 8 * PIECE_CLOCKS * 4 / 8  # eight channels: pieces of their own
    assert time_s(convolution(8, 8, 8), fast) == close(9 * 8 / 4 * few / CLOCK_HZ)
    back = convolution(8, 64, 8, phase=Phase.INPUT_GRAD)
    assert time_s(back, fast) == close(9 * 64 / 4 * clocks / CLOCK_HZ)
    weights = convolution(64, 8, 8, phase=Phase.WEIGHT_GRAD)
    assert time_s(weights, paper(num_units=1, rates=fast.tensor.rates)) == close(
        9 * 64 / 4 * 8 * PIECE_CLOCKS * 4 / CLOCK_HZ
    )


def test_half_of_the_output_shows_after_the_main_loop():
    unit_s = 9 * 64 / 4 * GROUP_S
    in_bytes, out_bytes = 2 * (8 * 9 * 64 + 9 * 64 * 8), 2 * 8 * 8
    bandwidth = (in_bytes + out_bytes / 2) / (0.75 * unit_s)
    found = costs(convolution(8, 8, 64), paper(hbm_bytes_per_s=bandwidth))
    assert found.compute_s[0] == close(1.25 * unit_s + out_bytes / 2 / bandwidth)  # 3, 4, 5
    assert found.hbm_bytes[0] == in_bytes + out_bytes


def test_channels_are_padded_to_eight_by_kernels_of_their_own():
    whole, odd = (convolution(8, 8, channels, stride=2) for channels in (8, 3))
    assert time_s(odd, paper(tile_step_s=MICRO)) == close(time_s(whole, paper(tile_step_s=MICRO)))
    padded_bytes = (2 * 8 + 3) * 8 * 2**2 * 2  # read, padded, and read again; four input pixels an output
    plain_bytes = 2 * (8 * 27 + 27 * 8 + 8 * 8)
    assert costs(odd, paper()).hbm_bytes[0] == plain_bytes + padded_bytes
    cut_off = convolution(8, 8, 3, stride=2, phase=Phase.INPUT_GRAD)
    assert costs(cut_off, paper()).hbm_bytes[0] == plain_bytes + (8 + 3) * 8 * 2**2 * 2
    launched_s = [time_s(row, paper(launch_s=1.0)) for row in (whole, odd)]
    assert launched_s == pytest.approx([1 + EXTRA_LAUNCHES, 3 + EXTRA_LAUNCHES], abs=1e-6)


@pytest.mark.parametrize("phase", PHASES)
def test_a_channel_a_group_is_work_for_the_lanes(phase):
    row = convolution(512, 1, 1, groups=32, phase=phase)
    found = costs(row, paper(vector_flop_per_s=1000.0))
    assert found.flop[0] == 2 * 32 * 512 * 9
    assert found.compute_s[0] == close(2 * 32 * 512 * 9 / 1000)
    wide = convolution(512, 8, 8, groups=32)
    assert time_s(wide, paper(vector_flop_per_s=1000.0)) < 1


def test_groups_are_so_many_more_tiles():
    assert time_s(convolution(8, 8, 64, groups=5), paper()) == close(2 * 9 * 64 / 4 * GROUP_S)


def test_the_best_tile_is_taken():
    both = paper(tiling=Tiling(tiles=((32, 8), (8, 8)), num_steps=4))
    assert time_s(convolution(32, 8, 64), both) == close(9 * 64 / 4 * GROUP_S)


def test_phases_of_one_image_stand_where_they_stood():
    chip = chips["h200-sxm"]()
    rows = [convolution(3136, 64, 64, phase=phase, stride=stride) for stride in (1, 2) for phase in PHASES]
    rows += [convolution(3136, 64, 64, window=1, phase=phase) for phase in PHASES]
    assert np.array_equal(op_costs(ops_of(*rows), chip).compute_s, [time_s(row, chip) for row in rows])
