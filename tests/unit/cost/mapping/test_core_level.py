from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.cost.mapping.core_level import core_kinds, core_tiles
from dovetail.cost.mapping.mapper import mapped_table
from dovetail.cost.mapping.tables import Dataflow, Fill, WindowMapping, array_chips, product_shapes
from dovetail.units import GIGA, KIBI, MEBI, TERA
from tests.unit.cost.mapping.scalar_mapper import Case, least_cycles

WS, OS = Dataflow.WEIGHT_STATIONARY, Dataflow.OUTPUT_STATIONARY
EXTENTS, SIDES = st.integers(1, 700), st.sampled_from((1, 3, 8, 16, 100, 128))
CASES = st.builds(
    Case,
    b=st.integers(1, 5), m=EXTENTS, n=EXTENTS, k=EXTENTS, operand_bytes=st.sampled_from((1.0, 2.0)),
    result_bytes=st.sampled_from((2.0, 4.0)), num_arrays=st.sampled_from((1, 2, 5, 64)), num_rows=SIDES,
    num_cols=SIDES, load=SIDES, buffer_bytes=st.floats(6, 20).map(lambda x: 2.0**x),
    bytes_per_cycle=st.sampled_from((1.0, 100.0, 4096.0)), memory_bytes=st.floats(12, 25).map(lambda x: 2.0**x),
)  # fmt: skip


def mapped(case: Case, flows, fill, window=WindowMapping.UNROLLED):
    shapes = product_shapes(
        np.array([float(case.m)]), np.array([float(case.n)]), np.array([float(case.k)]), b=float(case.b),
        operand_bytes=case.operand_bytes, result_bytes=case.result_bytes, window=float(case.window),
    )  # fmt: skip
    chips = array_chips(
        levels=((case.memory_bytes, case.bytes_per_cycle),), dataflows=flows, num_arrays=case.num_arrays,
        num_rows=case.num_rows, num_cols=case.num_cols, num_loaded_rows=max(1.0, case.num_rows / case.load),
        clock_hz=1.0, core_buffer_bytes=case.buffer_bytes, hbm_bytes_per_s=1.0,
    )  # fmt: skip
    kinds, _ = core_kinds(chips)
    return core_tiles(shapes, kinds, fill, window)


@given(
    CASES,
    st.lists(st.sampled_from(list(Dataflow)), min_size=1, max_size=3, unique=True),
    st.sampled_from(list(Fill)),
    st.sampled_from((1, 4, 9)),
)
def test_the_mapper_finds_what_plain_loops_over_all_candidates_find(case, flows, fill, window):
    case = Case(**{**vars(case), "load": min(case.load, case.num_rows), "k": case.k * window, "window": window})
    loaded = np.ceil(case.num_rows / max(1.0, case.num_rows / case.load))
    case = Case(**{**vars(case), "load": int(loaded)})
    found = mapped(case, tuple(flows), fill, WindowMapping.IN_TIME)
    bound, moved = least_cycles(case, tuple(flows), fill)
    assert found.bound_cycles[0, 0] == pytest.approx(bound, rel=1e-12)
    assert found.moved_bytes[0, 0] == moved


@pytest.mark.parametrize("fill", list(Fill))
def test_kinds_of_arrays_mapped_together_are_each_as_alone_to_the_last_bit(fill):
    arrays, sides, buffers, memories = (
        axis.ravel().astype(np.float64)
        for axis in np.meshgrid([1, 3, 64, 4096], [8, 128], [KIBI, 64 * KIBI], [64 * KIBI, 2 * MEBI], indexing="ij")
    )
    chips = array_chips(
        len(arrays), levels=((memories, 4096.0),), num_arrays=arrays, num_rows=sides, num_cols=2 * sides, clock_hz=1.0,
        core_buffer_bytes=buffers, hbm_bytes_per_s=1.0,
    )  # fmt: skip
    kinds, _ = core_kinds(chips)
    shapes = product_shapes(np.array([300.0, 4096.0]), np.array([77.0, 1376.0]), np.array([1000.0, 64.0]))
    remembered: Any = core_tiles
    compute = remembered.__wrapped__
    together = compute(shapes, kinds, fill, WindowMapping.UNROLLED)
    assert len(np.unique(together.num_splits)) > 2
    for kind in range(len(kinds.num_arrays)):
        own = replace(kinds, **{one.name: getattr(kinds, one.name)[[kind]] for one in fields(kinds)})
        alone = compute(shapes, own, fill, WindowMapping.UNROLLED)
        for one in fields(alone):
            assert (getattr(alone, one.name)[:, 0] == getattr(together, one.name)[:, kind]).all(), one.name


