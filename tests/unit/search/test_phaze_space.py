"""PHAZE's space: as many chips as it has, each the same as columns and as a chip."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from dovetail.accuracy.reproduce.phaze_cases import NO_LIMIT_W
from dovetail.cost.area import silicon
from dovetail.cost.columns import chip_columns
from dovetail.cost.inventory import inventory
from dovetail.cost.tdp import tdp
from dovetail.hardware.catalog import chips
from dovetail.hardware.template import design_of
from dovetail.search.codesign.presets import PRESETS
from dovetail.search.phaze_space import (
    BASE,
    HBM_BYTES,
    chip_at,
    chips_at,
    cost_columns,
    most_mm2,
    own_mm2,
    phaze_chips,
    raw_chips,
    row_of,
    without_power_limit,
)
from dovetail.units import MEBI

KEPT = phaze_chips()
TPUV4 = chips[BASE]()
SOME = np.linspace(0, len(KEPT) - 1, 40).astype(np.int64)


def test_the_area_rule_leaves_29360_of_75712_chips():
    assert len(raw_chips()) == 75_712
    assert len(KEPT) == 29_360
    assert most_mm2() == pytest.approx(278.827, abs=5e-4)  # style: as PHAZE prints it
    assert len(np.unique(np.floor(KEPT.area_mm2 / 0.01))) == 13_506  # buckets of its outer loop


def test_small_chips_are_kept_only_with_one_core_of_a_kind():
    is_small = KEPT.area_mm2 < 0.3 * most_mm2()
    assert is_small.any()
    assert (np.minimum(KEPT.num_tensor, KEPT.num_vector)[is_small] == 1).all()
    assert KEPT.area_mm2.max() == most_mm2()


def test_the_tpuv4_like_chip_is_one_of_them():
    row = row_of(KEPT, design_of(TPUV4), TPUV4.sram.capacity_bytes)
    chip = chip_at(TPUV4, KEPT, row, TPUV4.hbm.capacity_bytes)
    for name in ("clock_hz", "tensor", "vector", "core_buffer_bytes", "sram", "hbm", "interconnect_bytes_per_s"):
        assert getattr(chip, name) == getattr(TPUV4, name)
    assert chip.tdp_w == pytest.approx(TPUV4.tdp_w, rel=0.01)
    assert KEPT.area_mm2[row] == most_mm2()


def test_columns_are_those_of_the_chips():
    of_chips = chip_columns(chips_at(TPUV4, KEPT.at(SOME), HBM_BYTES[0]))
    straight = cost_columns(TPUV4, KEPT.at(SOME))
    for field in fields(of_chips):
        ours, theirs = getattr(straight, field.name), getattr(of_chips, field.name)
        if isinstance(theirs, np.ndarray):
            np.testing.assert_array_equal(ours, theirs, err_msg=field.name)
        elif isinstance(theirs, dict):
            assert all(np.array_equal(ours[name], column) for name, column in theirs.items())
        else:
            assert ours == theirs


def test_area_and_power_are_those_of_the_models_for_any_chip():
    found = chips_at(TPUV4, KEPT.at(SOME), HBM_BYTES[1])
    areas_mm2 = own_mm2(TPUV4, KEPT.at(SOME))
    for chip, area_mm2 in zip(found, areas_mm2, strict=True):
        assert chip.tdp_w == pytest.approx(float(tdp(chip).total_w))
        assert area_mm2 == pytest.approx(float(silicon(inventory(chip)).total_mm2))
        assert chip.hbm.capacity_bytes == HBM_BYTES[1]


def test_without_a_power_limit_no_chip_is_slowed_by_what_it_draws():
    unlimited = cost_columns(TPUV4, KEPT, has_power_limit=False)
    assert (unlimited.tdp_w > cost_columns(TPUV4, KEPT).tdp_w).all()
    assert without_power_limit(TPUV4).tdp_w == NO_LIMIT_W


def test_the_preset_of_the_joint_search_spans_the_same_chips():
    preset = PRESETS["phaze"]
    values = {name: column for name, column in preset.values.items() if name not in ("sram_mib", "stack_gib")}
    grid = np.meshgrid(*values.values(), indexing="ij")
    systems = {name: column.ravel().astype(np.float64) for name, column in zip(values, grid, strict=True)}
    systems["sram_mib"] = np.full(len(systems["num_tensor"]), 64.0)
    assert preset.rule(systems).sum() == (KEPT.sram_bytes == 64 * MEBI).sum()
    assert [gibibytes * TPUV4.die.num_hbm_stacks for gibibytes in preset.values["stack_gib"]] == [32, 64, 80]
