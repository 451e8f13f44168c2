from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dovetail.cost.columns import chip_columns
from dovetail.cost.families.rows import _operand_bytes
from dovetail.cost.op_cost import Setting
from dovetail.cost.products import Products, partial_sums_s
from dovetail.errors import NotModelled
from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import EnergyCosts, Tiling
from dovetail.units import MICRO, PICO
from dovetail.workload.graph import Phase
from dovetail.workload.operators import dtype_code
from tests.unit.cost.paper import NO_ENERGY, RATE, UNIT_RATE, close, costs, limit, op, paper, time_s

TILE_S = 2 * 8 * 8 * 16 / UNIT_RATE  # one tile over 16 steps, too few to be split
TILE_BYTES = 2 * (8 * 16 + 16 * 8 + 8 * 8)


def product(m: int, n: int, k: int, b: int = 1, **more):
    return op("linear" if b == 1 else "matmul", b=b, m=m, n=n, k=k, **more)


def test_one_tile_takes_its_flop_at_the_rate_of_one_unit():
    assert time_s(product(8, 8, 16), paper()) == close(TILE_S)


def test_the_rate_is_what_the_main_loop_sustains():
    assert time_s(product(8, 8, 16), paper(tensor_frac=0.5)) == close(2 * TILE_S)


@pytest.mark.parametrize("shape", [(1, 8, 16), (8, 1, 16), (8, 8, 13), (3, 5, 14)])
def test_a_product_smaller_than_its_tile_takes_the_whole_tile(shape):
    assert time_s(product(*shape), paper()) == close(TILE_S)


def test_as_many_tiles_as_units_take_one_wave_and_one_more_takes_a_second():
    assert time_s(product(32, 8, 16), paper()) == close(TILE_S)
    assert time_s(product(40, 8, 16), paper()) == close(2 * TILE_S)
    assert time_s(product(8, 40, 16), paper()) == close(2 * TILE_S)


def test_a_batch_is_so_many_more_tiles():
    assert time_s(product(16, 8, 16, b=2), paper()) == close(TILE_S)
    assert time_s(product(16, 8, 16, b=3), paper()) == close(2 * TILE_S)


def test_every_wave_is_filled_anew():
    assert time_s(product(40, 8, 16), paper(fill_s=MICRO)) == close(2 * (TILE_S + MICRO))


def test_a_group_of_steps_takes_its_least_time():
    assert time_s(product(8, 8, 16), paper(tile_step_s=MICRO)) == close(4 * MICRO)
    assert time_s(product(8, 8, 16), paper(tile_step_s=TILE_S / 8)) == close(TILE_S)


def test_the_best_of_several_tiles_is_taken():
    both = paper(tiling=Tiling(tiles=((32, 8), (8, 8)), num_steps=4))
    assert time_s(product(32, 8, 16), both) == close(TILE_S)  # four small tiles on four units
    waiting = paper(tiling=Tiling(tiles=((32, 8), (8, 8)), num_steps=4), tile_step_s=MICRO)
    assert time_s(product(160, 8, 16), waiting) == close(2 * 4 * MICRO)  # five large in two waves, not twenty in five


def test_units_share_the_bandwidth_of_the_shared_sram():
    slow: dict[str, Any] = {"sram_bytes_per_s": 1000.0}
    group_bytes = (8 + 8) * 2 * 4  # rows and columns of a tile, bf16, four steps
    assert time_s(product(8, 8, 16), paper(**slow)) == close(4 * group_bytes / 1000)
    assert time_s(product(24, 8, 16), paper(**slow)) == close(3 * 4 * group_bytes / 1000)
    assert time_s(product(40, 8, 16), paper(**slow)) == close(5 * 4 * group_bytes / 1000)  # four at once, then one
    assert time_s(product(24, 8, 16), paper(**slow, sram_reuse=3.0)) == close(4 * group_bytes / 1000)


