from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dovetail.cost.costs import op_costs
from dovetail.cost.op_cost import Setting
from dovetail.cost.vector import CHUNK_FRAC, COLUMN_OPS_OF_CLOCK
from dovetail.hardware.catalog import chips
from dovetail.units import KIBI, MICRO, PICO
from dovetail.workload.graph import Phase
from tests.unit.cost.paper import CLOCK_HZ, ENDLESS, NO_ENERGY, close, costs, limit, op, ops_of, paper, time_s

BANDWIDTH = 1000.0  # bytes/s, so slow that nothing else shows
H200 = chips["h200-sxm"]()
WAIT_S = 1.0  # so long that no traffic shows beside it


def grad(kind: str, **more):
    return op(kind, phase=Phase.INPUT_GRAD, **more)


def bytes_of(row, **chip) -> float:
    return float(costs(row, paper(**chip)).hbm_bytes[0])


def num_waits(row, **chip) -> float:
    """How often an operator waits for a round trip, where waits are all there is."""
    return time_s(row, paper(wait_s=WAIT_S, **chip))


# Traffic


def test_several_streams_move_their_bytes_at_the_bandwidth_of_memory():
    assert time_s(op("add", m=64, n=128), paper(hbm_bytes_per_s=BANDWIDTH)) == close(3 * 64 * 128 * 2 / BANDWIDTH)
    slower = paper(hbm_bytes_per_s=BANDWIDTH, hbm_frac=0.5, stream_frac=0.1, write_frac=0.1)
    assert time_s(op("add", m=64, n=128), slower) == close(3 * 64 * 128 * 2 / (0.5 * BANDWIDTH))


def test_a_single_input_stream_reaches_less():
    chip = paper(hbm_bytes_per_s=BANDWIDTH, stream_frac=0.8, write_frac=0.4)
    assert time_s(op("relu", m=64, n=128), chip) == close(2 * 64 * 128 * 2 / (0.8 * BANDWIDTH))
    assert time_s(op("copy", m=64, n=128), chip) == close(2 * 64 * 128 * 2 / BANDWIDTH)  # several loads of a thread


def test_a_kernel_that_only_writes_reaches_least():
    chip = paper(hbm_bytes_per_s=BANDWIDTH, stream_frac=0.8, write_frac=0.4)
    assert time_s(op("pairwise_add", m=64, n=128), chip) == close(64 * 128 * 2 / (0.4 * BANDWIDTH))


def test_masks_and_wider_copies_move_beside_the_tensors():
    assert bytes_of(op("dropout", m=64, n=128)) == 64 * 128 * (2 + 2 + 1)
    assert bytes_of(op("cast", m=64, n=128)) == 64 * 128 * (2 + 4)
    assert bytes_of(op("maxpool", m=64, n=128)) == 64 * 128 * (2 + 2 + 8)
    assert bytes_of(op("add", m=64, n=128, dtype="fp32")) == 64 * 128 * 12


def test_an_eager_softmax_multiplies_before_it_sums_and_a_fused_one_does_not():
    assert bytes_of(grad("softmax", m=64, n=128)) == 64 * 128 * 2 * (3 + 3)
    assert bytes_of(grad("softmax", m=64, n=128, is_fused=True)) == 64 * 128 * 2 * 3


def test_an_optimizer_moves_the_bytes_of_its_states_in_chunks():
    row = op("adam", m=10**6, dtype="fp32", side_bytes_per_element=28.0, phase=Phase.UPDATE)
    assert bytes_of(row) == 28 * 10**6
    assert time_s(row, paper(hbm_bytes_per_s=BANDWIDTH)) == close(28 * 10**6 / (CHUNK_FRAC * BANDWIDTH))


def test_a_few_parameters_wait_for_the_steps_of_one_chunk():
    def waits(num_parameters: int) -> float:
        return num_waits(op("sgd", m=num_parameters, dtype="fp32", side_bytes_per_element=12.0, phase=Phase.UPDATE))

    assert waits(1) == close(2)  # there and back
    assert waits(5000) == close(2 * 3)  # steps of 2048
    assert waits(10**6) == waits(65536) == close(2 * 32)  # chunks run side by side


# Lanes


