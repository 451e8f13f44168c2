from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dovetail.cost.attention import Attentions
from dovetail.cost.columns import chip_columns
from dovetail.cost.mapping.attention import (
    BACKWARD_SCORE_BYTES,
    FORWARD_SCORE_BYTES,
    array_attention,
    product_width,
)
from dovetail.cost.mapping.vector_slots import (
    ATTENTION_BACKWARD,
    ATTENTION_FORWARD,
    NEEDED_REGISTER_BYTES,
    SPILLED_BYTES,
)
from dovetail.hardware.chip import Tiling
from tests.unit.cost.paper import CLOCK_HZ, paper

VECTOR = 1e12
RATE = 2 * 4 * 256 * 256 * CLOCK_HZ


def shape(keys=128, values=128, seq=1024, heads=8, is_backward=False, work_frac=1.0, rate=RATE):
    def column(value):
        return np.array([[float(value)]])

    return Attentions(
        heads=column(heads),
        queries=column(seq),
        keys=column(seq),
        key_width=column(keys),
        value_width=column(values),
        kv_frac=column(1.0),
        work_frac=column(work_frac),
        is_backward=is_backward,
        rate_flop_per_s=column(rate),
        product_frac=column(1.0),
        pace_frac=column(1.0),
        element_bytes=column(2.0),
    )


def engines(side=256, num_units=4, rows=None, **changed):
    tiling = Tiling(tiles=((side, side),), stationary=("weight",))
    given = paper(num_units=num_units, tiling=tiling, vector_flop_per_s=VECTOR, **changed)
    return chip_columns((replace(given, tensor=replace(given.tensor, num_rows=rows or side, num_cols=side)),))


def test_a_head_half_as_wide_as_an_array_half_fills_it():
    assert product_width(shape(), engines())[0, 0] == 512
    assert product_width(shape(), engines(side=128))[0, 0] == 256


def test_backward_runs_five_products_each_over_its_own_side_of_the_array():
    # scores again (rows, keys), dP (rows, values), dV (columns, values), dQ and dK (columns, keys)
    found = product_width(shape(192, 128, is_backward=True), engines(side=64, rows=128))
    assert found[0, 0] == 256 + 128 + 128 + 2 * 192


@pytest.mark.parametrize("is_backward", [False, True])
def test_products_and_vector_slots_add_up_unless_said_otherwise(is_backward):
    scores, slots = 8 * 1024**2, (ATTENTION_BACKWARD if is_backward else ATTENTION_FORWARD).alu
    apart = 2 * scores * (5 if is_backward else 2) * 256 / RATE, slots * scores / VECTOR
    found = array_attention(shape(is_backward=is_backward), engines())
    assert found.busy_s[0, 0] == pytest.approx(sum(apart))
    assert found.lanes_s[0, 0] == pytest.approx(apart[1])
    assert found.vector_flop[0, 0] == slots * scores
    hidden = array_attention(shape(is_backward=is_backward), engines(overlap_frac=1.0))
    assert hidden.busy_s[0, 0] == pytest.approx(max(apart))


@pytest.mark.parametrize(("is_backward", "own"), [(False, FORWARD_SCORE_BYTES), (True, BACKWARD_SCORE_BYTES)])
def test_scores_pass_the_memory_that_feeds_the_arrays(is_backward, own):
    streamed = 2 * (128 + 128 * is_backward) / 256
    moved = 8 * 1024**2 * (own + streamed)
    found = array_attention(shape(is_backward=is_backward), engines(sram_bytes_per_s=1e6))
    assert found.nearest_bytes[0, 0] == moved
    assert found.busy_s[0, 0] == pytest.approx(moved / 1e6)


def test_arrays_that_no_block_of_scores_is_left_for_are_idle():
    one = array_attention(shape(seq=256, heads=1), engines())
    several = array_attention(shape(seq=256, heads=4), engines())
    arrays = [(found.busy_s - found.lanes_s)[0, 0] for found in (one, several)]
    assert arrays[0] == pytest.approx(arrays[1])


def test_half_of_the_scores_take_half_the_time():
    whole, causal = (array_attention(shape(work_frac=frac), engines()).busy_s[0, 0] for frac in (1.0, 0.5))
    assert causal == pytest.approx(whole / 2)


@pytest.mark.parametrize("is_backward", [False, True])
def test_what_streams_past_comes_again_for_every_set_of_rows_that_a_memory_holds(is_backward):
    slab, element, width, seq = 128, 2, 128, 4096
    scores = slab * (4 + element) * (2 if is_backward else 1)
    row = 2 * width * (element + 4) + scores if is_backward else width * element + (width + 2) * 4 + scores
    stream = 2 * width * element + (8 * width if is_backward else 0)
    room = 1000 * row + 2 * slab * stream
    found = array_attention(shape(seq=seq, is_backward=is_backward), engines(sram_bytes=float(room)))
    assert found.again_bytes[0, 0] == (5 - 1) * 8 * seq * stream  # 4,096 rows, a thousand at a time
    assert found.sram_bytes[0, 0] == 0.0  # no vector memory
    whole = array_attention(
        shape(seq=seq, is_backward=is_backward), engines(sram_bytes=seq * stream + 2.0 * slab * row)
    )
    assert whole.again_bytes[0, 0] == 0.0


def test_less_memory_never_moves_less():
    sizes = [2.0**power for power in range(12, 28)]
    for is_backward in (False, True):
        shapes = shape(seq=8192, is_backward=is_backward, work_frac=0.5)
        moved = [array_attention(shapes, engines(sram_bytes=size)).again_bytes[0, 0] for size in sizes]
        assert moved == sorted(moved, reverse=True)
        assert moved[0] > 0 == moved[-1]


def test_scores_pass_memory_for_operands_that_registers_have_no_room_for():
    enough, few = engines(), engines()
    few = replace(few, register_bytes_per_lane=np.array([NEEDED_REGISTER_BYTES / 4]))
    enough = replace(enough, register_bytes_per_lane=np.array([NEEDED_REGISTER_BYTES]))
    more = array_attention(shape(), few).nearest_bytes - array_attention(shape(), enough).nearest_bytes
    assert more[0, 0] == pytest.approx(6 * 8 * 1024**2 * 0.75 * SPILLED_BYTES)
