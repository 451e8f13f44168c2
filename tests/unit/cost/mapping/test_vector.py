from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dovetail.cost.columns import chip_columns
from dovetail.cost.costs import op_costs
from dovetail.cost.mapping.vector import COPY_S, spilled_bytes_per_slot
from dovetail.cost.mapping.vector_slots import (
    BACKWARD,
    FORWARD,
    NEEDED_REGISTER_BYTES,
    SPECIAL_SLOTS,
    SPILLED_BYTES,
    Slots,
    operator_slots,
)
from dovetail.hardware.catalog import chips
from dovetail.hardware.memory import Memory
from dovetail.workload.graph import Phase
from dovetail.workload.operators import code_of
from tests.unit.cost.paper import op, ops_of, time_s

V4 = chips["tpu-v4"]()
FEW_LANES = replace(V4, vector=replace(V4.vector, peak_flop_per_s=1e6))  # so slow that nothing else shows
SLOTS_PER_S = 1e6 * V4.calibration.vector_frac
ELEMENTS = 64 * 128


def slots_of(row, **changed) -> float:
    """Slots of a lane per element, launches apart."""
    chip = replace(FEW_LANES, calibration=replace(V4.calibration, launch_s=0.0, **changed))
    return time_s(row, chip) * SLOTS_PER_S / ELEMENTS


def vmem(capacity_bytes, bytes_per_s=27e12):
    return replace(V4, vector_memory=Memory(capacity_bytes=capacity_bytes, bandwidth_bytes_per_s=bytes_per_s))


def test_a_gelu_takes_its_instructions_and_two_conversions():
    # seven multiplies and adds, tanh, unpack, pack; backward sixteen, two unpacked, one packed
    assert slots_of(op("gelu", m=64, n=128)) == pytest.approx(10)
    assert slots_of(op("gelu", m=64, n=128, phase=Phase.INPUT_GRAD)) == pytest.approx(19)


def test_fp32_needs_no_conversion():
    assert slots_of(op("gelu", m=64, n=128, dtype="fp32")) == pytest.approx(8)
    assert slots_of(op("silu_mul", m=64, n=128, dtype="fp32", is_fused=True)) == pytest.approx(19)


def test_an_operator_that_was_not_counted_takes_a_slot_for_each_flop():
    assert slots_of(op("add", m=64, n=128)) == pytest.approx(1 + 3)
    assert operator_slots("add", is_backward=False) is None


def test_special_functions_bound_operators_that_do_little_else():
    assert Slots(alu=1, num_special=1).per_element == SPECIAL_SLOTS
    assert slots_of(op("tanh", m=64, n=128, dtype="fp32")) == pytest.approx(SPECIAL_SLOTS)


@pytest.mark.parametrize("name", sorted({*FORWARD, *BACKWARD}))
def test_every_counted_operator_is_one_that_there_is(name):
    code_of(name)


def test_energy_is_that_of_the_slots_and_of_what_moves():
    row, columns = op("gelu", m=64, n=128), chip_columns((V4,))
    moved = 2 * 2 * ELEMENTS
    by_hand = 10 * ELEMENTS * V4.energy.vector_j_per_flop + moved * (
        V4.energy.vector_memory_j_per_byte + V4.energy.sram_j_per_byte + V4.energy.hbm_j_per_byte
    )
    assert op_costs(ops_of(row), V4).energy_j[0] == pytest.approx(by_hand)
    assert spilled_bytes_per_slot(columns)[0] == 0.0


def test_too_few_registers_send_operands_through_the_memory_beside_the_lanes():
    def chip(num_bytes):
        die = replace(V4.die, register_bytes=num_bytes * V4.vector.num_lanes)
        return replace(V4, die=die, calibration=replace(V4.calibration, launch_s=0.0))

    half = chip_columns((chip(NEEDED_REGISTER_BYTES / 2), chip(0), chip(2 * NEEDED_REGISTER_BYTES)))
    assert spilled_bytes_per_slot(half) == pytest.approx(np.array([SPILLED_BYTES / 2, SPILLED_BYTES, 0.0]))
    row, elements = op("softmax", m=1 << 14, n=128, dtype="fp32"), 1 << 21
    none_s = (2 * 4 + 6 * SPILLED_BYTES) * elements / 1e9
    slow = [replace(chip(kept), vector_memory=vmem(2.0**25, 1e9).vector_memory) for kept in (0, 32, 64, 128)]
    times_s = [time_s(row, one) for one in slow]
    assert times_s[0] == pytest.approx(none_s)
    assert times_s[0] > times_s[1] > times_s[2] == times_s[3]


def test_a_stream_is_no_faster_than_what_can_be_on_its_way():
    row = op("copy", m=1 << 14, n=128)
    small = replace(vmem(2**16), calibration=replace(V4.calibration, launch_s=0.0))
    assert time_s(row, small) == pytest.approx(2 * 2 * (1 << 21) / (2**15 / COPY_S))


def test_a_row_that_does_not_fit_beside_the_lanes_is_read_again():
    row = op("layernorm", m=16, n=1 << 20)
    tile_bytes = 2 * 8 * 2 * (1 << 20)
    once = float(op_costs(ops_of(row), vmem(float(tile_bytes))).hbm_bytes[0])
    assert once == 2 * 2 * 16 * (1 << 20)
    half = float(op_costs(ops_of(row), vmem(tile_bytes / 2)).hbm_bytes[0])
    assert half == once + 0.5 * 2 * 16 * (1 << 20)
    elementwise = op("gelu", m=16, n=1 << 20)
    assert float(op_costs(ops_of(elementwise), vmem(tile_bytes / 2)).hbm_bytes[0]) == once
