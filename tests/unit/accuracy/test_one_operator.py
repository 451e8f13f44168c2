from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest

from dovetail.accuracy.one_operator import OperatorQuery, has_array, kinds, op_answer
from dovetail.errors import InvalidInput, NotModelled
from dovetail.hardware.catalog import chips

H200, TPU = chips["h200-sxm"](), chips["tpu-v5e"]()
ATTENTION = OperatorQuery(kind="attention", batch=4, heads=32, seq=2048, head_width=128)


def test_a_product_is_no_faster_than_its_roofline():
    found = op_answer(OperatorQuery(kind="matmul", dims=(4096, 4096, 4096)), H200, is_compared=True)
    assert found.what == "C[4096,4096] = A[4096,4096] B[4096,4096]"
    assert found.flop == 2 * 4096**3
    assert found.flop_per_s < found.peak_flop_per_s
    [roofline] = found.others
    assert roofline.time_s < found.time_s
    assert roofline.time_s == pytest.approx(found.flop / found.peak_flop_per_s)
    assert (found.limit, roofline.limit) == ("tensor", "tensor")


def test_gradients_contract_over_other_sizes_of_the_forward_product():
    shapes = {way: op_answer(OperatorQuery(kind="linear", dims=(5, 7, 9), phase=way), H200).what
              for way in ("forward", "input-grad", "weight-grad")}  # fmt: skip
    assert shapes == {
        "forward": "C[5,7] = A[5,9] B[9,7]",
        "input-grad": "C[5,9] = A[5,7] B[7,9]",
        "weight-grad": "C[9,7] = A[9,5] B[5,7]",
    }


def test_closed_forms_stand_beside_products_on_chips_with_arrays_only():
    product = OperatorQuery(kind="matmul", dims=(512, 512, 512))
    assert has_array(TPU)
    assert not has_array(H200)
    names = [other.model for other in op_answer(product, TPU, is_compared=True).others]
    assert names[0] == "roofline at peak"
    assert names[1:3] == ["output-stationary, exact", "output-stationary, overlapped"]
    assert len(names) == 7
    assert len(op_answer(product, H200, is_compared=True).others) == 1
    assert len(op_answer(OperatorQuery(kind="gelu", dims=(64, 64)), TPU, is_compared=True).others) == 1


def test_attention_takes_its_heads_apart_and_its_mask_into_account():
    whole = op_answer(ATTENTION, H200)
    assert whole.what == "128 heads, 2048 queries by 2048 keys, width 128"
    causal = op_answer(
        OperatorQuery(kind="attention", batch=4, heads=32, seq=2048, head_width=128, is_causal=True), H200
    )
    assert causal.flop == whole.flop / 2


def test_an_update_is_in_fp32_and_bound_by_memory():
    found = op_answer(OperatorQuery(kind="adamw", dims=(10**9,)), H200)
    assert (found.kind, found.dtype, found.phase, found.limit) == ("adam", "fp32", "update", "hbm")
    assert found.hbm_bytes == 28 * 10**9


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (OperatorQuery(kind="matmull", dims=(1, 1, 1)), "did you mean matmul"),
        (OperatorQuery(kind="gather", dims=(1, 1)), "no operator is named 'gather'"),
        (OperatorQuery(kind="matmul", dims=(1, 1)), "matmul takes M, N and K"),
        (OperatorQuery(kind="gelu", dims=(1, 1, 1)), "gelu takes rows and columns; got 3 sizes"),
        (OperatorQuery(kind="gelu"), "gelu takes rows and columns; got 0 sizes"),
        (OperatorQuery(kind="attention", dims=(1,)), "attention takes no sizes but"),
        (OperatorQuery(kind="attention", seq=8), "attention needs --seq and --head-dim"),
        (
            OperatorQuery(kind="attention", seq=8, head_width=8, heads=6, kv_heads=4),
            "kv-heads must divide heads; got 4 of 6",
        ),
        (OperatorQuery(kind="conv", dims=(1,)), "conv takes in channels"),
        (OperatorQuery(kind="matmul", dims=(1, 1, 1), dtype="fp7"), "no dtype is named 'fp7'"),
        (OperatorQuery(kind="matmul", dims=(1, 1, 1), phase="back"), "no pass is named 'back'"),
    ],
)
def test_what_cannot_be_is_refused_in_words(asked, words):
    with pytest.raises(InvalidInput) as refused:
        op_answer(asked, H200)
    assert words in str(refused.value)


def plain(kind: str) -> OperatorQuery:
    if kind == "attention":
        return OperatorQuery(kind=kind, seq=256, head_width=64)
    if kind == "convolution":
        return OperatorQuery(kind=kind, dims=(64, 64, 56), window=3)
    return OperatorQuery(kind=kind, dims=(256, 512, 128) if kind.endswith(("linear", "matmul")) else (256, 512))


@pytest.mark.parametrize(
    "asked",
    [
        replace(plain("matmul"), heads=8),
        replace(plain("matmul"), kv_heads=2),
        replace(plain("gelu"), seq=64),
        replace(plain("convolution"), head_width=64),
        replace(plain("gelu"), is_causal=True),
        replace(plain("matmul"), window=3),
        replace(plain("attention"), stride=2),
        replace(plain("gelu"), table_rows=9),
    ],
)
def test_what_is_of_another_operator_is_refused(asked):
    with pytest.raises(InvalidInput, match=r"^--[a-z-]+ is of (attention|convolution|embedding); leave it out$"):
        op_answer(asked, H200)


@pytest.mark.parametrize("kind", kinds())
def test_fused_changes_every_operator_that_takes_it(kind):
    asked = replace(plain(kind), batch=2)  # experts are fused where there are several
    with contextlib.suppress(InvalidInput):
        assert op_answer(replace(asked, is_fused=True), H200) != op_answer(asked, H200)


def test_fused_is_refused_where_it_changes_nothing():
    with pytest.raises(InvalidInput, match="--fused is of operators that PyTorch gives more passes, such as layernorm"):
        op_answer(replace(plain("gelu"), is_fused=True), H200)
    assert op_answer(replace(plain("layernorm"), is_fused=True), H200).time_s > 0


def test_an_update_has_one_pass_and_one_dtype():
    with pytest.raises(InvalidInput, match="an update has one pass"):
        op_answer(OperatorQuery(kind="adam", dims=(64,), phase="weight-grad"), H200)
    with pytest.raises(InvalidInput, match="computed in fp32, not in fp16"):
        op_answer(OperatorQuery(kind="sgd", dims=(64,), dtype="fp16"), H200)


def test_a_dtype_without_a_rate_is_not_modelled():
    with pytest.raises(NotModelled, match="no rate for fp8"):
        op_answer(OperatorQuery(kind="matmul", dims=(8, 8, 8), dtype="fp8"), chips["a100-80gb-sxm"]())


@pytest.mark.parametrize("kind", kinds())
def test_every_operator_that_does_work_can_be_asked_about(kind):
    found = op_answer(plain(kind), H200, is_compared=True)
    assert found.time_s > 0
    assert found.energy_j > 0