def test_a_contraction_is_split_when_four_groups_are_left_to_each_part():
    assert time_s(product(8, 8, 24), paper()) == close(6 / 4 * TILE_S)  # six groups: three each are too few
    assert time_s(product(8, 8, 28), paper()) == close(TILE_S)  # seven: four and three
    assert time_s(product(8, 8, 32), paper()) == close(TILE_S)  # eight: four each
    assert time_s(product(8, 8, 64), paper()) == close(TILE_S)  # in four parts, on four units
    assert time_s(product(8, 8, 128), paper()) == close(2 * TILE_S)


def test_a_contraction_is_split_only_when_it_pays():
    assert time_s(product(8, 8, 64), paper(split_s=TILE_S)) == close(2 * TILE_S)  # one quarter and the sum
    assert time_s(product(8, 8, 64), paper(split_s=10 * TILE_S)) == close(4 * TILE_S)  # whole
    assert time_s(product(40, 8, 32), paper(split_s=TILE_S)) == close(4 * TILE_S)  # 5 in 2 waves, or 10 in 3 and a sum


def test_parts_of_a_contraction_meet_in_the_shared_sram():
    chip = paper(sram_bytes_per_s=1e13)  # style: a bandwidth at which operands are no limit
    there_and_back_s = 2 * 4 * 8 * 8 / 1e13  # style: fp32 sums, written and read, at that bandwidth
    assert time_s(product(8, 8, 64), chip) == close(TILE_S + 4 * there_and_back_s)


# What a product moves beside what it multiplies.


def test_units_and_hbm_side_by_side_take_the_root_of_the_sum_of_their_squares():
    chip = paper(hbm_bytes_per_s=TILE_BYTES / (0.75 * TILE_S))
    found = costs(product(8, 8, 16), chip)
    assert found.compute_s[0] == close(1.25 * TILE_S)  # 3, 4, 5
    assert found.clocked_s[0] == close(TILE_S / 1.25)
    assert found.hbm_bytes[0] == TILE_BYTES
    assert found.flop[0] == 2 * 8 * 8 * 16


def test_only_a_share_of_hbm_bandwidth_is_reached():
    chip = paper(hbm_bytes_per_s=TILE_BYTES / TILE_S, hbm_frac=0.75)
    assert time_s(product(8, 8, 16), chip) == close(5 / 3 * TILE_S)


def test_staged_operands_are_loaded_before_the_first_product():
    bandwidth = (TILE_BYTES - 256) / (0.75 * TILE_S)
    tiling = Tiling(tiles=((8, 8),), num_steps=4, staging_bytes=256)
    assert time_s(product(8, 8, 16), paper(tiling=tiling, hbm_bytes_per_s=bandwidth)) == close(
        1.25 * TILE_S + 256 / bandwidth
    )
    endless = replace(tiling, staging_bytes=10**9)
    all_inputs_s = 2 * (8 * 16 + 16 * 8) / 1000
    found_s = time_s(product(8, 8, 16), paper(tiling=endless, hbm_bytes_per_s=1000.0))
    assert found_s == close(all_inputs_s + 2 * 64 / 1000)  # no more is staged than there is


def test_results_that_the_cores_write_themselves_are_not_hidden():
    bandwidth = (TILE_BYTES - 128) / (0.75 * TILE_S)
    tiling = Tiling(tiles=((8, 8),), num_steps=4, is_output_hidden=False)
    found_s = time_s(product(8, 8, 16), paper(tiling=tiling, hbm_bytes_per_s=bandwidth))
    assert found_s == close(1.25 * TILE_S + 128 / bandwidth)


def test_operands_that_the_chip_cannot_hold_are_read_again():
    small = paper(sram_bytes=2 * 16 * 16)  # a block of 16 by 16 results
    # each of 16 blocks reads 16 rows and 16 columns of 16; the results are written once
    assert costs(product(64, 64, 16), small).hbm_bytes[0] == 2 * (16 * 2 * 16 * 16 + 64 * 64)
    least_bytes = 2 * (64 * 16 + 16 * 16 + 64 * 16)
    assert costs(product(64, 16, 16), small).hbm_bytes[0] == least_bytes  # one block is as wide as the result
    assert costs(product(64, 64, 16, b=3), small).hbm_bytes[0] == 3 * costs(product(64, 64, 16), small).hbm_bytes[0]


