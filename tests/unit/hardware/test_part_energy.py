from __future__ import annotations

import numpy as np
import pytest

from dovetail.hardware.part_energy import access_j_per_byte, operand_j, slice_bytes
from dovetail.units import KIBI, MEBI, PICO


@pytest.mark.parametrize(
    ("capacity_bytes", "pj_per_byte"),
    [
        (8 * KIBI, 7.5 / 8),  # pJ per 64 bits (ISCA 2021, table 2)
        (32 * KIBI, 8.5 / 8),
        (MEBI, 14 / 8),
        (4 * MEBI, (0.249 + 0.293) / 2 * 8),  # a slice of VMEM, read and written (AccelForge)
        (128 * MEBI, (1.88 + 2.36) / 2 * 8),  # CMEM
    ],
)
def test_an_access_costs_what_is_published_for_memories_of_that_size(capacity_bytes, pj_per_byte) -> None:
    assert float(access_j_per_byte(capacity_bytes)) == pytest.approx(pj_per_byte * PICO)


def test_a_larger_memory_never_costs_less_per_byte() -> None:
    found = access_j_per_byte(np.geomspace(KIBI, 1024 * MEBI, 200))
    assert np.all(np.diff(found) >= 0)
    assert found[-1] > 3 * float(access_j_per_byte(128 * MEBI))  # style: eight times as large, by the last slope


def test_slices_beside_the_lanes_stay_as_they_are_in_a_larger_memory() -> None:
    assert slice_bytes(128 * MEBI, 1) == slice_bytes(32 * MEBI, 2) == 4 * MEBI
    assert slice_bytes(2 * MEBI, 2) == MEBI


def test_four_times_the_multipliers_need_half_the_operands_each() -> None:
    assert operand_j(256**2) == pytest.approx(operand_j(128**2) / 2)
