from __future__ import annotations

import pytest

from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import TableContext
from dovetail.accuracy.sets import format_of, prepared
from dovetail.accuracy.sets.eager_ops import calls
from dovetail.cost.eager.launches import launched
from dovetail.units import MICRO

COLUMNS = ("kind", "what", "pass", "time_us", "bytes", "flop")
# kinds and forms of the script that measured the table, those that it has no row of among them
ROWS = (
    ("head", "4096x1024x50257", "dgrad"),
    ("head_bias", "4096x1024x50257", "fwd"),
    *((kind, "8192x2048", "fwd") for kind in (
        "to_fp32", "to_bf16", "pow2_fp32", "mean_last_fp32", "mul_row_fp32", "mul_col_bf16", "mul_mixed", "neg",
        "cat_halves", "dropout", "tanh", "pow3", "add_scalar", "softmax_fp32", "sum_rows_fp32", "sum_rows_bf16",
        "gather_rows", "contiguous_t", "logits_float",
    )),
    *((kind, "b2 h16 s4096 d128", "fwd") for kind in ("rope_mul", "rope_rotate", "repeat_kv", "permute_contiguous")),
    ("cross_entropy_fp32", "8192x50257", "fwd"),
    ("cross_entropy_fp32", "8192x50257", "bwd"),
    ("grouped_mm", "65536x2048x768 e128", "fwd"),
    *((kind, "8192x2048 by 65536", "fwd") for kind in ("index_select", "index_add", "index_put_acc")),
    *((f"sdpa_{kind}", "b4 h16 s1024 d64", way) for kind in (
        "causal", "full", "mask", "dropout_causal", "mask_dropout",
    ) for way in ("fwd", "bwd")),
    *((kind, f"{layout} n256 c64 112", way) for kind in (
        "batch_norm", "relu", "max_pool3s2", "avg_pool3s1", "hardswish", "silu",
    ) for layout in ("nchw", "nhwc") for way in ("fwd", "bwd")),
    *(("conv", f"{layout} n128 192->192 1x7/1 of 17 groups1", way) for layout in ("nchw", "nhwc") for way in (
        "fwd", "dgrad", "wgrad",
    )),
    ("conv", "nhwc n512 72->72 3x3/1 of 56 groups72", "wgrad"),
)  # fmt: skip


def table(*rows: tuple[str, ...]) -> Measurements:
    cells = tuple((*row, "100.0", "0", "0")[:6] for row in rows)
    return Measurements(
        name="eager_ops", shown="eager_ops.csv", columns=COLUMNS, rows=cells, lines=tuple(range(2, len(cells) + 2))
    )


@pytest.mark.parametrize(("kind", "what", "way"), ROWS, ids="-".join)
def test_every_call_of_the_script_becomes_operators_with_kernels(kind, what, way):
    found = calls(kind, what, way)
    assert found
    assert all(launched(op) for op in found)


def test_the_table_is_told_by_its_columns_and_predicted_row_by_row():
    measurements = table(("neg", "8192x4096", "fwd"), ("relu", "nhwc n256 c64 112", "bwd"))
    assert format_of(measurements) == "eager-ops"
    [one] = prepared(measurements, TableContext())
    compared = one.compared()
    assert [row.kind for row in compared] == ["neg", "relu"]
    assert compared[0].predicted == pytest.approx(36.6 * MICRO, rel=0.05)  # as add_scalar of the same size was measured


def test_rows_that_no_call_is_known_of_are_left_out_and_counted():
    [one] = prepared(table(("neg", "8192x4096", "fwd"), ("fft", "8192", "fwd")), TableContext())
    assert one.skipped == (("rows of fft, which is not modelled", 1),)
    assert len(one.kinds) == 1


def test_rows_whose_sizes_are_wrong_are_not_said_to_be_of_an_unknown_operator():
    [one] = prepared(table(("neg", "8192x4096", "fwd"), ("head", "bogus", "fwd")), TableContext())
    assert one.skipped == (("rows of head without its 3 sizes, or with a pass other than fwd, bwd, dgrad, wgrad", 1),)


@pytest.mark.parametrize("row", [("neg", "8192", "fwd"), ("neg", "0x4096", "fwd"), ("neg", "8x8", "sideways")])
def test_words_that_do_not_give_the_sizes_give_no_call(row):
    assert calls(*row) == ()


def test_a_gradient_is_no_sooner_than_autograd_hands_it_out():
    small = table(("relu", "nhwc n1 c8 8", "fwd"), ("relu", "nhwc n1 c8 8", "bwd"))
    [one] = prepared(small, TableContext())
    forward, backward = (row.predicted for row in one.compared())
    assert backward > 5 * forward
