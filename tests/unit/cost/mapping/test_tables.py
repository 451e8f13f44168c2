from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dovetail.cost.mapping.convolution import convolution_shapes
from dovetail.cost.mapping.mapper import mapped_table
from dovetail.cost.mapping.tables import Dataflow, array_chips, distinct_rows, product_shapes
from dovetail.errors import InvalidInput
from dovetail.units import KIBI, MEBI, PICO

ONE = np.array([64.0])
CHIP: dict[str, Any] = {
    "num_arrays": 4.0, "num_rows": 8.0, "num_cols": 8.0, "clock_hz": 1e9, "core_buffer_bytes": 8 * KIBI,
    "hbm_bytes_per_s": 1e9,
}  # fmt: skip
MEMORIES = ((MEBI, 1e10),)


@pytest.mark.parametrize(
    ("changed", "where"),
    [
        ({"num_arrays": 0.0}, "num_arrays"),
        ({"num_rows": 0.0}, "num_rows"),
        ({"clock_hz": 0.0}, "clock_hz"),
        ({"hbm_bytes_per_s": -1.0}, "hbm_bytes_per_s"),
        ({"core_buffer_bytes": 63.0}, "core_buffer"),
        ({"levels": ()}, "memories"),
        ({"levels": ((4095.0, 1.0),)}, "capacity"),
        ({"levels": ((4096.0, 0.0),)}, "rate"),
        ({"dataflows": ()}, "dataflows"),
    ],
)
def test_a_chip_that_could_map_nothing_is_refused(changed, where):
    with pytest.raises(InvalidInput) as refused:
        array_chips(**({"levels": MEMORIES} | CHIP | changed))
    assert refused.value.where == where


@pytest.mark.parametrize(
    ("changed", "where"),
    [({"b": 0.0}, "b"), ({"operand_bytes": 16.0}, "operand_bytes"), ({"window": 9.0}, "window")],
)
def test_a_product_that_is_none_is_refused(changed, where):
    with pytest.raises(InvalidInput) as refused:
        product_shapes(ONE, ONE, ONE, **changed)
    assert refused.value.where == where


def test_energy_is_what_every_level_moves_at_its_price():
    chips = array_chips(
        levels=(*MEMORIES, (2 * MEBI, 1e10)), memory_j_per_byte=(3 * PICO, 5 * PICO), hbm_j_per_byte=7 * PICO,
        mac_j=1 * PICO, dataflows=(Dataflow.OUTPUT_STATIONARY,), **CHIP,
    )  # fmt: skip
    shapes = product_shapes(ONE, ONE, ONE)
    table = mapped_table(shapes, chips)
    macs_j, *levels_j = (float(one[0, 0]) for one in table.energy_j())
    moved = [float(one[0, 0]) for one in table.moved_bytes()]
    assert macs_j == pytest.approx(64**3 * PICO)
    assert levels_j == pytest.approx([moved[0] * 3 * PICO, moved[1] * 5 * PICO, moved[2] * 7 * PICO])
    assert moved[1] == moved[2] == 3 * 2 * 64 * 64  # both hold all of it


def test_distinct_rows_keep_the_first_of_each():
    first, of_row = distinct_rows(np.array([2.5, 1.0, 2.5, 2.5]), np.array([True, True, True, False]))
    assert len(first) == 3
    assert [first[place] for place in of_row] == [0, 1, 0, 3]


def test_a_convolution_stores_what_its_windows_cover():
    def reuse(side, stride):
        window = (np.array([side]), np.array([side]))
        one = convolution_shapes(np.array([196.0]), window, np.array([64.0]), np.array([32.0]), np.array([stride]))
        assert one.k[0] == side * side * 64
        return float(one.input_reuse[0])

    assert reuse(3.0, 1.0) == 9
    assert reuse(3.0, 2.0) == 9 / 4
    assert reuse(1.0, 2.0) == 1  # the elements between windows are never read