def layer_products():
    """Products of a 7B layer, 8,192 tokens: forward, input and weight gradients."""
    rows = []
    for n, k in ((3 * 4096, 4096), (4096, 4096), (2 * 11008, 4096), (4096, 11008)):
        rows += [(8192, n, k), (8192, k, n), (n, k, 8192)]
    return product_shapes(*np.array(rows, dtype=float).T)


def over_ideal(buffers_kibi, flows, bytes_per_clock, **more):
    clock_hz = 1.05 * GIGA
    given_columns: dict[str, Any] = {
        "num_arrays": 1, "num_rows": 128, "num_cols": 128, "clock_hz": clock_hz,
        "core_buffer_bytes": np.array(buffers_kibi) * KIBI, "hbm_bytes_per_s": 1000 * TERA,
    }  # fmt: skip
    memory_bytes = more.pop("memory_bytes", 1024 * MEBI)
    chips = array_chips(
        len(buffers_kibi),
        levels=((memory_bytes, bytes_per_clock * clock_hz),),
        dataflows=flows,
        **(given_columns | more),
    )
    shapes = layer_products()
    return mapped_table(shapes, chips).time_s().sum(axis=0) / (shapes.macs.sum() / chips.macs_per_s)


def test_core_buffers_mean_something():
    # time over ideal: larger tiles of results are reused more
    found = over_ideal([2, 64, 128, 256, 512, 1024, 2048, 4096], (WS,), 128)
    assert found == pytest.approx([9.92, 8.04, 6.04, 4.04, 2.81, 1.79, 1.29, 1.01], abs=0.005)
    assert over_ideal([2, 256, 4096], (OS,), 128) == pytest.approx([4.04, 4.04, 1.04], abs=0.005)
    assert over_ideal([128, 256], (WS,), 512) == pytest.approx([2.0, 1.01], abs=0.005)


def test_wider_arrays_want_larger_buffers_at_the_same_bandwidth():
    many = {
        side: over_ideal([256], (WS,), 4096, num_arrays=1024 / side, num_rows=side, num_cols=side)[0]
        for side in (64, 128, 256)
    }
    assert many[64] == pytest.approx(1.0, abs=0.02)
    assert many[128] == pytest.approx(1.0, abs=0.03)
    assert many[256] > 2


def test_a_memory_that_holds_few_tiles_keeps_arrays_idle():
    shapes = product_shapes(*(np.array([4096.0]) for _ in range(3)))
    chips = array_chips(
        2, levels=((np.array([64.0, 1.0]) * MEBI, 1e15),), dataflows=(WS,), num_arrays=64, num_rows=128,
        num_cols=128, clock_hz=1.0, core_buffer_bytes=MEBI, hbm_bytes_per_s=1e15,
    )  # fmt: skip
    table = mapped_table(shapes, chips)
    tiles_bytes = [one.num_busy_arrays * one.core_needed_bytes for one in (table.mapped(0, 0), table.mapped(0, 1))]
    assert tiles_bytes[0] <= 16 * MEBI
    assert tiles_bytes[1] <= MEBI / 4


def test_few_items_are_split_along_what_streams():
    shapes = product_shapes(np.array([65536.0]), np.array([128.0]), np.array([128.0]))
    chips = array_chips(
        levels=((1024 * MEBI, 1e12),), dataflows=(WS,), num_arrays=16, num_rows=128, num_cols=128, clock_hz=1.0,
        core_buffer_bytes=2 * KIBI, hbm_bytes_per_s=1e12,
    )  # fmt: skip
    one = mapped_table(shapes, chips).mapped(0, 0)
    assert one.core.held == "weights"
    assert one.num_splits == 16
    assert one.cycles == 65536 / 16 + 2 * 128 + 128 - 2
