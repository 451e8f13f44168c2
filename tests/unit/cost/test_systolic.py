from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.cost.systolic import DATAFLOWS, convolution_product, systolic_cycles
from dovetail.errors import InvalidInput

SIZES = st.integers(1, 5000)
ARRAYS = st.tuples(st.integers(1, 256), st.integers(1, 256))


def cycles(m, n, k, array, dataflow, **more) -> float:
    shape = (np.array([float(size)]) for size in (m, n, k))
    return float(systolic_cycles(*shape, num_rows=array[0], num_cols=array[1], dataflow=dataflow, **more)[0])


@pytest.mark.parametrize(
    ("dataflow", "expected"),
    # SCALE-Sim 3.0.0 on 16x16x16 and an 8x8 array
    [("output-stationary", 119), ("weight-stationary", 151), ("input-stationary", 151)],
)
def test_a_small_product_takes_the_cycles_that_scale_sim_counts(dataflow, expected):
    assert cycles(16, 16, 16, (8, 8), dataflow) == expected


@given(SIZES, SIZES, SIZES, ARRAYS, st.sampled_from(DATAFLOWS))
def test_overlap_never_slows_and_no_array_beats_its_multipliers(m, n, k, array, dataflow):
    exact = cycles(m, n, k, array, dataflow)
    overlapped = cycles(m, n, k, array, dataflow, is_overlapped=True)
    assert overlapped <= exact
    assert overlapped >= m * n * k / (array[0] * array[1]) - 1


@given(SIZES, SIZES, SIZES, ARRAYS, st.sampled_from(DATAFLOWS), st.sampled_from((0, 1, 2)), st.booleans())
def test_a_larger_product_never_takes_fewer_cycles(m, n, k, array, dataflow, which, is_overlapped):
    more = [17 if place == which else 0 for place in range(3)]
    larger = (m + more[0], n + more[1], k + more[2])
    small = cycles(m, n, k, array, dataflow, is_overlapped=is_overlapped)
    assert cycles(larger[0], larger[1], larger[2], array, dataflow, is_overlapped=is_overlapped) >= small


@given(SIZES, SIZES, SIZES, ARRAYS, st.sampled_from(DATAFLOWS), st.integers(1, 64))
def test_more_arrays_never_slow(m, n, k, array, dataflow, num_arrays):
    one = cycles(m, n, k, array, dataflow)
    assert cycles(m, n, k, array, dataflow, num_arrays=num_arrays) <= one


def test_overlap_shows_the_fill_of_the_first_tile_only():
    # four tiles of 8x8 over 16 steps; 8 + 8 - 2 to fill and drain, and 8 more to load where an operand is held
    assert cycles(16, 16, 16, (8, 8), "output-stationary", is_overlapped=True) == 4 * 16 + 14 - 1
    assert cycles(16, 16, 16, (8, 8), "weight-stationary", is_overlapped=True) == 4 * 16 + 22 - 1


def test_tiles_are_dealt_out_in_whole_rounds():
    assert cycles(16, 16, 16, (8, 8), "output-stationary", num_arrays=2) == 2 * (16 + 14) - 1
    assert cycles(16, 16, 16, (8, 8), "output-stationary", num_arrays=3) == 2 * (16 + 14) - 1
    assert cycles(16, 16, 16, (8, 8), "output-stationary", num_arrays=4) == 16 + 14 - 1


def test_rows_of_a_column_are_told_apart():
    found = systolic_cycles(
        np.array([16.0, 32.0]), np.array([16.0, 16.0]), np.array([16.0, 16.0]),
        num_rows=np.array([8.0, 16.0]), num_cols=np.array([8.0, 16.0]), dataflow="output-stationary",
    )  # fmt: skip
    assert found.tolist() == [119, cycles(32, 16, 16, (16, 16), "output-stationary")]


def test_an_unknown_dataflow_is_refused_with_the_known_ones():
    with pytest.raises(InvalidInput, match="did you mean output-stationary"):
        cycles(1, 1, 1, (1, 1), "output_stationary")


def test_a_convolution_is_unrolled_with_output_sizes_rounded_up():
    one = [np.array([size]) for size in (230, 230, 7, 7, 3, 64, 2)]
    height, width, window_h, window_w, cin, cout, stride = one
    m, n, k = convolution_product(height, width, (window_h, window_w), cin, cout, stride)
    assert (m[0], n[0], k[0]) == (113 * 113, 64, 147)
