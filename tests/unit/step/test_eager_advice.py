"""Changes of a recorded step: what they change, and that what they gain is what the operators gain."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.hardware.catalog import chips
from dovetail.step.eager import eager_step
from dovetail.step.eager_advice import (
    advice_of,
    with_channels_last,
    with_narrow_logits,
    with_side,
    with_tf32,
    without_masks,
)
from dovetail.step.eager_fusions import FREE, with_fused_norms
from dovetail.workload.dispatched import BACKWARD, CAUSAL_MASK, OPTIMIZER, Argument, DispatchedOp, DispatchedStep
from tests.unit.cost.eager.dispatched import call, dense, last, turned

CHIP = chips["h200-sxm"]() if "h200-sxm" in chips else chips["h200"]()
TOKENS, WIDTH, VOCAB = 16_384, 1024, 50_257


def step_of(*ops: DispatchedOp) -> DispatchedStep:
    return DispatchedStep(
        ops=ops, module_calls=(0,) * len(ops), live_bytes=(0,) * len(ops), state_bytes=0, num_parameters=1
    )


def head(vocab: int = VOCAB, *, is_autocast: bool = False) -> DispatchedStep:
    """A product with a table, a cast of its result, its loss's softmax, their gradients, and the table's update.

    Before it there is a wide layer in fp32, with a cast that is of no logits.
    """
    x, table, logits = dense(TOKENS, WIDTH), dense(vocab, WIDTH), dense(TOKENS, vocab)
    wide, hidden = dense(TOKENS, vocab, dtype="fp32"), dense(TOKENS, 4 * WIDTH)
    hidden_wide = dense(TOKENS, 4 * WIDTH, dtype="fp32")
    kept = dense(vocab, WIDTH, dtype="fp32") if is_autocast else table
    softmax = call("_log_softmax.default", (wide,), wide, dim=1, half_to_float=False)
    backward = (
        replace(call("_log_softmax_backward_data.default", (wide, wide), wide, dim=1), module="loss"),
        replace(call("_to_copy.default", (wide,), logits, dtype="bf16"), module="loss"),
        replace(call("_to_copy.default", (hidden_wide,), hidden, dtype="bf16"), module="mlp"),
    )
    return step_of(
        replace(call("_to_copy.default", (hidden,), hidden_wide, dtype="fp32"), module="mlp"),
        replace(call("mm.default", (x, turned(table)), logits), module="lm_head"),
        replace(call("_to_copy.default", (logits,), wide, dtype="fp32"), module="loss", line="loss.py:59"),
        replace(softmax, module="loss", line="loss.py:40"),
        *(replace(op, phase=BACKWARD) for op in backward),
        replace(call("add.Tensor", (kept, kept), kept), phase=OPTIMIZER),
    )


def test_a_padded_vocabulary_gains_what_its_head_gains():
    [best, *_] = advice_of(head(), CHIP)
    assert best.change == "pad the vocabulary from 50,257 to 50,304"
    assert best.module == "lm_head"
    now, then = (eager_step(each, CHIP) for each in (head(), head(50_304)))
    assert best.gain_s == pytest.approx(now.step_s - then.step_s)


def test_a_vocabulary_of_a_multiple_is_left():
    assert not [one for one in advice_of(head(50_304), CHIP) if "vocabulary" in one.change]
    assert with_side(head(50_304), VOCAB, 50_304) is None


def test_logits_stay_narrow_and_their_casts_fall_away():
    found = with_narrow_logits(head())
    assert found is not None
    assert [place for place, op in enumerate(found.ops) if op.name == FREE] == [2, 5]
    logits = [
        tensor for op in found.ops[1:6] for tensor in (*op.inputs, *op.outputs) if tensor and VOCAB in tensor.shape
    ]
    assert {tensor.dtype for tensor in logits} == {"bf16"}
    assert (found.ops[0], found.ops[6]) == (head().ops[0], head().ops[6])
    assert eager_step(found, CHIP).step_s < eager_step(head(), CHIP).step_s


def test_advice_on_logits_names_the_line_that_casts_them():
    [found] = [one for one in advice_of(head(), CHIP) if "logits in the dtype" in one.change]
    assert (found.module, found.line) == ("loss", "loss.py:59")


def test_what_is_cast_for_other_reasons_is_no_logits():
    assert with_narrow_logits(head(is_autocast=True)) is None  # autocast casts what a loss reads
    no_loss = head()
    assert with_narrow_logits(replace(no_loss, ops=tuple(op for op in no_loss.ops if "softmax" not in op.name))) is None


def products(dtype: str) -> DispatchedStep:
    x = dense(8192, 8192, dtype=dtype)
    return step_of(call("mm.default", (x, x), x))


def test_fp32_products_are_advised_to_run_in_tf32():
    [best, *_] = advice_of(products("fp32"), CHIP)
    assert "set_float32_matmul_precision('high')" in best.change
    fast_s = eager_step(replace(products("fp32"), has_tf32=True), CHIP).step_s
    assert best.gain_s == pytest.approx(eager_step(products("fp32"), CHIP).step_s - fast_s)
    assert with_tf32(products("bf16")) is with_tf32(replace(products("fp32"), has_tf32=True)) is None
    v100 = chips["v100-32gb-pcie"]()
    assert not [one for one in advice_of(products("fp32"), v100) if "TF32" in one.change]


def convolved(layout) -> DispatchedStep:
    x, weight = layout(64, 256, 56, 56), layout(256, 256, 3, 3)
    more: dict[str, Argument] = {
        "stride": (1, 1),
        "padding": (1, 1),
        "dilation": (1, 1),
        "transposed": False,
        "groups": 1,
    }
    return step_of(call("convolution.default", (x, weight, None), x, **more), call("relu.default", (x,), x))


def test_channels_last_is_the_layout_of_every_image():
    assert with_channels_last(convolved(dense)) == convolved(last)
    assert with_channels_last(convolved(last)) is None
    assert with_channels_last(head()) is None
    gained_s = eager_step(convolved(dense), CHIP).step_s - eager_step(convolved(last), CHIP).step_s
    assert gained_s > 0


def norm_step() -> DispatchedStep:
    x, wide, one = dense(TOKENS, WIDTH), dense(TOKENS, WIDTH, dtype="fp32"), dense(TOKENS, 1, dtype="fp32")
    written = (
        call("_to_copy.default", (x,), wide, dtype="fp32"),
        call("pow.Tensor_Scalar", (wide,), wide, exponent=2),
        call("mean.dim", (wide,), one, dim=(-1,), keepdim=True),
        call("add.Tensor", (one,), one, other=1e-6),
        call("rsqrt.default", (one,), one),
        call("mul.Tensor", (wide, one), wide),
        call("_to_copy.default", (wide,), x, dtype="bf16"),
    )
    return step_of(*(replace(op, module="layers.0.norm") for op in written))


def test_a_norm_written_out_becomes_one_kernel():
    found = with_fused_norms(norm_step())
    assert found is not None
    assert [op.name for op in found.ops] == ["aten._fused_rms_norm.default"] + [FREE] * 6
    assert eager_step(found, CHIP).launches.sum() == 1
    assert eager_step(found, CHIP).operator_s.sum() < eager_step(norm_step(), CHIP).operator_s.sum() / 3


def masked(**more: Argument) -> DispatchedStep:
    q, mask = dense(4, 16, 2048, 128), dense(4, 1, 2048, 2048)
    name = "_scaled_dot_product_efficient_attention"
    forward = call(f"{name}.default", (q, q, q, mask), q, dropout_p=0.0, is_causal=False, **more)
    backward = call(f"{name}_backward.default", (q, q, q, q, mask, q), q, dropout_p=0.0, **more)
    return step_of(forward, replace(backward, phase=BACKWARD))


def test_attention_with_a_causal_mask_is_causal_flash_attention():
    found = without_masks(masked(**{CAUSAL_MASK: True}))
    assert found is not None
    assert all("flash_attention" in op.name and dict(op.arguments)["is_causal"] for op in found.ops)
    assert eager_step(found, CHIP).step_s < eager_step(masked(), CHIP).step_s / 1.5


def test_a_square_mask_that_is_not_known_to_be_causal_is_left():
    assert without_masks(masked()) is None


def test_a_host_bound_step_is_advised_to_use_cuda_graphs():
    small = dense(8, 8)
    [best, *_] = advice_of(step_of(*(call("relu.default", (small,), small) for _ in range(200))), CHIP)
    assert best.change.startswith("host-bound: CUDA graphs")
    assert best.gain_frac > 0.5