def test_lanes_take_a_slot_an_instruction_and_memory_hides_behind_them():
    chip = paper(vector_flop_per_s=2000.0)  # 1000 slots a second
    assert time_s(op("silu", m=64, n=128), chip) == close(64 * 128 * 32 / 1000)
    assert time_s(op("silu", m=64, n=128), paper(vector_flop_per_s=2000.0, vector_frac=0.5)) == close(
        64 * 128 * 32 / 500
    )
    found = costs(op("silu", m=64, n=128), chip)
    assert limit(op("silu", m=64, n=128), chip) == "vector"
    assert found.clocked_s[0] == found.compute_s[0]


def test_the_longer_of_lanes_and_memory_counts():
    bytes_s = 64 * 128 * 4 / BANDWIDTH
    both = paper(hbm_bytes_per_s=BANDWIDTH, vector_flop_per_s=2 * 64 * 128 * 32 / (0.9 * bytes_s))
    found = costs(op("silu", m=64, n=128), both)
    assert found.compute_s[0] == close(bytes_s)
    assert found.clocked_s[0] == close(0.9 * 0.9 * bytes_s)  # all but hidden: a slower clock soon shows
    assert limit(op("silu", m=64, n=128), both) == "hbm"


@pytest.mark.parametrize("is_fused", [False, True])
@pytest.mark.parametrize("kind", ["layernorm", "softmax", "cross_entropy", "adam", "bias_grad", "embedding_bag"])
def test_no_operator_is_faster_than_its_flop_on_the_lanes(kind, is_fused):
    row = op(kind, m=64, n=128, is_fused=is_fused)
    found = costs(row, paper(vector_flop_per_s=1000.0))
    assert found.flop[0] > 0
    assert found.compute_s[0] == close(found.flop[0] / 1000)


def test_energy_is_slots_or_flop_and_bytes_from_both_memories():
    energy = replace(NO_ENERGY, vector_j_per_flop=PICO, sram_j_per_byte=3 * PICO, hbm_j_per_byte=5 * PICO)
    slotted = costs(op("silu", m=64, n=128), paper(energy=energy))
    assert slotted.core_j[0] == close(64 * 128 * PICO * (32 + 3 * 4))
    assert slotted.energy_j[0] == close(64 * 128 * PICO * (32 + 3 * 4 + 5 * 4))
    counted = costs(op("layernorm", m=64, n=128), paper(energy=energy))
    assert counted.core_j[0] == close(64 * 128 * PICO * (8 + 3 * 4))


# Rows that wait: two cores, each of 2048 threads


def test_rows_of_a_norm_wait_for_their_loads_and_barriers_wave_after_wave():
    # rows of 2048 bytes are one load of 128 threads; 16 rows at a time on each of two cores
    assert num_waits(op("rmsnorm", m=8, n=1024)) == close(1)
    assert num_waits(op("layernorm", m=8, n=1024)) == close(1 + 3)
    assert num_waits(op("layernorm", m=64, n=1024)) == close(2 * (1 + 3))
    assert num_waits(op("layernorm", m=64, n=1025)) == close(2 * (2 + 3))
    assert num_waits(op("layernorm", m=64, n=1024, dtype="fp32")) == close(2 + 3)  # 16 rows on each of four units


def test_blocks_hide_the_waits_of_fp32_rows_behind_their_traffic():
    row = op("layernorm", m=64, n=1024, dtype="fp32")
    traffic_s = 2 * 64 * 1024 * 4 / BANDWIDTH
    assert time_s(row, paper(hbm_bytes_per_s=BANDWIDTH, wait_s=WAIT_S)) == close(traffic_s)


def test_one_stream_of_fp32_keeps_as_many_bytes_in_flight_as_two_of_bf16():
    chip = paper(hbm_bytes_per_s=BANDWIDTH, stream_frac=0.8)
    assert time_s(op("relu", m=64, n=128, dtype="fp32"), chip) == close(2 * 64 * 128 * 4 / BANDWIDTH)


