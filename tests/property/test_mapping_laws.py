"""Laws of mapping products onto arrays: no resource hurts, no work is free, tiles fit, no roofline is beaten."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from inspect import unwrap
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dovetail.cost.attention import Attentions
from dovetail.cost.columns import chip_columns
from dovetail.cost.mapping.attention import array_attention
from dovetail.cost.mapping.core_level import NESTED_FRAC, core_kinds, core_tiles
from dovetail.cost.mapping.mapper import MappedTable, mapped_table
from dovetail.cost.mapping.memory_level import level_tiles
from dovetail.cost.mapping.tables import (
    ArrayChips,
    Dataflow,
    Fill,
    ProductShapes,
    WindowMapping,
    array_chips,
    product_shapes,
)
from dovetail.hardware.catalog import chips as catalogue
from dovetail.units import KIBI, MEBI

EXTENTS = st.one_of(st.integers(1, 40), st.integers(1, 3000), st.sampled_from((4096, 8192, 11008, 50257)))
SIZES = st.sampled_from((1.0, 2.0, 4.0))
FLOWS = st.lists(st.sampled_from(list(Dataflow)), min_size=1, max_size=3, unique=True).map(tuple)
SIDES = st.one_of(st.sampled_from((2, 8, 32, 64, 128, 256)), st.integers(1, 200))
FILLS, WINDOWS = st.sampled_from(list(Fill)), st.sampled_from(list(WindowMapping))


@dataclass(frozen=True)
class Shape:
    b: int
    m: int
    n: int
    k: int
    operand_bytes: float
    result_bytes: float


@dataclass(frozen=True)
class Knobs:
    """One chip with two memories between its arrays and HBM; bandwidths in bytes per clock of 1 Hz."""

    num_arrays: float
    num_rows: float
    num_cols: float
    num_loaded_rows: float
    core_buffer_bytes: float
    near_bytes: float
    near_rate: float
    far_bytes: float
    far_rate: float
    hbm_rate: float


SHAPES = st.builds(
    Shape, b=st.integers(1, 40), m=EXTENTS, n=EXTENTS, k=EXTENTS, operand_bytes=SIZES, result_bytes=SIZES
)
RATES = st.floats(0.5, 20_000)
CHIPS = st.builds(
    Knobs,
    num_arrays=st.one_of(st.integers(1, 64), st.sampled_from((128, 512, 4096))),
    num_rows=SIDES,
    num_cols=SIDES,
    num_loaded_rows=st.sampled_from((1, 2, 8)),
    core_buffer_bytes=st.floats(6, 23).map(lambda power: 2**power),
    near_bytes=st.floats(12, 27).map(lambda power: 2**power),
    near_rate=RATES,
    far_bytes=st.floats(12, 28).map(lambda power: 2**power),
    far_rate=RATES,
    hbm_rate=RATES,
)


def table(shapes: list[Shape], chips: list[Knobs], flows, **more) -> MappedTable:
    return mapped_table(*products_and_chips(shapes, chips, flows), **more)


def products_and_chips(shapes: list[Shape], chips: list[Knobs], flows) -> tuple[ProductShapes, ArrayChips]:
    columns = {name: np.array([getattr(one, name) for one in shapes], dtype=float) for name in vars(shapes[0])}
    knobs: dict[str, Any] = {
        name: np.array([getattr(one, name) for one in chips], dtype=float) for name in vars(chips[0])
    }
    memories = tuple((knobs.pop(f"{where}_bytes"), knobs.pop(f"{where}_rate")) for where in ("near", "far"))
    on = array_chips(
        len(chips), levels=memories, dataflows=flows, clock_hz=1.0, hbm_bytes_per_s=knobs.pop("hbm_rate"), **knobs
    )
    return product_shapes(**columns), on


def changed(one, **more):
    return type(one)(**{**vars(one), **more})


@given(SHAPES, CHIPS, FLOWS, FILLS, st.floats(1, 40))
def test_less_capacity_or_bandwidth_at_any_level_is_never_faster(shape, chip, flows, fill, factor):
    names = [name for name in vars(chip) if name.endswith(("_bytes", "_rate"))]
    least = {"core_buffer_bytes": 64.0, "near_bytes": 4096.0, "far_bytes": 4096.0}
    lesser = [changed(chip, **{name: max(getattr(chip, name) / factor, least.get(name, 0.0))}) for name in names]
    time_s = table([shape], [chip, *lesser], flows, fill=fill).time_s()[0]
    assert (time_s[1:] >= time_s[0]).all(), dict(zip(names, time_s[1:] / time_s[0], strict=True))


@given(SHAPES, CHIPS, FLOWS, FILLS, st.integers(1, 70))
def test_more_arrays_are_never_slower(shape, chip, flows, fill, more):
    time_s = table([shape], [chip, changed(chip, num_arrays=chip.num_arrays + more)], flows, fill=fill).time_s()[0]
    assert time_s[1] <= time_s[0]


@given(SHAPES, CHIPS, FLOWS, FILLS, st.integers(1, 3000))
def test_a_larger_product_is_never_faster(shape, chip, flows, fill, more):
    larger = [changed(shape, **{name: getattr(shape, name) + more}) for name in ("b", "m", "n", "k")]
    found = table([shape, *larger], [chip], flows, fill=fill)
    time_s = found.time_s()[:, 0]
    assert (time_s[1:] >= time_s[0]).all(), time_s / time_s[0]
    for moved in found.moved_bytes()[1:]:
        assert (moved[1:] >= moved[0]).all()


@given(SHAPES, CHIPS, FLOWS, FILLS)
def test_nothing_beats_the_roofline_and_fill_only_adds(shape, chip, flows, fill):
    found = table([shape], [chip], flows, fill=fill)
    assert (found.time_s() >= found.roofline_s() * (1 - 1e-12)).all()
    once_s = table([shape], [chip], flows, fill=Fill.ONCE).time_s()
    assert (found.time_s() >= once_s).all()


@given(SHAPES, CHIPS, FLOWS)
def test_a_flexible_array_is_never_slower_than_one_of_its_dataflows(shape, chip, flows):
    flexible_s = table([shape], [chip], flows).time_s()
    assert all((flexible_s <= table([shape], [chip], (flow,)).time_s()).all() for flow in flows)


@given(SHAPES, CHIPS, FLOWS, FILLS)
def test_tiles_of_the_winner_fit_their_buffers(shape, chip, flows, fill):
    found = table([shape], [chip], flows, fill=fill)
    one = found.mapped(0, 0)
    assert one.core.dataflow in flows
    assert one.core_needed_bytes <= chip.core_buffer_bytes
    assert 1 <= one.num_busy_arrays <= chip.num_arrays
    assert one.num_busy_arrays * one.core_needed_bytes <= max(chip.near_bytes * NESTED_FRAC, one.core_needed_bytes)
    for memory, capacity_bytes in zip(one.memories, (chip.near_bytes, chip.far_bytes), strict=True):
        assert memory.needed_bytes <= capacity_bytes
        assert all(1 <= tile <= extent for tile, extent in zip(memory.tile, (shape.m, shape.n, shape.k), strict=True))
    assert one.time_s == found.time_s()[0, 0]
    assert 0 < one.utilization_frac <= 1 + 1e-12


@given(SHAPES, CHIPS, FLOWS)
def test_time_is_the_longest_of_arrays_and_levels(shape, chip, flows):
    found = table([shape], [chip], flows)
    assert found.time_s() == np.maximum.reduce([found.core_s(), *found.level_s()])


@given(st.lists(SHAPES, min_size=1, max_size=4), st.lists(CHIPS, min_size=1, max_size=4), FLOWS, FILLS)
def test_a_pair_costs_the_same_in_any_table(shapes, chips, flows, fill):
    whole = table(shapes * 2, chips * 2, flows, fill=fill)
    assert whole.time_s().shape == (2 * len(shapes), 2 * len(chips))
    alone = table([shapes[-1]], [chips[-1]], flows, fill=fill)
    row, column = len(shapes) * 2 - 1, len(chips) * 2 - 1
    assert whole.mapped(row, column) == alone.mapped(0, 0)
    for own, every in zip(alone.moved_bytes(), whole.moved_bytes(), strict=True):
        assert own[0, 0] == every[row, column]


@given(st.lists(SHAPES, min_size=1, max_size=4), st.lists(CHIPS, min_size=2, max_size=5), FLOWS, FILLS, WINDOWS)
def test_a_kind_of_arrays_is_mapped_the_same_beside_any_others(shapes, chips, flows, fill, window):
    """That is why what was computed for it before may stand for it; nothing is remembered here."""
    own, on = products_and_chips(shapes, chips, flows)
    compute, (kinds, _) = unwrap(core_tiles), core_kinds(on)
    whole = compute(own, kinds, fill, window)
    for at in range(len(kinds.num_arrays)):
        alone = compute(
            own, replace(kinds, **{one.name: getattr(kinds, one.name)[[at]] for one in fields(kinds)}), fill, window
        )
        for one in fields(whole):
            assert getattr(whole, one.name)[:, at].tolist() == getattr(alone, one.name)[:, 0].tolist(), one.name


@given(st.integers(1, 9), EXTENTS, EXTENTS, EXTENTS, CHIPS, FLOWS, WINDOWS)
def test_a_window_in_time_never_fills_an_array_better_than_one_unrolled(window, m, n, channels, chip, flows, other):
    extents = (np.array([float(one)]) for one in (m, n, window * channels))
    columns = product_shapes(*extents, window=float(window))
    on = array_chips(
        levels=((1e9, 1e15),), dataflows=flows, num_arrays=chip.num_arrays, num_rows=chip.num_rows,
        num_cols=chip.num_cols, clock_hz=1.0, core_buffer_bytes=MEBI, hbm_bytes_per_s=1e15,
    )  # fmt: skip
    unrolled_s = mapped_table(columns, on).time_s()
    assert (mapped_table(columns, on, window=other).time_s() >= unrolled_s).all()


@given(EXTENTS, EXTENTS, EXTENTS, st.floats(12, 30))
def test_a_memory_that_holds_everything_moves_every_element_once(m, n, k, power):
    shapes = product_shapes(np.array([float(m)]), np.array([float(n)]), np.array([float(k)]))
    once = 2.0 * (m * k + k * n + m * n)
    found = level_tiles(shapes, np.array([2.0**power, 64 * KIBI * once]))
    assert found.moved_bytes[0, 1] == once
    assert found.moved_bytes[0, 0] >= once


TPU = chip_columns((catalogue["tpu-v5e"](),))
WIDTHS = st.integers(1, 600)
ENGINES: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict, num_units=st.integers(1, 16), tile_rows=SIDES, tile_cols=SIDES, vector_flop_per_s=st.floats(1e9, 1e13),
    vector_memory_bytes_per_s=st.floats(1e9, 1e14), clock_hz=st.floats(1e8, 3e9),
)  # fmt: skip


@given(
    st.integers(1, 40), st.integers(1, 5000), WIDTHS, WIDTHS, ENGINES, st.booleans(), st.floats(0, 1), st.floats(0, 1)
)
def test_attention_takes_longer_with_more_work_and_no_longer_with_more_of_anything(
    heads, seq, keys, values, engines, is_backward, one_frac, other_frac
):
    """An array does rows x cols multiply-accumulates per clock; work is at least what full arrays take."""

    def time_s(heads=heads, seq=seq, keys=keys, values=values, overlap_frac=one_frac, **more):
        given = engines | more
        rate = 2 * given["num_units"] * given["tile_rows"] * given["tile_cols"] * given["clock_hz"]
        column = {
            name: np.array([[float(size)]]) for name, size in (("h", heads), ("s", seq), ("k", keys), ("v", values))
        }
        one = np.ones((1, 1))
        shape = Attentions(
            heads=column["h"], queries=column["s"], keys=column["s"], key_width=column["k"], value_width=column["v"],
            kv_frac=one, work_frac=one, is_backward=is_backward, rate_flop_per_s=rate * one, product_frac=one,
            pace_frac=one, element_bytes=2 * one,
        )  # fmt: skip
        chips = replace(
            TPU,
            num_units=np.array([float(given["num_units"])]),
            tile_rows=np.array([[float(given["tile_rows"])]]),
            tile_cols=np.array([[float(given["tile_cols"])]]),
            vector_flop_per_s=np.array([given["vector_flop_per_s"]]),
            vector_memory_bytes_per_s=np.array([given["vector_memory_bytes_per_s"]]),
            calibration=TPU.calibration | {"overlap_frac": np.array([overlap_frac]), "vector_frac": np.ones(1)},
        )
        return float(array_attention(shape, chips).busy_s[0, 0])

    base_s = time_s()
    assert time_s(heads=2 * heads) <= 2 * base_s * (1 + 1e-12)
    for longer in (time_s(heads=heads + 1), time_s(seq=seq + 100), time_s(keys=keys + 7), time_s(values=values + 7)):
        assert longer >= base_s * (1 - 1e-12)
    for name in ("num_units", "vector_flop_per_s", "vector_memory_bytes_per_s", "clock_hz"):
        assert time_s(**{name: 2 * engines[name]}) <= base_s * (1 + 1e-12)
    low, high = sorted((one_frac, other_frac))
    assert time_s(overlap_frac=high) <= time_s(overlap_frac=low) * (1 + 1e-12)
    assert time_s(overlap_frac=0.0) <= 2 * time_s(overlap_frac=1.0) * (1 + 1e-12)
    work = 3 * keys + 2 * values if is_backward else keys + values
    peak = engines["num_units"] * engines["tile_rows"] * engines["tile_cols"] * engines["clock_hz"]
    assert base_s >= heads * seq**2 * work / peak * (1 - 1e-12)
    assert base_s >= heads * seq**2 * (10 if is_backward else 6) / engines["vector_flop_per_s"] * (1 - 1e-12)
