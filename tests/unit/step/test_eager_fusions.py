"""Operators that one kernel could run: what falls away, what stays, and what is left alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.hardware.catalog import chips
from dovetail.step.eager import eager_step
from dovetail.step.eager_advice import advice_of
from dovetail.step.eager_fusions import (
    FREE,
    with_fused_attention,
    with_fused_gelu,
    with_fused_loss,
    with_fused_norms,
    with_fused_rotary,
    with_fused_update,
)
from dovetail.workload.compiled import FUSED, fused_kernel
from dovetail.workload.dispatched import BACKWARD, OPTIMIZER, DispatchedOp, DispatchedStep
from tests.unit.cost.eager.dispatched import call, dense

CHIP = chips["h200-sxm"]()
TOKENS, WIDTH, VOCAB = 8192, 1024, 50_304


def step_of(*ops: DispatchedOp) -> DispatchedStep:
    zeros = (0,) * len(ops)
    return DispatchedStep(ops=ops, module_calls=zeros, live_bytes=zeros, state_bytes=0, num_parameters=1)


def at(op: DispatchedOp, module: str, line: str = "", phase: str = "forward") -> DispatchedOp:
    return replace(op, module=module, line=line, phase=phase)


def names(step: DispatchedStep | None) -> list[str]:
    assert step is not None
    return [op.name for op in step.ops]


def rotary(phase: str = "forward") -> list[DispatchedOp]:
    """Queries turned, as Hugging Face writes it, with a product before them that stays."""
    x, half, angle = dense(4, 16, 2048, 128), dense(4, 16, 2048, 64), dense(1, 1, 2048, 128)
    ops = [
        ("mm.default", (dense(TOKENS, 2048), dense(2048, 2048)), dense(TOKENS, 2048), "254"),
        ("mul.Tensor", (x, angle), x, "158"),
        ("slice.Tensor", (x,), half, "132"),
        ("neg.default", (half,), half, "134"),
        ("cat.default", (half, half), x, "134"),
        ("mul.Tensor", (x, angle), x, "158"),
        ("add.Tensor", (x, x), x, "158"),
    ]
    return [
        at(call(name, inputs, out), "layers.0.attn", f"model.py:{line}", phase)
        for name, inputs, out, line in (ops if phase == "forward" else ops[1:])
    ]


def test_rotary_written_out_becomes_one_kernel_and_products_stay():
    step = step_of(*rotary(), *rotary(BACKWARD))
    found = with_fused_rotary(step)
    assert names(found) == ["aten.mm.default", FUSED, *[FREE] * 5, FUSED, *[FREE] * 5]
    assert found is not None
    x_bytes = dense(4, 16, 2048, 128).num_bytes
    kernel = fused_kernel(found.ops[1])
    assert (kernel.read_bytes, kernel.written_bytes) == (x_bytes, x_bytes)
    assert eager_step(found, CHIP).step_s < eager_step(step, CHIP).step_s


def test_what_joins_halves_without_a_turn_is_no_rotary_embedding():
    half, x = dense(4, 16, 2048, 64), dense(4, 16, 2048, 128)
    joined = at(call("cat.default", (half, half), x), "layers.0.attn", "model.py:1")
    assert with_fused_rotary(step_of(joined)) is None


def test_a_line_of_code_stands_beside_what_it_gains():
    [best] = [one for one in advice_of(step_of(*rotary()), CHIP) if "rotary" in one.change]
    assert best.module == "layers.*.attn"
    assert best.line == "model.py:158"


def gelu() -> list[DispatchedOp]:
    x = dense(TOKENS, 4 * WIDTH)
    words = ("pow.Tensor_Scalar", "mul.Tensor", "add.Tensor", "mul.Tensor", "tanh.default", "add.Tensor", "mul.Tensor")
    return [at(call(word, (x, x) if word == "add.Tensor" else (x,), x, exponent=3), "h.0.mlp.act") for word in words]


def test_a_gelu_written_out_becomes_pytorchs_own():
    found = with_fused_gelu(step_of(*gelu()))
    assert names(found) == ["aten.gelu.default", *[FREE] * 6]
    assert with_fused_gelu(step_of(*(op for op in gelu() if "tanh" not in op.name))) is None


def test_the_sum_with_a_residuals_gradient_stays_behind_a_fused_norm():
    x, wide, one = dense(TOKENS, WIDTH), dense(TOKENS, WIDTH, dtype="fp32"), dense(TOKENS, 1, dtype="fp32")
    forward = [call("pow.Tensor_Scalar", (wide,), wide, exponent=2), call("mean.dim", (wide,), one, dim=(-1,))]
    forward += [call("rsqrt.default", (one,), one), call("mul.Tensor", (wide, one), wide)]
    backward = [call("mul.Tensor", (wide, wide), wide), call("_to_copy.default", (wide,), x, dtype="bf16")]
    backward.append(call("add.Tensor", (x, x), x))
    step = step_of(*(at(op, "norm") for op in forward), *(at(op, "norm", "", BACKWARD) for op in backward))
    assert names(with_fused_norms(step))[4:] == ["aten._fused_rms_norm_backward.default", FREE, "aten.add.Tensor"]


def loss(phase_of_gradient: str = BACKWARD) -> DispatchedStep:
    logits, wide = dense(TOKENS, VOCAB), dense(TOKENS, VOCAB, dtype="fp32")
    labels, one = dense(TOKENS, dtype="int64"), dense(1, dtype="fp32")
    return step_of(
        call("mm.default", (dense(TOKENS, WIDTH), dense(WIDTH, VOCAB)), logits),
        call("_to_copy.default", (logits,), wide, dtype="fp32"),
        call("_log_softmax.default", (wide,), wide, dim=1, half_to_float=False),
        call("nll_loss_forward.default", (wide, labels, None), one),
        *(
            replace(op, phase=phase_of_gradient)
            for op in (
                call("nll_loss_backward.default", (one, wide, labels, None, one), wide),
                call("_log_softmax_backward_data.default", (wide, wide), wide, dim=1),
                call("_to_copy.default", (wide,), logits, dtype="bf16"),
                call("mm.default", (logits, dense(VOCAB, WIDTH)), dense(TOKENS, WIDTH)),
            )
        ),
    )


def test_a_fused_loss_reads_narrow_logits_twice_and_writes_their_gradient_once():
    found = with_fused_loss(loss())
    assert names(found) == ["aten.mm.default", FREE, FUSED, FREE, FREE, FREE, FREE, "aten.mm.default"]
    assert found is not None
    kernel = fused_kernel(found.ops[2])
    assert kernel.read_bytes == 2 * kernel.written_bytes == 2 * TOKENS * VOCAB * 2
    assert with_fused_loss(step_of(*loss().ops[:2])) is None


def adam(*, is_foreach: bool, **counts: int) -> DispatchedStep:
    shapes = [dense(64, 64), dense(64)]
    lists = {"lerp": 2, "mul": 1, "addcmul": 3, "sqrt": 1, "div": 1, "add": 1, "addcdiv": 3}
    ops = []
    for word, count in lists.items():
        for _ in range(counts.get(word, 1)):
            if is_foreach:
                tensors = tuple(one for _ in range(count) for one in shapes)
                ops.append(call(f"_foreach_{word}_.Scalar", tensors, shapes[0]))
            else:
                ops += [call(f"{word}_.default", (one,) * count, one) for one in shapes]
    return step_of(*(replace(op, phase=OPTIMIZER) for op in ops))


@pytest.mark.parametrize("is_foreach", [True, False])
def test_adam_in_parts_becomes_one_fused_update(is_foreach):
    step = adam(is_foreach=is_foreach)
    found = with_fused_update(step)
    assert names(found) == ["aten._fused_adamw_.default", *[FREE] * (len(step.ops) - 1)]
    assert found is not None
    shapes = [one.shape for one in found.ops[0].inputs if one is not None]
    assert sorted(shapes) == sorted([(64, 64), (64,)] * 4)  # parameters, gradients and both moments


def test_updates_of_other_optimizers_are_left():
    assert with_fused_update(adam(is_foreach=True, addcdiv=2)) is None  # NAdam's second
    assert with_fused_update(adam(is_foreach=True, sqrt=0)) is None  # Adamax
    fused = replace(call("_fused_adamw_.default", (dense(8),) * 4, dense(8)), phase=OPTIMIZER)
    assert with_fused_update(step_of(fused)) is None


def written_attention() -> DispatchedStep:
    q, k, scores = dense(64, 1024, 64), dense(64, 64, 1024), dense(64, 1024, 1024)
    chances = dense(4, 16, 1024, 1024)
    forward = [
        call("bmm.default", (q, k), scores),
        call("add.Tensor", (chances, chances), chances),
        call("_softmax.default", (chances,), chances, dim=-1, half_to_float=False),
        call("bmm.default", (scores, q), q),
    ]
    backward = [
        call("bmm.default", (scores, q), q),  # of the values
        call("bmm.default", (q, k), scores),  # of the chances
        call("_softmax_backward_data.default", (chances, chances), chances, dim=-1, input_dtype="bf16"),
        call("bmm.default", (scores, q), q),  # of the queries
        call("bmm.default", (k, scores), k),  # of the keys
    ]
    return step_of(
        *(at(op, "attn") for op in forward),
        *(at(op, "attn", "", BACKWARD) for op in backward),
        call("mm.default", (dense(64, 64), dense(64, 64)), dense(64, 64)),
    )


def test_attention_whose_scores_are_written_out_becomes_one_kernel_each_way():
    found = with_fused_attention(written_attention())
    kernel = "aten._scaled_dot_product_flash_attention"
    assert names(found) == [
        f"{kernel}.default", *[FREE] * 3, f"{kernel}_backward.default", *[FREE] * 4, "aten.mm.default"
    ]  # fmt: skip
    assert found is not None
    query = found.ops[4].inputs[1]
    assert query is not None
    assert query.shape == (1, 64, 1024, 64)
    assert eager_step(found, CHIP).step_s < eager_step(written_attention(), CHIP).step_s / 2


def test_a_softmax_beside_no_products_is_left():
    x = dense(4, 16, 1024, 1024)
    assert with_fused_attention(step_of(call("_softmax.default", (x,), x, dim=-1, half_to_float=False))) is None


def test_attention_of_the_math_backend_whose_mask_has_a_gradient_is_told_apart():
    plain = written_attention()
    safe = [replace(op, name=op.name.replace("_softmax.d", "_safe_softmax.d")) for op in plain.ops]
    chances = dense(4, 16, 1024, 1024)
    of_mask = at(call("sum.dim_IntList", (chances,), dense(1, 16, 1024, 1024), dim=(0,)), "attn", "", BACKWARD)
    step = step_of(*safe, of_mask)
    assert with_fused_attention(step) is None
    assert names(with_fused_attention(step, is_math=True))[:2] == names(with_fused_attention(plain))[:2]
    assert with_fused_attention(plain, is_math=True) is None
    [words] = [one.change for one in advice_of(step, CHIP) if "FlexAttention" in one.change]
    assert "needs a gradient, so PyTorch falls back to the math backend" in words