def test_eight_bit_results_are_scaled_after_the_main_loop():
    row = product(8, 8, 16, dtype="fp8", side_bytes_per_element=1.0)  # written in bf16
    loop_s = TILE_S / 2
    moved_bytes = 8 * 16 + 16 * 8 + 2 * 64
    chip = paper(hbm_bytes_per_s=moved_bytes / (0.75 * loop_s))
    assert time_s(row, chip) == close(1.25 * loop_s + 2.5 * 128 / chip.hbm.bandwidth_bytes_per_s)


def test_eight_bit_results_are_written_and_scaled_once():
    tiling = Tiling(tiles=((8, 8),), num_steps=4, is_output_hidden=False)
    chip = paper(tiling=tiling, hbm_bytes_per_s=1000.0)
    row = product(8, 8, 16, dtype="fp8", side_bytes_per_element=1.0)
    assert time_s(row, chip) == close(256 / 1000 + 2.5 * 128 / 1000)  # the writing is among the passes


def recurrence(phase: Phase = Phase.FORWARD, k: int = 16):
    return op("recurrent_linear", b=5, m=8, n=8, k=k, phase=phase, distinct_frac=(1.0, 0.2, 1.0))


def test_steps_of_a_recurrence_wait_for_each_other_and_are_launched_one_by_one():
    assert time_s(recurrence(), paper(launch_s=MICRO)) == close(5 * (TILE_S + MICRO))
    assert time_s(recurrence(Phase.INPUT_GRAD), paper(launch_s=MICRO)) == close(5 * (TILE_S + MICRO))


def test_the_weight_gradient_of_a_recurrence_is_one_product_over_all_steps():
    found_s = time_s(recurrence(Phase.WEIGHT_GRAD), paper(launch_s=MICRO))
    assert found_s == close(5 * 16 / 4 / 4 * TILE_S / 4 + MICRO)  # 20 groups, five to each of four units


def test_weights_that_do_not_stay_on_chip_are_read_at_every_step():
    once_bytes = 2 * (5 * 8 * 16 + 8 * 16 + 5 * 8 * 8)
    assert costs(recurrence(), paper(sram_bytes=100, core_buffer_bytes=39)).hbm_bytes[0] == once_bytes  # 256 bytes
    again_bytes = 4 * 2 * 8 * 16
    assert costs(recurrence(), paper(sram_bytes=100, core_buffer_bytes=38)).hbm_bytes[0] == once_bytes + again_bytes


def test_eager_experts_are_launched_one_by_one_and_fused_ones_at_once():
    eager, fused = (op("expert_linear", b=4, m=8, n=8, k=16, is_fused=is_fused) for is_fused in (False, True))
    assert time_s(eager, paper(launch_s=MICRO)) == close(TILE_S + 4 * MICRO)
    assert time_s(fused, paper(launch_s=MICRO)) == close(TILE_S + MICRO)


def test_a_chip_without_a_rate_names_the_dtypes_it_has():
    with pytest.raises(NotModelled, match="no rate for bf16; it has fp32, fp16"):
        costs(product(8, 8, 8), chips["v100-32gb-sxm"]())
    with pytest.raises(NotModelled, match="no rate for fp16; it has bf16, fp8"):
        costs(product(8, 8, 8, math="fp16"), paper())


def test_energy_is_flop_and_bytes_from_both_memories():
    energy = replace(NO_ENERGY, tensor_j_per_flop=3 * PICO, sram_j_per_byte=5 * PICO, hbm_j_per_byte=7 * PICO)
    found = costs(product(8, 8, 16), paper(energy=energy, sram_reuse=2.0))
    core_j = 3 * PICO * 2 * 8 * 8 * 16 + 5 * PICO * ((8 + 8) * 2 * 16 / 2 + TILE_BYTES)
    assert found.core_j[0] == close(core_j)
    assert found.energy_j[0] == close(core_j + 7 * PICO * TILE_BYTES)