@pytest.mark.parametrize(
    ("kind", "cols", "passes"),
    [
        ("layernorm", 1024, 2),  # 16 rows of 4 KiB are 64 of 160 KiB: all stay
        ("layernorm", 8192, 3),  # 512 KiB: all are read again
        ("softmax", 1024, 2),  # a warp holds a row
        ("softmax", 4096, 2),  # four rows of 16 KiB stay
        ("softmax", 16384, 4),  # four of 64 KiB do not: maximum, sum and result read each
    ],
)
def test_fp32_rows_that_outgrow_a_core_are_read_again_from_memory(kind, cols, passes):
    found = bytes_of(op(kind, m=64, n=cols, dtype="fp32"), core_buffer_bytes=192.0 * KIBI)
    assert found == close(passes * 64 * cols * 4)


def test_the_rest_of_an_fp32_softmax_is_loaded_element_by_element():
    # 4096: two loads of 512 threads a sweep; 3072: one, and two of single elements
    assert num_waits(op("softmax", m=1, n=4096, dtype="fp32")) == close(3 * 2 + 5)
    assert num_waits(op("softmax", m=1, n=3072, dtype="fp32")) == close(3 * 3 + 5)


def test_rows_that_outgrow_a_core_are_swept_again():
    # 16 rows of 2048 bytes are 32 KiB; three quarters of a core's buffer may be filled
    assert num_waits(op("layernorm", m=8, n=1024), core_buffer_bytes=43691.0) == close(1 + 3)
    assert num_waits(op("layernorm", m=8, n=1024), core_buffer_bytes=43690.0) == close(2 + 3)


def test_the_backward_pass_of_a_norm_sweeps_two_tensors_and_sums_down_the_columns():
    assert num_waits(grad("rmsnorm", m=8, n=1024)) == pytest.approx(2)
    rows = 10**9
    chip = paper(wait_s=1e-30, vector_flop_per_s=ENDLESS)  # style: columns are summed by waiting, if ever so short
    operations = 1 * rows * 32 * (2 + 1 + 2)  # 64 columns: one block of 32 on each of two cores
    assert time_s(grad("layernorm", m=rows, n=64), chip) == close(operations / (COLUMN_OPS_OF_CLOCK * CLOCK_HZ))
    operations = 2 * rows * 32 * (2 + 1 + 1)  # a third block waits for a core
    assert time_s(grad("rmsnorm", m=rows, n=65), chip) == close(operations / (COLUMN_OPS_OF_CLOCK * CLOCK_HZ))


def test_where_nothing_waits_columns_are_summed_at_the_pace_of_memory():
    found_s = time_s(grad("rmsnorm", m=64, n=128), paper(hbm_bytes_per_s=BANDWIDTH))
    assert found_s == close(64 * 128 * 2 * (3 + 2) / BANDWIDTH)


@pytest.mark.parametrize(
    ("cols", "expected"),
    [
        (1024, 4 * 1024 / 128),  # a warp a row, 32 on a core: four waves of 256 rows
        (2048, 4 * 2048 / 128),
        (4096, 64 * 4096 / 1024),  # a block a row, two on a core
        (9216, 64 * 9),
        (9217, 64 * (3 + 2)),  # in SRAM: 18434 bytes, 16 KiB a load
        (16384, 64 * (3 + 2)),
    ],
)
def test_a_softmax_row_is_a_warp_then_a_block_then_in_sram(cols, expected):
    assert num_waits(op("softmax", m=256, n=cols)) == close(expected)


def test_long_rows_of_a_loss_are_swept_and_one_block_picks_the_targets():
    # 8192 elements a step of a block, two blocks on each of two cores; the rest one element a thread
    swept = 2 * (2 + 4)  # 20,000 columns are two steps and four of 1024; eight rows in two waves
    assert num_waits(op("cross_entropy", m=8, n=20000)) == close(swept + 16 + 4)
    many = 2**20
    assert num_waits(op("cross_entropy", m=many, n=8192)) == close(many / 4 + many / 1024 + 4)
    assert num_waits(grad("cross_entropy", m=8, n=20000)) == close(16)


def test_rows_of_a_loss_that_the_shared_sram_loses_are_read_again():
    elements = 8 * 20000
    in_flight_bytes = 2 * 2 * 2 * 20000 * 2  # input and output of two rows on each of two cores
    row = op("cross_entropy", m=8, n=20000)
    assert bytes_of(row, sram_bytes=float(in_flight_bytes)) == 2 * 2 * elements
    assert bytes_of(row, sram_bytes=in_flight_bytes / 2) == close(2 * 2 * elements + 2 * 2 * elements / 2)


