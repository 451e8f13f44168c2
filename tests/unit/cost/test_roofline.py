from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dovetail.cost.roofline import LIMITS, op_costs
from dovetail.errors import NotModelled
from dovetail.hardware.catalog import chips
from dovetail.workload.builder import BlockBuilder
from dovetail.workload.graph import Axis, Phase
from dovetail.workload.optimizer import Precision
from dovetail.workload.training import training_block

CHIP = chips["h100-sxm"]()
NO_LAUNCH = replace(CHIP, calibration=replace(CHIP.calibration, launch_s=0.0))


def product_ops(m: int, n: int, k: int, dtype: str = "bf16"):
    build = BlockBuilder("one", dtype, (m, Axis.NONE), (k, Axis.NONE))
    build.linear(0, (m, Axis.NONE), (k, Axis.NONE), (n, Axis.NONE), name="product")
    return build.block().ops


def product_s(m: int, n: int, k: int, chip=NO_LAUNCH) -> float:
    return float(op_costs(product_ops(m, n, k), chip).compute_s[1])


def test_a_large_product_runs_at_the_sustained_peak():
    num_tiles = 132 * 128  # whole waves of whole tiles
    peak_flop_per_s = CHIP.peak_flop_per_s("bf16") * CHIP.calibration.tensor_frac
    assert product_s(num_tiles, 8192, 8192) == pytest.approx(2 * num_tiles * 8192 * 8192 / peak_flop_per_s)


def test_a_thin_product_waits_for_memory():
    costs = op_costs(product_ops(8, 8192, 8192), NO_LAUNCH)
    moved_bytes = 2 * (8 * 8192 + 8192 * 8192 + 8 * 8192)
    bandwidth = CHIP.hbm.bandwidth_bytes_per_s * CHIP.calibration.hbm_frac
    assert costs.compute_s[1] == pytest.approx(moved_bytes / bandwidth)
    assert LIMITS[costs.limit[1]] == "hbm"


def test_a_tiny_product_waits_for_its_launch():
    costs = op_costs(product_ops(16, 16, 16), CHIP)
    assert LIMITS[costs.limit[1]] == "launch"
    assert costs.compute_s[1] >= CHIP.calibration.launch_s


def test_one_row_over_whole_tiles_costs_a_row_of_tiles_more():
    assert product_s(11 * 128 + 1, 12 * 128, 65536) > 12 / 11 * product_s(11 * 128, 12 * 128, 65536)


def test_a_contraction_is_padded_to_its_tile():
    assert product_s(132 * 128, 8192, 8193) == pytest.approx(product_s(132 * 128, 8192, 8193 + 63))


def test_one_tile_over_a_full_wave_takes_a_second_wave():
    # contractions too short to be split over the idle units
    assert product_s(12 * 128, 12 * 128, 448) == pytest.approx(2 * product_s(12 * 128, 11 * 128, 448))


def test_a_long_contraction_is_split_over_idle_units():
    few_tiles_s = product_s(256, 256, 1024 * 1024)
    one_unit_s = product_s(128, 128, 1024 * 1024) * 4
    assert few_tiles_s < one_unit_s


def test_vector_work_is_bytes_over_bandwidth():
    build = BlockBuilder("one", "bf16", (4096, Axis.NONE), (4096, Axis.NONE))
    build.vector("add", (0, 0), (4096, Axis.NONE), (4096, Axis.NONE))
    costs = op_costs(build.block().ops, NO_LAUNCH)
    bandwidth = CHIP.hbm.bandwidth_bytes_per_s * CHIP.calibration.hbm_frac
    assert costs.compute_s[1] == pytest.approx(3 * 4096 * 4096 * 2 / bandwidth)