def test_a_dtype_of_twice_the_rate_takes_about_half_the_energy_of_a_flop():
    energy = EnergyCosts(
        tensor_j_per_flop=PICO, vector_j_per_flop=0, sram_j_per_byte=0, hbm_j_per_byte=0, link_j_per_byte=0, idle_w=0
    )
    wide = costs(product(8, 8, 16), paper(energy=energy)).energy_j[0]
    narrow = costs(product(8, 8, 16, math="fp8"), paper(energy=energy)).energy_j[0]
    assert narrow == close(wide * 2**-0.96)
    only = paper(energy=energy, rates=(("fp16", RATE), ("int8", 2 * RATE)))  # no bf16: the highest rate is what it is
    assert costs(product(8, 8, 16, math="int8"), only).energy_j[0] == close(wide)


def test_what_a_product_waits_for_is_said():
    assert limit(product(32, 8, 16), paper()) == "tensor"
    assert limit(product(16, 8, 16), paper()) == "tensor"  # two of four units idle
    assert limit(product(8, 8, 16), paper()) == "tensor"  # three idle
    assert limit(product(32, 8, 16), paper(fill_s=MICRO)) == "latency"
    assert limit(product(8, 8, 16), paper(hbm_bytes_per_s=1000.0)) == "hbm"
    assert limit(product(8, 8, 16), paper(launch_s=1.0)) == "launch"


def test_batched_products_whose_rows_are_no_whole_vectors_are_slow_and_others_are_not():
    chip = chips["a100-80gb-sxm"]()

    def seconds(kind: str, width: int) -> float:
        return time_s(op(kind, b=64, m=2048, n=2048, k=width, dtype="fp16"), chip, Setting.KERNEL)

    whole, odd = seconds("matmul", 128), seconds("matmul", 124)  # 248 bytes are no multiple of 16
    assert odd > 3 * whole
    assert seconds("matmul", 136) < 1.5 * whole
    assert seconds("expert_linear", 124) < 1.2 * seconds("expert_linear", 128)


def test_misaligned_rows_slow_the_main_loop_down_and_not_the_start_of_a_tile():
    chip = chips["h200-sxm"]()
    small = op("matmul", b=24576, m=49, n=49, k=32)
    bytes_s = 2 * 24576 * (2 * 49 * 32 + 49 * 49) / (chip.hbm.bandwidth_bytes_per_s * chip.calibration.hbm_frac)
    assert bytes_s < time_s(small, chip, Setting.STREAM) < 6 * bytes_s  # 63 us; once 1,542


def test_narrow_products_read_what_was_cast_for_them():
    chip = chips["h200-sxm"]()
    bytes_of = {m: costs(op("linear", m=64, n=8192, k=8192, math=m), chip).hbm_bytes[0] for m in ("bf16", "fp8")}
    operands, output = 2 * (64 * 8192 + 8192 * 8192), 2 * 64 * 8192
    assert bytes_of["bf16"] == pytest.approx(operands + output)
    assert bytes_of["fp8"] == pytest.approx(operands / 2 + output)


def test_only_what_is_multiplied_in_eight_bits_is_read_as_cast_before():
    """A unit that multiplies fp32 tensors in bf16 rounds them on their way in: they are read whole."""
    stored = np.array([dtype_code(name) for name in ("fp32", "bf16", "bf16")])
    math = np.array([dtype_code(name) for name in ("bf16", "fp8", "bf16")])
    ops: Any = SimpleNamespace(dtype=stored, math=math)
    assert _operand_bytes(ops).tolist() == [4.0, 1.0, 2.0]


def test_every_product_of_a_batch_has_partial_sums_of_its_own():
    columns = chip_columns((paper(sram_bytes_per_s=1000.0),))

    def sums_s(b: float, m: float, n: float) -> float:
        b_size, m_size, n_size, k_size, one = (np.array([[float(size)]]) for size in (b, m, n, 64.0, 1.0))
        shape = Products(b=b_size, m=m_size, n=n_size, k=k_size, rate_flop_per_s=one, element_bytes=2 * one)
        return float(partial_sums_s(shape, columns).item())

    assert sums_s(1, 8, 8) == close(2 * 4 * 8 * 8 / 1000)  # fp32, there and back
    assert sums_s(3, 8, 8) == close(3 * sums_s(1, 8, 8))
    assert sums_s(3, 16, 40) == close(2 * 5 * sums_s(3, 8, 8))
