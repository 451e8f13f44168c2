"""A training step as PyTorch dispatches it: operators in order, as CUDA would have them, and the memory they hold."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812  the name everyone gives it
from torch import nn
from torch.utils.checkpoint import checkpoint

from dovetail.errors import InvalidInput, NotModelled
from dovetail.importers.torch_cuda import attention_backend
from dovetail.importers.torch_dispatch import rounded_bytes
from dovetail.importers.torch_step import StepJob, recorded_step
from dovetail.workload.dispatched import BACKWARD, FORWARD, OPTIMIZER, DispatchedOp, DispatchedStep

WIDTH = 64


class Toy(nn.Module):
    """Linear layers, and between them whatever a test says."""

    def __init__(self, between: Any, **modules: nn.Module) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.last = nn.Linear(WIDTH, WIDTH)
        self.between = between
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.between(self, self.first(x))).float().sum()


def step_of(
    between: Any, *sides: int, dtype: torch.dtype = torch.bfloat16, job: Any = None, **modules: Any
) -> DispatchedStep:
    with torch.device("meta"):
        model = Toy(between, **modules).to(torch.float32 if job and job.autocast else dtype).train()
        inputs = torch.empty(*(sides or (4, 32, WIDTH)), dtype=torch.float32 if job and job.autocast else dtype)
    return recorded_step(model, (inputs,), {}, job or StepJob())


def names(step: DispatchedStep, phase: str = FORWARD) -> list[str]:
    return [op.name.removeprefix("aten.").partition(".")[0] for op in step.ops if op.phase == phase]


def one(step: DispatchedStep, name: str, phase: str = FORWARD) -> DispatchedOp:
    [found] = [op for op in step.ops if op.name.startswith(f"aten.{name}.") and op.phase == phase]
    return found


def test_forward_backward_and_update_come_in_the_order_of_dispatch() -> None:
    step = step_of(lambda _, x: F.silu(x))
    assert [name for name in names(step) if name in ("addmm", "silu", "sum")] == ["addmm", "silu", "addmm", "sum"]
    assert Counter(names(step, BACKWARD))["mm"] == 3  # no gradient of the input
    assert names(step, OPTIMIZER) == ["_foreach_add_", "_fused_adamw_"]
    assert step.num_parameters == 2 * (WIDTH * WIDTH + WIDTH)
    assert step.num_updated == 4


def test_a_gradient_belongs_to_the_module_and_line_of_its_operator() -> None:
    step = step_of(lambda _, x: F.silu(x))
    silu = one(step, "silu_backward", BACKWARD)
    assert silu.line == one(step, "silu").line != ""
    assert {op.module for op in step.ops if op.name == "aten.addmm.default"} == {"first", "last"}
    assert {op.module for op in step.ops if op.name == "aten.mm.default"} == {"first", "last"}


def test_what_is_there_when_a_step_begins_is_weights_moments_counters_and_inputs() -> None:
    step = step_of(lambda _, x: x)
    matrix, bias = rounded_bytes(2 * WIDTH * WIDTH), rounded_bytes(2 * WIDTH)
    counters, inputs = 4 * rounded_bytes(4), rounded_bytes(2 * 4 * 32 * WIDTH)
    assert step.state_bytes == 3 * 2 * (matrix + bias) + counters + inputs
    assert sum(step.state_allocations) == step.state_bytes


def test_everything_that_a_step_allocates_is_freed_by_its_end() -> None:
    step = step_of(lambda _, x: F.silu(x))
    made = sum(size for size in step.allocations if size >= 0)
    sizes = [size for size in step.allocations if size >= 0]
    freed = sum(sizes[-event - 1] for event in step.allocations if event < 0)
    assert made == freed > 0


def test_silu_keeps_its_input_for_the_backward_pass_and_relu_its_output() -> None:
    """Both keep one tensor; an addition keeps none."""
    size = rounded_bytes(2 * 4 * 32 * WIDTH)

    def live_at_backward(between: Any) -> int:
        step = step_of(between)
        return next(live for op, live in zip(step.ops, step.live_bytes, strict=True) if op.phase == BACKWARD)

    plain = live_at_backward(lambda _, x: x + 1)
    assert live_at_backward(lambda _, x: F.silu(x)) == plain + size  # the input, and the output which `last` keeps
    assert live_at_backward(lambda _, x: F.relu(x)) == plain


def test_dropout_is_one_kernel_and_keeps_a_mask_of_truth_values() -> None:
    step = step_of(lambda _, x: F.dropout(x, 0.1))
    assert [meta.dtype for meta in one(step, "native_dropout").outputs] == ["bf16", "bool"]
    assert "native_dropout_backward" in names(step, BACKWARD)
    assert "bernoulli_" not in names(step)


def attention(_: Any, x: torch.Tensor, **more: Any) -> torch.Tensor:
    heads = x.view(*x.shape[:2], 4, 16).transpose(1, 2)
    return F.scaled_dot_product_attention(heads, heads, heads, **more).transpose(1, 2).reshape(x.shape)


def test_attention_is_taken_whole_as_cudnn_has_it() -> None:
    step = step_of(lambda module, x: attention(module, x, is_causal=True))
    assert "_scaled_dot_product_cudnn_attention" in names(step)
    assert "_scaled_dot_product_cudnn_attention_backward" in names(step, BACKWARD)
    assert "bmm" not in names(step)


def test_attention_in_fp32_is_efficient_and_with_a_trained_mask_written_out() -> None:
    step = step_of(lambda module, x: attention(module, x, is_causal=True), dtype=torch.float32)
    assert "_scaled_dot_product_efficient_attention" in names(step)

    def biased(_: Any, x: torch.Tensor) -> torch.Tensor:
        return attention(_, x, attn_mask=_.bias.weight.view(1, 1, 32, 32))

    written = step_of(biased, bias=nn.Embedding(32, 32, device="meta"))
    assert Counter(names(written))["bmm"] == 2
    assert one(written, "_safe_softmax").outputs[0].dtype == "fp32"


def test_heads_that_are_broadcast_without_being_said_so_are_written_out() -> None:
    query, key = (torch.empty(2, heads, 32, 64, dtype=torch.bfloat16, device="meta") for heads in (8, 1))
    assert attention_backend(query, key, key, None, 0.0, True, enable_gqa=False) == "math"
    assert attention_backend(query, key, key, None, 0.0, True, enable_gqa=True) == "cudnn"
    odd = query[..., :60]
    assert attention_backend(odd, odd, odd, None, 0.0, True, enable_gqa=False) == "flash"


@pytest.mark.parametrize("is_last", [False, True])
def test_convolutions_keep_the_layout_of_their_input(is_last: bool) -> None:
    layout = torch.channels_last if is_last else torch.contiguous_format
    with torch.device("meta"):
        model = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 8, 3)).to(memory_format=layout)
        images = torch.empty(2, 8, 12, 12).to(memory_format=layout)
    step = recorded_step(model, (images,), {}, StepJob(), lambda outputs: outputs.sum())
    made = [op.outputs[0].strides[1] for op in step.ops if op.name == "aten.convolution.default"]
    assert made == ([1, 1] if is_last else [144, 100])
    backward = [op for op in step.ops if op.name == "aten.convolution_backward.default"]
    assert next(meta.strides[1] for op in backward for meta in op.outputs if len(meta.shape) == 4) == (
        1 if is_last else 144
    )


def test_autocast_casts_a_weight_once_and_keeps_the_cast_to_the_end_of_the_forward_pass() -> None:
    step = step_of(lambda module, x: module.first(module.first(x)), job=StepJob(autocast="bf16"))
    casts = [op for op in step.ops if op.name == "aten._to_copy.default" and op.phase == FORWARD]
    shapes = Counter(op.outputs[0].shape for op in casts if op.outputs[0].dtype == "bf16")
    assert shapes[WIDTH, WIDTH] == 2  # of `first`, used three times, and of `last`
    assert {op.outputs[0].dtype for op in step.ops if op.name == "aten.addmm.default"} == {"bf16"}
    assert one(step, "_fused_adamw_", OPTIMIZER).inputs[0].dtype == "fp32"  # type: ignore[union-attr]


def test_cross_entropy_under_autocast_takes_the_logarithm_in_bf16_and_the_rest_in_fp32() -> None:
    labels = torch.empty(128, dtype=torch.int64, device="meta")

    def loss(_: Any, x: torch.Tensor) -> torch.Tensor:
        return x * F.cross_entropy(x.view(-1, WIDTH), labels)

    step = step_of(loss, job=StepJob(autocast="bf16"))
    logs = one(step, "_log_softmax")
    assert (logs.inputs[0].dtype, logs.outputs[0].dtype) == ("bf16", "bf16")  # type: ignore[union-attr]
    assert one(step, "nll_loss_forward").inputs[0].dtype == "fp32"  # type: ignore[union-attr]
    assert one(step, "_log_softmax_backward_data", BACKWARD).outputs[0].dtype == "bf16"


@pytest.mark.parametrize(("dtype", "num_casts"), [(torch.float16, 0), (torch.bfloat16, 1)])
def test_a_softmax_in_fp32_reads_fp16_as_it_is_and_bf16_after_a_cast(dtype: torch.dtype, num_casts: int) -> None:
    step = step_of(lambda _, x: x.softmax(-1, dtype=torch.float32).to(x.dtype), dtype=dtype)
    widened = [op for op in step.ops if op.name == "aten._to_copy.default" and op.phase == FORWARD]
    softmax = one(step, "_softmax")
    assert softmax.outputs[0].dtype == "fp32"
    assert dict(softmax.arguments)["half_to_float"] is (num_casts == 0)
    whole = [op for op in widened if op.outputs[0].dtype == "fp32" and op.outputs[0].shape == softmax.outputs[0].shape]
    assert len(whole) == num_casts + 1  # and the sum at the end


def test_code_that_switches_autocast_off_gets_fp32() -> None:
    def between(module: Any, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cuda", enabled=False):
            return module.first(x.float())

    step = step_of(between, job=StepJob(autocast="bf16"))
    assert [op.outputs[0].dtype for op in step.ops if op.name == "aten.addmm.default"] == ["bf16", "fp32", "bf16"]


def test_a_checkpoint_runs_its_operators_again_in_the_backward_pass() -> None:
    def between(module: Any, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(lambda y: attention(module, F.silu(y), is_causal=True), x, use_reentrant=False)

    step = step_of(between)
    again = names(step, BACKWARD)
    assert again.index("silu") < again.index("silu_backward")
    assert again.count("_scaled_dot_product_cudnn_attention") == 1
    kept = step_of(lambda module, x: attention(module, F.silu(x), is_causal=True))
    assert names(kept, BACKWARD).count("silu") == 0


def test_routes_are_drawn_and_their_counts_decide_sizes() -> None:
    """Four experts of which each row takes two: together they get every row twice."""

    def experts(module: Any, x: torch.Tensor) -> torch.Tensor:
        rows = x.reshape(-1, WIDTH)
        chosen = rows[:, :4].topk(2, dim=-1).indices
        made = torch.zeros_like(rows)
        for expert in range(4):
            which = (chosen == expert).any(-1).nonzero().squeeze(-1)
            made = made.index_add(0, which, module.first(rows[which]))
        return made.view(x.shape)

    step = step_of(experts)
    counts = [op.outputs[0].shape[0] for op in step.ops if op.name == "aten.nonzero.default"]
    assert len(counts) == 4
    assert sum(counts) == 2 * 128
    assert all(32 < count < 96 for count in counts)


def test_a_number_that_is_read_is_the_one_that_follows_from_shapes() -> None:
    def between(_: Any, x: torch.Tensor) -> torch.Tensor:
        last = torch.arange(x.shape[1], device=x.device)[-1].item()
        return x * 2 if last == 31 else x

    step = step_of(between)
    assert "mul" in names(step)
    assert "_local_scalar_dense" in names(step)
    assert not step.notes


def test_an_unknown_value_is_assumed_and_a_note_names_the_line_that_reads_it() -> None:
    def between(_: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum().item() > 0 else x

    line = between.__code__.co_firstlineno + 1
    assert step_of(between).notes == (
        f"test_torch_step.py:{line} reads a tensor's value (.item(), if); 0.5 was assumed",
    )


def test_a_loop_that_ends_by_a_value_is_refused_with_its_line() -> None:
    def between(_: Any, x: torch.Tensor) -> torch.Tensor:
        while x.norm() > 1e-3:
            x = x * 0.5
        return x

    with pytest.raises(NotModelled, match=r"test_torch_step.py:\d+ reads a tensor's value 2,000 times, and true was"):
        step_of(between)


def test_a_step_of_too_many_operators_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dovetail.importers.torch_dispatch.MOST_OPERATORS", 5)
    with pytest.raises(NotModelled, match=r"once more after 5 operators"):
        step_of(lambda _, x: x * 2)


def test_other_optimizers_are_those_of_torch() -> None:
    step = step_of(lambda _, x: x, job=StepJob(optimizer="sgd"))
    assert all(name.startswith("_foreach") for name in names(step, OPTIMIZER))
    with pytest.raises(InvalidInput, match=r"torch\.optim has no optimizer 'adamv'; did you mean"):
        StepJob(optimizer="adamv")
    with pytest.raises(InvalidInput, match="bf16 or fp16"):
        StepJob(autocast="fp8")


def test_frozen_parameters_have_neither_gradient_nor_moments() -> None:
    with torch.device("meta"):
        model = Toy(lambda _, x: x).to(torch.bfloat16)
    model.first.requires_grad_(False)
    step = recorded_step(model, (torch.empty(4, 32, WIDTH, dtype=torch.bfloat16, device="meta"),), {}, StepJob())
    assert step.num_updated == 2
    model.requires_grad_(False)
    with pytest.raises(InvalidInput, match="no parameter that is trained"):
        recorded_step(model, (torch.empty(4, 32, WIDTH, dtype=torch.bfloat16, device="meta"),), {}, StepJob())


def test_what_a_module_raises_is_said_in_one_line() -> None:
    def between(_: Any, x: torch.Tensor) -> torch.Tensor:
        raise KeyError("no such layer")

    with pytest.raises(InvalidInput, match=r"raised KeyError at .*no such layer"):
        step_of(between)


def square(optimizer: str) -> DispatchedStep:
    """A step of one weight of two dims, without a bias."""
    with torch.device("meta"):
        model, inputs = nn.Linear(WIDTH, WIDTH, bias=False), torch.empty(8, WIDTH)
    return recorded_step(model, (inputs,), {}, StepJob(optimizer=optimizer), loss=lambda made: made.sum())


def test_muon_updates_weights_of_two_dims_by_products() -> None:
    assert names(square("muon"), OPTIMIZER).count("mm") + names(square("muon"), OPTIMIZER).count("addmm") > 5
    with pytest.raises(InvalidInput, match="the optimizer muon raised ValueError: Muon only supports 2D parameters"):
        step_of(lambda _, x: x, job=StepJob(optimizer="muon"))
    with pytest.raises(InvalidInput, match="Muon has no foreach implementation"):
        square("muon:foreach")


def test_an_optimizer_that_runs_the_model_again_is_refused_by_name() -> None:
    with pytest.raises(NotModelled, match="LBFGS runs the model several times in a step"):
        square("lbfgs")


def test_an_optimizer_for_sparse_gradients_says_so_in_one_line() -> None:
    with pytest.raises(InvalidInput, match="the optimizer sparseadam raised RuntimeError: SparseAdam does not support"):
        square("sparseadam")


@pytest.mark.parametrize(
    ("between", "named"),
    [
        (lambda module, x: module.first(x.float()).bfloat16(), "float32.* and bfloat16"),
        (lambda _, x: x.float().view(-1, WIDTH) @ x.new_empty(WIDTH, WIDTH), "float32.* and bfloat16"),
        (lambda _, x: F.conv1d(x, x.new_empty(32, 32, 1, dtype=torch.float32)), "bfloat16.* and float32"),
    ],
)
def test_a_product_of_two_dtypes_is_refused_as_pytorch_does(between: Any, named: str) -> None:
    with pytest.raises(InvalidInput, match=rf"operands of two dtypes at .*test_torch_step.py:\d+: {named}"):
        step_of(between)


def test_a_position_beyond_its_table_is_refused() -> None:
    def between(module: Any, x: torch.Tensor) -> torch.Tensor:
        return x + module.table(torch.arange(x.shape[1], device=x.device))

    assert "embedding" in names(step_of(between, table=nn.Embedding(32, WIDTH, device="meta")))
    with pytest.raises(InvalidInput, match=r"table looks up row 31 of a table of 16 with aten::embedding at .*out of"):
        step_of(between, table=nn.Embedding(16, WIDTH, device="meta"))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_a_recurrent_layer_which_cudnn_runs_is_refused_by_name(kind: Any) -> None:
    layer = kind(WIDTH, WIDTH, device="meta")
    with pytest.raises(NotModelled, match=rf"nn\.{kind.__name__} at .*test_torch_step.py:\d+ is one call of cuDNN"):
        step_of(lambda module, x: module.layer(x)[0], layer=layer)


def test_sparse_gradients_are_refused_in_those_words() -> None:
    table = nn.EmbeddingBag(WIDTH, WIDTH, mode="sum", sparse=True, device="meta")

    def between(module: Any, x: torch.Tensor) -> torch.Tensor:
        tokens = torch.empty(4, 32, dtype=torch.int64, device=x.device)
        return x + module.table(tokens).unsqueeze(1)

    with pytest.raises(NotModelled, match=r"has sparse gradients.*, which are not modelled; leave sparse=True out"):
        step_of(between, table=table)