def test_vector_work_pays_its_launch_too():
    build = BlockBuilder("one", "bf16", (4096, Axis.NONE), (4096, Axis.NONE))
    build.vector("add", (0, 0), (4096, Axis.NONE), (4096, Axis.NONE))
    ops = build.block().ops
    extra_s = op_costs(ops, CHIP).compute_s - op_costs(ops, NO_LAUNCH).compute_s
    assert extra_s.tolist() == pytest.approx([0.0, CHIP.calibration.launch_s])


def test_fused_attention_moves_no_scores_and_unfused_does():
    def moved_bytes(fused: bool) -> float:
        build = BlockBuilder("a", "bf16", (4096, Axis.NONE), (384, Axis.NONE))
        heads, seq = (16, Axis.NONE), (4096, Axis.NONE)
        if fused:
            build.attention((0,), heads, seq, seq, 128, 128, kv_frac=1.0, is_causal=False)
        else:
            x = build.matmul((0,), heads, seq, seq, (128, Axis.NONE), name="scores")
            build.matmul((x,), heads, seq, (128, Axis.NONE), seq, name="values")
        return float(op_costs(build.block().ops, CHIP).hbm_bytes.sum())

    assert moved_bytes(fused=True) == 2 * 4 * 16 * 4096 * 128
    assert moved_bytes(fused=False) == 2 * (4 * 16 * 4096 * 128 + 2 * 16 * 4096 * 4096)


def test_causal_attention_does_half_the_work_of_full_attention():
    def flop(is_causal: bool) -> float:
        build = BlockBuilder("a", "bf16", (4096, Axis.NONE), (384, Axis.NONE))
        heads, seq = (16, Axis.NONE), (4096, Axis.NONE)
        build.attention((0,), heads, seq, seq, 128, 128, kv_frac=1.0, is_causal=is_causal)
        return float(build.block().ops.flop.sum())

    assert flop(is_causal=False) == 2 * 2 * 16 * 4096 * 4096 * 128
    assert flop(is_causal=True) == flop(is_causal=False) / 2


def test_the_backward_pass_of_fused_attention_forms_the_scores_again():
    build = BlockBuilder("a", "bf16", (4096, Axis.NONE), (384, Axis.NONE))
    heads, seq = (16, Axis.NONE), (4096, Axis.NONE)
    build.attention((0,), heads, seq, seq, 128, 128, kv_frac=1.0, is_causal=True)
    ops = training_block(build.block(is_layer=False), Precision()).ops
    forward, backward = ops.phase == Phase.FORWARD, ops.phase == Phase.INPUT_GRAD
    assert ops.flop[backward].sum() == pytest.approx(2.5 * ops.flop[forward].sum())
    assert ops.model_flop[backward].sum() == pytest.approx(2.0 * ops.model_flop[forward].sum())


def test_a_recurrence_pays_a_launch_for_every_step():
    build = BlockBuilder("r", "bf16", (64, Axis.NONE), (256, Axis.NONE))
    build.recurrent_linear(0, 50, (64, Axis.NONE), (256, Axis.NONE), (1024, Axis.NONE), name="steps")
    costs = op_costs(build.block().ops, CHIP)
    assert costs.compute_s[1] >= 50 * CHIP.calibration.launch_s


def test_a_dtype_the_chip_lacks_is_not_modelled():
    with pytest.raises(NotModelled, match="no rate for bf16"):
        op_costs(product_ops(128, 128, 128), chips["v100-32gb-sxm"]())


def test_eight_bit_products_take_half_the_time_and_energy_of_sixteen_bit_ones():
    ops = product_ops(132 * 128, 8192, 8192)
    narrow = replace(ops, math=np.full(len(ops), 4))  # fp8
    wide_costs, narrow_costs = op_costs(ops, NO_LAUNCH), op_costs(narrow, NO_LAUNCH)
    assert narrow_costs.compute_s[1] == pytest.approx(wide_costs.compute_s[1] / 2, rel=0.001)
    assert narrow_costs.energy_j[1] < 0.6 * wide_costs.energy_j[1]
