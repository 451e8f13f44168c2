"""PHAZE's space: as many chips as it has, and the joint search builds them as PHAZE does."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.cost.area_models import area_models
from dovetail.hardware.catalog import chips
from dovetail.search.codesign.phaze_space import BASE, PhazeChips, most_mm2, phaze_chips, raw_chips
from dovetail.search.codesign.presets import PRESETS
from dovetail.search.codesign.systems import built_systems, system_chip, system_of
from dovetail.units import KIBI, MEBI
from dovetail.workload.graph import FloatArray

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


def systems(every: PhazeChips) -> dict[str, FloatArray]:
    """Chips of PHAZE's as systems of the joint search, with the base's HBM."""
    fixed = {name: np.full(len(every), value) for name, value in system_of(TPUV4, 1024).items()}
    cores = {"num_tensor": every.num_tensor, "num_rows": every.depth, "num_cols": every.width}
    cores |= {"num_vector": every.num_vector, "num_lanes": every.width}
    own = {name: column.astype(np.float64) for name, column in cores.items()}
    return fixed | own | {"sram_mib": every.sram_bytes / MEBI}


def test_the_tpu_v4_of_phaze_is_the_largest_of_them():
    own = system_of(TPUV4, 1024)
    columns = systems(KEPT)
    [row] = np.flatnonzero(np.all([columns[name] == value for name, value in own.items()], axis=0))
    assert KEPT.area_mm2[row] == most_mm2()


def test_chips_of_the_joint_search_have_phazes_buffers_and_area():
    some = KEPT.at(SOME)
    built = built_systems(TPUV4, systems(some))
    # PHAZE: a KiB for every 64 multipliers of a core, and at least one
    np.testing.assert_array_equal(built.chips.core_buffer_bytes, np.maximum(1, some.width * some.depth / 64) * KIBI)
    np.testing.assert_array_equal(built.chips.sram_bytes, some.sram_bytes)
    columns = systems(some)
    for row, area_mm2 in enumerate(some.area_mm2):
        chip = system_chip(TPUV4, {name: float(column[row]) for name, column in columns.items()})
        assert area_models["phaze-22nm"](chip) == pytest.approx(area_mm2)
        assert chip.sram.bandwidth_bytes_per_s == 4096 * chip.clock_hz  # whatever its size


def test_the_preset_of_the_joint_search_spans_the_same_chips():
    preset = PRESETS["phaze"]
    values = {name: column for name, column in preset.values.items() if name not in ("sram_mib", "stack_gib")}
    grid = np.meshgrid(*values.values(), indexing="ij")
    grids = {name: column.ravel().astype(np.float64) for name, column in zip(values, grid, strict=True)}
    grids["sram_mib"] = np.full(len(grids["num_tensor"]), 64.0)
    assert preset.rule(grids).sum() == (KEPT.sram_bytes == 64 * MEBI).sum()
    assert [gibibytes * TPUV4.die.num_hbm_stacks for gibibytes in preset.values["stack_gib"]] == [32, 64, 80]
