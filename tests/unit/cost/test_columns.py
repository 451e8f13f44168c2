from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from dovetail.cost.columns import ChipColumns, chip_columns, grouped, varied
from dovetail.cost.families.rows import _HALF, _MIXER, distinct_rows
from dovetail.errors import InvalidInput, NotModelled
from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import Chip, Tiling
from dovetail.units import TERA
from dovetail.workload.operators import DTYPES, dtype_code
from tests.unit.cost.paper import paper

CATALOGUE = [entry() for _, entry in chips.items()]
H200 = chips["h200-sxm"]()


def columns_of(chips: ChipColumns) -> dict[str, object]:
    """Every array of a table, by name."""
    arrays = {f.name: getattr(chips, f.name) for f in fields(ChipColumns)}
    numbers = arrays.pop("calibration")
    return {**arrays, **numbers}


def same(a: ChipColumns, b: ChipColumns) -> bool:
    mine, theirs = columns_of(a), columns_of(b)
    return mine.keys() == theirs.keys() and all(np.array_equal(mine[k], theirs[k]) for k in mine)  # type: ignore[arg-type]


def test_a_column_holds_a_chips_own_figures():
    found = chip_columns((H200,))
    assert len(found) == 1
    assert found.num_units.tolist() == [132]
    assert found.num_lanes.tolist() == [132 * 128]
    assert found.tile_rows.shape == found.tile_cols.shape == (len(H200.tensor.tiling.tiles), 1)
    assert list(zip(found.tile_rows[:, 0], found.tile_cols[:, 0], strict=True)) == list(H200.tensor.tiling.tiles)
    assert found.hbm_bytes_per_s.tolist() == [H200.hbm.bandwidth_bytes_per_s]
    assert found.sram_bytes.tolist() == [H200.sram.capacity_bytes]
    assert found.sram_bytes_per_s.tolist() == [H200.sram.bandwidth_bytes_per_s]
    assert found.tdp_w.tolist() == [H200.tdp_w]
    assert found.idle_w.tolist() == [H200.energy.idle_w]
    assert found.calibration["launch_s"].tolist() == [H200.calibration.launch_s]
    assert set(found.calibration) == {f.name for f in fields(H200.calibration)} - {"fitted_on", "family"}


def test_every_dtype_has_a_row_of_rates():
    found = chip_columns((H200,))
    assert found.dtype_flop_per_s.shape == (len(DTYPES), 1)
    for dtype, rate in H200.tensor.rates:
        assert found.rate_flop_per_s(dtype_code(dtype)).tolist() == [rate]


def test_a_table_has_a_rate_only_where_all_its_chips_have_one():
    both = chip_columns((H200, chips["v100-32gb-sxm"]()))
    assert both.rate_flop_per_s(dtype_code("fp16")).tolist() == [H200.peak_flop_per_s("fp16"), 125 * TERA]
    with pytest.raises(NotModelled, match=r"no rate for bf16; it has fp32, fp16$"):
        both.rate_flop_per_s(dtype_code("bf16"))


def test_chips_tiled_otherwise_are_refused_in_one_table():
    with pytest.raises(InvalidInput, match=r"same tiles; got 2 ways"):
        chip_columns((H200, chips["tpu-v5e"]()))


def test_groups_hold_every_chip_once_and_where_it_stood():
    found = grouped(CATALOGUE)
    assert sorted(index for places, _ in found for index in places) == list(range(len(CATALOGUE)))
    for places, columns in found:
        assert same(columns, chip_columns([CATALOGUE[index] for index in places]))
        assert {CATALOGUE[index].tensor.tiling.is_array for index in places} == {columns.are_arrays}
        assert {CATALOGUE[index].tensor.tiling.fill for index in places} == {columns.fill}
    assert len(found) == len({tiling_key(chip) for chip in CATALOGUE})


def tiling_key(chip: Chip) -> tuple[int, bool, str]:
    tiling = chip.tensor.tiling
    return len(tiling.tiles), tiling.is_array, tiling.fill


@pytest.mark.parametrize(
    "tiling",
    [
        Tiling(tiles=((8, 8), (16, 8)), num_steps=4),
        Tiling(tiles=((8, 8),), num_steps=4, stationary=("weight",)),
        Tiling(tiles=((8, 8),), num_steps=4, fill="load"),
    ],
)
def test_what_a_table_shares_keeps_chips_apart_and_nothing_else_does(tiling):
    plain = paper()
    other = replace(plain, tensor=replace(plain.tensor, tiling=tiling))
    alike = replace(plain, tensor=replace(plain.tensor, num_units=7, tiling=Tiling(tiles=((9, 7),), num_steps=3)))
    assert [places for places, _ in grouped([plain, other, alike])] in ([[0, 2], [1]], [[1], [0, 2]])


def test_a_slice_is_the_table_of_those_chips():
    gpus = [chips[name]() for name in ("a100-80gb-sxm", "h100-sxm", "h200-sxm", "b200")]
    assert same(chip_columns(gpus).at(slice(1, 3)), chip_columns(gpus[1:3]))


def test_varied_copies_a_chip_and_takes_the_columns_given():
    units = np.array([66.0, 132.0, 264.0])
    found = varied(H200, 3, num_units=units)
    assert len(found) == 3
    assert found.num_units is units
    assert same(found.at(slice(1, 2)), chip_columns((H200,)))
    assert found.calibration["launch_s"].tolist() == [H200.calibration.launch_s] * 3


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"num_unit": np.ones(3)}, "no column of a chip is named 'num_unit'"),
        ({"num_units": np.ones(2)}, r"column num_units must have 3 chips; got shape \(2,\)"),
        ({"tile_rows": np.ones(3)}, r"column tile_rows must have 3 chips; got shape \(3,\)"),
    ],
)
def test_a_column_that_does_not_fit_is_refused(columns, message):
    with pytest.raises(InvalidInput, match=message):
        varied(H200, 3, **columns)


def test_rows_that_mix_to_one_number_are_told_apart():
    """The second column is chosen so that two rows collide; a third is like the first."""
    first = np.array([1.5, 2.5])
    mixed = first.view(np.uint64) * _MIXER
    mixed ^= mixed >> _HALF
    other = (np.array([3.5]).view(np.uint64) ^ mixed[:1] ^ mixed[1:]).view(np.float64)[0]
    columns = [np.array([1.5, 2.5, 1.5]), np.array([3.5, other, 3.5])]
    kept, which = distinct_rows(columns)
    assert len(kept) == 2
    assert which[0] == which[2] != which[1]
    for column in columns:
        assert np.array_equal(column[kept][which], column)