def test_a_sum_of_all_columns_hands_its_parts_in_at_the_end():
    whole = 16 * 2 * 2048  # elements that fill two cores
    assert num_waits(op("bias_grad", m=whole, n=2)) == close(24)
    assert num_waits(op("bias_grad", m=whole // 4, n=2)) == close(12)


def test_bags_wait_for_every_row_they_sum():
    row = op("embedding_bag", m=100, n=64, v=10)
    assert num_waits(row) == close(200 / 128 * 10)  # 200 warps, 64 on each of two cores
    assert num_waits(op("embedding_bag", m=10, n=64, v=10)) == close(10)
    assert bytes_of(row) == 2 * 100 * 64 * (10 + 1)


def test_a_transpose_touches_a_sector_an_element():
    found_s = time_s(op("transpose", m=64, n=128), paper(sram_bytes_per_s=BANDWIDTH))
    assert found_s == close(64 * 128 * (32 + 2) / BANDWIDTH)
    assert time_s(op("transpose", m=64, n=128, is_fused=True), paper(sram_bytes_per_s=BANDWIDTH)) < found_s / 1000


def test_few_gradients_of_a_table_are_added_one_batch_after_another():
    few = grad("embedding", m=3072, n=64, k=1000)
    assert num_waits(few) == close(2 * 3072 / 32)
    assert bytes_of(few) == 2 * 1000 * 64 + 3072 * 64 * (2 * 2 + 8)  # cleared, then indices and rows in and out


def test_many_gradients_of_a_table_are_sorted_first():
    many = grad("embedding", m=3073, n=64, k=1000)
    assert num_waits(many) == close(30)
    assert time_s(many, paper(sram_bytes_per_s=BANDWIDTH)) == close(2 * 3073 * 64 * (32 + 2 + 4) / BANDWIDTH)
    launched = time_s(many, paper(launch_s=MICRO)) - time_s(many, paper())
    assert launched == close((2 + 31) * MICRO)


def test_a_table_is_cleared_whole_however_few_rows_are_looked_up():
    small, large = (bytes_of(grad("embedding", m=8, n=64, k=rows)) for rows in (1000, 2000))
    assert large - small == 1000 * 64 * 2


# Kernels one after another


def test_kernels_of_an_operator_run_one_after_another():
    chip = paper(hbm_bytes_per_s=BANDWIDTH, vector_flop_per_s=2000.0)
    gate_s, product_s = 64 * 128 * 32 / 1000, 64 * 128 * 3 * 2 / BANDWIDTH
    assert time_s(op("silu_mul", m=64, n=128), chip) == close(gate_s + product_s)
    assert time_s(op("silu_mul", m=64, n=128, is_fused=True), chip) == close(gate_s)  # lanes beside the traffic


@pytest.mark.parametrize(
    ("row", "num_kernels"),
    [
        (op("add", m=8, n=8), 1),
        (op("silu_mul", m=8, n=8), 2),
        (op("silu_mul", m=8, n=8, is_fused=True), 1),
        (op("adam", m=8, phase=Phase.UPDATE), 2),
        (grad("layernorm", m=8, n=8), 2),
        (grad("softmax", m=8, n=8), 2),
        (grad("softmax", m=8, n=8, is_fused=True), 1),
        (grad("cross_entropy", m=8, n=8), 3),
        (grad("cross_entropy", m=8, n=8, is_fused=True), 1),
    ],
)
def test_every_kernel_is_launched(row, num_kernels):
    assert time_s(row, paper(launch_s=1.0)) == pytest.approx(num_kernels, abs=1e-6)


def test_operators_of_many_kernels_keep_their_places():
    rows = [op("silu_mul", m=64, n=128), op("add", m=64, n=128), grad("cross_entropy", m=64, n=4096), op("relu", m=3)]
    together = op_costs(ops_of(*rows), H200, Setting.ALONE)
    for name in ("compute_s", "hbm_bytes", "energy_j", "host_s"):
        alone = [float(getattr(costs(row, H200, Setting.ALONE), name)[0]) for row in rows]
        assert np.array_equal(getattr(together, name), alone), name
