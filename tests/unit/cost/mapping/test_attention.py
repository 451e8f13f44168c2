from __future__ import annotations

import numpy as np
import pytest

from dovetail.cost.mapping.attention import AttentionEngines, AttentionShapes, array_attention_s, product_width
from dovetail.errors import InvalidInput


def shapes(keys, values, scores=1e6):
    return AttentionShapes(
        num_scores=np.array([scores]), key_width=np.array([float(keys)]), value_width=np.array([float(values)])
    )


def engines(**changed):
    given = {"num_arrays": 4, "num_rows": 256, "num_cols": 256, "num_lanes": 1024, "num_alus": 4, "clock_hz": 1.0}
    return AttentionEngines(**{name: np.array([float(one)]) for name, one in (given | changed).items()})


def test_a_head_half_as_wide_as_an_array_half_fills_it():
    assert product_width(shapes(128, 128), engines(), is_backward=False)[0, 0] == 512
    assert product_width(shapes(128, 128), engines(num_rows=128, num_cols=128), is_backward=False)[0, 0] == 256


def test_backward_runs_five_products_each_over_its_own_side_of_the_array():
    # scores again (rows, keys), dP (rows, values), dV (columns, values), dQ and dK (columns, keys)
    found = product_width(shapes(192, 128), engines(num_rows=128, num_cols=64), is_backward=True)
    assert found[0, 0] == 256 + 128 + 128 + 2 * 192


def test_products_and_vector_slots_add_up_unless_said_otherwise():
    # 512 of 262,144 multipliers, six slots of 4 ALUs on 1,024 lanes
    apart = 512 / (4 * 256 * 256), 6 / 4 / 1024
    assert array_attention_s(shapes(128, 128), engines(), is_backward=False)[0, 0] == pytest.approx(1e6 * sum(apart))
    hidden = array_attention_s(shapes(128, 128), engines(), is_backward=False, overlap_frac=1.0)
    assert hidden[0, 0] == pytest.approx(1e6 * max(apart))
    backward = array_attention_s(shapes(128, 128), engines(), is_backward=True)
    assert backward[0, 0] == pytest.approx(1e6 * (5 * 256 / (4 * 256 * 256) + 10 / 4 / 1024))


def test_no_lane_forms_more_than_one_exponential_per_clock():
    many = array_attention_s(shapes(64, 64), engines(num_alus=100, num_arrays=64), is_backward=False, overlap_frac=1.0)
    assert many[0, 0] == pytest.approx(1e6 / 1024)


def test_attentions_by_chips():
    two = AttentionEngines(
        **{
            name: np.array([first, second], dtype=float)
            for name, first, second in (
                ("num_arrays", 4, 8), ("num_rows", 256, 128), ("num_cols", 256, 128), ("num_lanes", 1024, 2048),
                ("num_alus", 4, 4), ("clock_hz", 1.75e9, 1.05e9),
            )
        }
    )  # fmt: skip
    three = AttentionShapes(
        num_scores=np.array([1e6, 2e6, 4e6]), key_width=np.full(3, 128.0), value_width=np.full(3, 128.0)
    )
    found = array_attention_s(three, two, is_backward=True)
    assert found.shape == (3, 2)
    assert found[2] == pytest.approx(4 * found[0])


def test_impossible_overlap_and_engines_are_refused():
    with pytest.raises(InvalidInput):
        array_attention_s(shapes(64, 64), engines(), is_backward=False, overlap_frac=1.5)
    with pytest.raises(InvalidInput) as refused:
        engines(num_lanes=0)
    assert refused.value.where == "num_lanes"
