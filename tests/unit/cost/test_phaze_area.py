from __future__ import annotations

import numpy as np
import pytest

from dovetail.cost.area_models import area_models
from dovetail.cost.phaze_area import CORE_MM2, SHARED_MM2, phaze_mm2
from dovetail.errors import NotModelled
from dovetail.hardware.catalog import chips
from dovetail.units import MEBI


def area_mm2(**changes: float | np.ndarray) -> np.ndarray:
    tpu_v4 = {
        "num_tensor_units": 8,
        "num_rows": 128,
        "num_cols": 128,
        "num_vector_units": 2,
        "num_lanes": 128,
        "sram_bytes": 128 * MEBI,
    }
    return phaze_mm2(**(tpu_v4 | changes))


def test_the_area_limit_of_the_paper_comes_out() -> None:
    assert float(area_mm2()) == pytest.approx(278.827, abs=1e-3)
    assert area_models["phaze-22nm"](chips["phaze-tpuv4"]()) == float(area_mm2())


def test_many_chips_at_once_equal_each_alone() -> None:
    units = np.array([1, 8, 64])
    together = area_mm2(num_tensor_units=units)
    assert together == pytest.approx([float(area_mm2(num_tensor_units=n)) for n in units])


def test_a_buffer_between_two_sizes_lies_between_them() -> None:
    assert area_mm2(sram_bytes=64 * MEBI) < area_mm2(sram_bytes=100 * MEBI) < area_mm2()


@pytest.mark.parametrize("change", [{"sram_bytes": MEBI}, {"sram_bytes": 256 * MEBI}, {"num_rows": 1024}])
def test_a_buffer_outside_the_tables_is_not_modelled(change) -> None:
    with pytest.raises(NotModelled, match="PHAZE's area model has a"):
        area_mm2(**change)


def test_the_smallest_core_buffer_is_one_kibibyte() -> None:
    # 16 lanes would be a quarter of one; 759.823853 um2 a lane, 6133.98 um2 the buffer
    few_mm2 = float(area_mm2(num_vector_units=1, num_lanes=16) - area_mm2(num_vector_units=0, num_lanes=16))
    assert few_mm2 == pytest.approx((16 * 759.823853 + 6133.98) / 1_000_000)


@pytest.mark.parametrize("table_mm2", [CORE_MM2, SHARED_MM2], ids=["core", "shared"])
def test_twice_the_buffer_takes_more_but_hardly_more_than_twice_the_area(table_mm2) -> None:
    ratios = table_mm2[1:] / table_mm2[:-1]
    assert np.all(ratios > 1.3)  # decoders and sense amplifiers are shared by more cells
    assert np.all(ratios < 2.2)
