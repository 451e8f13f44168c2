"""torch.compile without a GPU: Inductor's own kernels and buffers, of modules small enough to count by hand."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812  the name everyone gives it

from dovetail.importers.torch_compiled import compiled_step
from dovetail.importers.torch_step import StepJob, recorded_step
from dovetail.step.eager import eager_step, step_memory
from dovetail.workload.compiled import FUSED, fused_kernel
from dovetail.workload.dispatched import BACKWARD, FORWARD, OPTIMIZER


def _patched():
    """Some of what is replaced while a module is compiled."""
    from torch._subclasses.fake_tensor import FakeTensor

    device = "is_meta" in vars(FakeTensor)
    return device, vars(FakeTensor)["__torch_dispatch__"], torch._C._select_conv_backend, torch.cuda.device_count


BEFORE = _patched()
ROWS, WIDTH, WIDE = 256, 64, 256  # tokens and columns of the tiny network


class Network(torch.nn.Module):
    """A norm, two products with an activation between them, dropout, and attention over a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, WIDE), torch.nn.Linear(WIDE, WIDTH)

    def forward(self, x):
        wide = self.up(self.norm(x))
        hidden = self.down(0.5 * wide * (1.0 + torch.tanh(0.8 * (wide + 0.04 * wide * wide * wide))))
        heads = F.dropout(hidden, 0.1, self.training).view(2, ROWS // 2, 4, WIDTH // 4).transpose(1, 2)
        places = torch.arange(ROWS // 2, device=x.device)
        mask = (places[:, None] >= places[None, :])[None, None]
        return F.scaled_dot_product_attention(heads, heads, heads, attn_mask=mask).sum()


def meta(*shape, dtype=torch.bfloat16):
    return torch.empty(shape, dtype=dtype, device="meta")


def made(kind, dtype=torch.bfloat16):
    with torch.device("meta"):
        return kind().to(dtype)


@pytest.fixture(scope="module")
def step():
    return compiled_step(made(Network), (meta(ROWS, WIDTH),), {}, StepJob())


@pytest.fixture(scope="module")
def eager():
    return recorded_step(made(Network), (meta(ROWS, WIDTH),), {}, StepJob())


def kernels(step, phase):
    return [fused_kernel(op) for op in step.ops if op.name == FUSED and op.phase == phase]


def named(step, name, phase=None):
    return [op for op in step.ops if name in op.name and phase in (None, op.phase)]


def test_products_and_attention_stay_operators_and_the_rest_is_fused(step):
    assert len(named(step, "mm.", FORWARD)) == 2
    assert len(named(step, "mm.", BACKWARD)) >= 3  # the input needs no gradient
    assert len(named(step, "attention", FORWARD)) == len(named(step, "attention", BACKWARD)) == 1
    left = {op.name for op in step.ops if op.phase == FORWARD} - {FUSED}
    assert not any(word in name for name in left for word in ("tanh", "norm", "dropout", "mul", "add."))
    assert [op.name for op in step.ops if op.phase == OPTIMIZER][-1] == "aten._fused_adamw_.default"


def test_a_norm_is_one_kernel_that_reads_and_writes_each_row_once(step):
    [norm] = [one for one in kernels(step, FORWARD) if "native_layer_norm" in one.kernel]
    assert (norm.num_rows, norm.num_cols, norm.is_reduction) == (ROWS, WIDTH, True)
    rows_bytes = ROWS * WIDTH * 2
    statistics_bytes = 2 * ROWS * 4
    assert rows_bytes <= norm.read_bytes <= rows_bytes + 4 * WIDTH
    assert norm.written_bytes == rows_bytes + statistics_bytes


def test_an_activation_is_one_kernel_over_its_elements(step):
    [gelu] = [one for one in kernels(step, FORWARD) if "tanh" in one.kernel]
    assert gelu.read_bytes == gelu.written_bytes == ROWS * WIDE * 2
    assert gelu.num_curves == ROWS * WIDE  # one hyperbolic tangent an element
    assert not gelu.is_reduction


def test_dropout_draws_one_number_an_element(step):
    assert sum(one.num_random for one in kernels(step, FORWARD)) == ROWS * WIDTH


def test_a_mask_is_materialised_and_handed_to_attention(step):
    [attention] = named(step, "attention", FORWARD)
    assert attention.name.startswith("aten._scaled_dot_product_cudnn_attention")
    bias = attention.inputs[3]
    assert bias is not None
    assert bias.dtype == "bf16"
    assert bias.shape[-2:] == (ROWS // 2, ROWS // 2)


def test_compiled_kernels_say_where_they_come_from(step):
    assert any(op.line.rpartition(":")[0].endswith("test_compiled_step.py") for op in step.ops if op.is_compiled)
    assert "up" in {op.module for op in named(step, "mm.", FORWARD)}


def test_compiled_keeps_less_than_eager_and_nothing_at_the_end(step, eager):
    assert step.state_bytes == eager.state_bytes
    assert max(step.live_bytes) < max(eager.live_bytes)
    assert step.live_bytes[-1] - step.state_bytes <= step.state_bytes  # at most the gradients, which the update reads
    assert step_memory(step).peak_bytes > step.state_bytes


def test_compiled_launches_fewer_kernels_and_the_host_less(step, eager, h200):
    ours, theirs = eager_step(step, h200), eager_step(eager, h200)
    assert ours.launches.sum() < theirs.launches.sum()
    assert ours.operator_s.sum() < theirs.operator_s.sum()


@pytest.fixture(scope="module")
def h200():
    from dovetail.files.chip_names import chip_named

    return chip_named("h200")


class Convolutions(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = torch.nn.Conv2d(8, 16, 3, padding=1), torch.nn.BatchNorm2d(16)

    def forward(self, x):
        return F.relu(self.norm(self.first(x))).mean(dim=(2, 3))


def test_autocast_and_channels_last_hold_in_compiled_convolutions():
    module = made(Convolutions, torch.float32).to(memory_format=torch.channels_last)
    images = meta(4, 8, 16, 16, dtype=torch.float32).to(memory_format=torch.channels_last)
    labels = meta(4, dtype=torch.int64)
    step = compiled_step(
        module, (images,), {}, StepJob(autocast="bf16"), lambda outputs: F.cross_entropy(outputs, labels)
    )
    [convolution] = named(step, "aten.convolution.default")
    image, weight = convolution.inputs[:2]
    assert image is not None
    assert weight is not None
    assert image.dtype == weight.dtype == "bf16"
    assert image.strides[1] == 1
    assert convolution.outputs[0].strides[1] == 1
    [backward] = named(step, "convolution_backward")
    assert backward.phase == BACKWARD
    statistics = [one for one in kernels(step, FORWARD) if "batch_norm" in one.kernel or "native_batch" in one.kernel]
    assert statistics
    assert named(step, "log_softmax", FORWARD)  # the loss is outside of the module, and eager


class Broken(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        hidden = torch.relu(self.layer(x))
        torch._dynamo.graph_break()
        return torch.sigmoid(self.layer(hidden)).sum()


def test_a_graph_break_makes_two_graphs_and_is_noted():
    step = compiled_step(made(Broken), (meta(ROWS, WIDTH),), {}, StepJob())
    assert any("2 graphs" in note for note in step.notes)
    assert len(named(step, "mm.", FORWARD)) == 2


def test_pytorch_is_left_as_it_was(step):
    assert step.ops
    assert _patched() == BEFORE


def test_products_with_odd_columns_are_padded_where_copies_cost_less():
    class Head(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = torch.nn.Linear(1024, 50257, bias=False)

        def forward(self, x):
            return F.cross_entropy(self.head(x).float(), torch.zeros(x.shape[0], dtype=torch.int64, device=x.device))

    step = compiled_step(made(Head), (meta(8192, 1024),), {}, StepJob())
    [product] = named(step, "aten.mm", FORWARD)
    assert product.outputs[0].shape[-1] == 50264  # the next multiple of eight
