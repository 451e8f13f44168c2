"""Operators on chips with arrays: what the costs of a graph say is what the mapper says, worked out by hand here."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dovetail.cost.columns import array_buffer_bytes, chip_columns
from dovetail.cost.mapping.mapper import mapped_table
from dovetail.cost.mapping.on_chips import arrays_of
from dovetail.cost.mapping.tables import Fill, product_shapes
from dovetail.cost.mapping.vector_work import operand_visits
from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import EnergyCosts, TensorUnits, Tiling
from dovetail.hardware.memory import Memory
from dovetail.units import KIBI, MEBI, PICO
from dovetail.workload.operators import dtype_code
from tests.unit.cost.paper import CLOCK_HZ, close, costs, limit, op, paper, time_s

RATE = 2 * 16 * 8 * CLOCK_HZ
ENERGY = EnergyCosts(
    tensor_j_per_flop=0,
    vector_j_per_flop=0,
    sram_j_per_byte=PICO,
    vector_memory_j_per_byte=3 * PICO,
    hbm_j_per_byte=0,
    link_j_per_byte=0,
    idle_w=0,
)


def array(*stationary: str, num_units: int = 1, fill: str = "hidden", **changed):
    """Arrays of 16 x 8 that load what they hold in one clock, so that a pass takes as long as what streams past it."""
    tiling = Tiling(tiles=((16, 8),), stationary=stationary, fill=fill, is_array=True, num_loaded_rows=16)
    given = paper(num_units=num_units, rates=(("bf16", num_units * RATE), ("fp8", 2 * num_units * RATE)), **changed)
    tensor = replace(given.tensor, num_rows=16, num_cols=8, tiling=tiling, buffer_bytes=64 * KIBI)
    return replace(given, tensor=tensor, die=replace(given.die, buffered_units="vector"))


def product(m, n, k, **more):
    return op("linear", m=m, n=n, k=k, **more)


# fill and drain of a 16 x 8 array: it loads 16 rows, and the last result leaves after 16 + 8 - 2 clocks
EDGES = {"output": 16 + 8 - 2, "weight": 2 * 16 + 8 - 2, "input": 2 * 16 + 8 - 2}


@pytest.mark.parametrize(
    ("held", "shape", "clocks"),
    [
        ("weight", (100, 24, 32), 3 * 2 * 100),  # three tiles of columns, two of the contraction, 100 rows each
        ("input", (24, 100, 32), 3 * 2 * 100),
        ("output", (32, 24, 100), 2 * 3 * 100),
    ],
)
def test_one_array_takes_its_passes_and_its_fill_once(held, shape, clocks):
    assert time_s(product(*shape), array(held)) * CLOCK_HZ == close(clocks + EDGES[held])


def test_fill_shows_as_often_as_the_chip_says():
    shapes = product_shapes(np.array([100.0]), np.array([24.0]), np.array([32.0]))
    for word, fill in (("hidden", Fill.ONCE), ("load", Fill.PER_ITEM), ("whole", Fill.PER_PASS)):
        chip = array("weight", fill=word)
        table = mapped_table(shapes, arrays_of(chip_columns((chip,)), np.array([RATE])), fill=fill)
        assert time_s(product(100, 24, 32), chip) == close(float(table.time_s()[0, 0]))
    assert time_s(product(100, 24, 32), array("weight", fill="whole")) * CLOCK_HZ == close(6 * (100 + EDGES["weight"]))


def test_of_several_dataflows_the_quicker_is_taken():
    tall, flows = product(1000, 8, 16), (("weight",), ("input",), ("weight", "input"))
    found = []
    for held in flows:
        chip = array(*held)
        row_by_row = replace(chip.tensor.tiling, num_loaded_rows=1)
        found.append(time_s(tall, replace(chip, tensor=replace(chip.tensor, tiling=row_by_row))))
    assert found[0] < found[1]  # 125 tiles of inputs load for 16 clocks each, and 8 columns stream past
    assert found[2] == found[0]


def test_twice_the_rate_of_a_dtype_is_half_the_time_on_the_arrays():
    bf16_s = time_s(product(1024, 64, 64), array("weight"))
    fp8 = product(1024, 64, 64, math="fp8")
    assert time_s(fp8, array("weight")) == close(bf16_s / 2)


def test_a_buffer_that_holds_less_makes_the_memory_above_it_move_more():
    slow = array("weight", sram_bytes_per_s=2000 * CLOCK_HZ / 100)
    small = replace(slow, tensor=replace(slow.tensor, buffer_bytes=1 * KIBI))
    shape = product(512, 512, 512)
    assert time_s(shape, small) > 1.5 * time_s(shape, slow)


def test_what_the_shared_sram_cannot_hold_is_read_from_hbm_again():
    shape = product(2048, 2048, 2048)
    large, small = (costs(shape, array("weight", sram_bytes=size)).hbm_bytes[0] for size in (64 * MEBI, 1 * MEBI))
    assert large == 3 * 2 * 2048**2
    assert small > 2 * large


def test_hbm_hides_behind_the_arrays_or_they_behind_it():
    shape, moved_bytes = product(100, 24, 32), 2 * (100 * 32 + 32 * 24 + 100 * 24)
    arrays_s = time_s(shape, array("weight"))
    slow = costs(shape, array("weight", hbm_bytes_per_s=moved_bytes / (3 * arrays_s)))
    assert slow.compute_s[0] == close(3 * arrays_s)
    assert slow.clocked_s[0] == close(arrays_s / 3)
    assert limit(shape, array("weight", hbm_bytes_per_s=moved_bytes / (3 * arrays_s))) == "hbm"
    fast = costs(shape, array("weight", hbm_bytes_per_s=2 * moved_bytes / arrays_s))
    assert fast.compute_s[0] == close(arrays_s)


def test_vector_memory_feeds_the_arrays_and_the_shared_sram_feeds_it():
    plain = array("weight", energy=ENERGY, sram_bytes_per_s=1e9)
    nearer = replace(plain, vector_memory=Memory(capacity_bytes=256 * KIBI, bandwidth_bytes_per_s=1e15))
    shape = product(1024, 512, 512)
    assert time_s(shape, nearer) < time_s(shape, plain)  # the arrays wait for the faster of the two
    slower = replace(nearer, sram=replace(nearer.sram, bandwidth_bytes_per_s=1e8))
    assert time_s(shape, slower) > time_s(shape, nearer)
    table = mapped_table(
        product_shapes(np.array([1024.0]), np.array([512.0]), np.array([512.0])),
        arrays_of(chip_columns((nearer,)), np.array([RATE])),
    )
    near, shared, _ = (float(moved[0, 0]) for moved in table.moved_bytes())
    from_hbm = float(costs(shape, nearer).hbm_bytes[0])
    assert costs(shape, nearer).core_j[0] == close(3 * PICO * near + PICO * (shared + from_hbm))
    assert costs(shape, plain).core_j[0] > 0


def test_operands_that_lanes_convert_take_their_slots_at_every_visit_after_the_product():
    chip = array("weight", vector_flop_per_s=2e12, conversion_slots=8.0, conversion_result_slots=12.0)
    fp16 = TensorUnits(
        num_units=1, num_rows=16, num_cols=8, tiling=chip.tensor.tiling, rates=(("fp16", RATE),), converted=("fp16",)
    )
    plain = replace(chip, tensor=replace(fp16, converted=()))
    shape = product(64, 64, 64, dtype="fp16", math="fp16")
    visits = operand_visits(product_shapes(np.array([64.0]), np.array([64.0]), np.array([64.0])), *np.ones((2, 1)))
    slots = 8 * float(visits[0]) + 12 * 64 * 64
    added_s = time_s(shape, replace(chip, tensor=fp16)) - time_s(shape, plain)
    assert added_s == pytest.approx(slots / 1e12, rel=1e-6)


def test_a_tpu_v4_converts_fp16_and_not_bf16():
    chip = chips["tpu-v4"]()
    columns = chip_columns((chip,))
    assert [bool(columns.is_converted[dtype_code(name)][0]) for name in ("fp16", "bf16")] == [True, False]
    rows = [op("linear", m=2048, n=2048, k=2048, dtype=name, math=name) for name in ("fp16", "bf16")]
    fp16_s, bf16_s = (time_s(row, chip) for row in rows)
    assert fp16_s > 1.9 * bf16_s


def test_an_array_keeps_its_accumulators_or_the_core_buffer_that_is_its_own():
    owned, fed = chips["tpuv4-like"](), chips["tpu-v4"]()
    assert array_buffer_bytes(owned) == owned.core_buffer_bytes
    assert array_buffer_bytes(fed) == fed.tensor.buffer_bytes


def test_experts_of_a_grouped_product_compute_the_tiles_that_they_share_twice():
    chip = chips["tpu-v5p"]()
    shape = {"n": 4096, "k": 4096, "is_fused": True}
    apart = time_s(op("expert_linear", b=1, m=16 * 1536, **shape), chip)
    together = time_s(op("expert_linear", b=16, m=1536, **shape), chip)
    assert together / apart == pytest.approx((1536 + 512) / 1536, rel=0.02)
