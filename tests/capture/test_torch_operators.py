"""Each operator of PyTorch is one word, with the operands and numbers that the word promises."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, an extra, is not installed")
import torch.nn.functional as F  # noqa: E402, N812
from torch import nn  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from dovetail.errors import InvalidInput, NotModelled  # noqa: E402
from dovetail.importers.torch_model import captured_module  # noqa: E402
from dovetail.importers.torch_operators import (  # noqa: E402
    DATA_DEPENDENT,
    SILENT,
    Reading,
    torch_operators,
)
from dovetail.plugins import Plugin, forget, load  # noqa: E402
from tests.capture.torch_toys import WIDTH, Toy, batch, capture, shapes, steps, words  # noqa: E402

ONE_WORD = {
    "add": lambda x: x + 1,
    "sub": lambda x: 1 - x,
    "mul": lambda x: x * x,
    "div": lambda x: x / 3,
    "neg": lambda x: -x,
    "exp": lambda x: x.exp(),
    "log": lambda x: x.log1p(),
    "sqrt": lambda x: x.sqrt(),
    "rsqrt": lambda x: x.rsqrt(),
    "reciprocal": lambda x: x.reciprocal(),
    "abs": lambda x: x.abs(),
    "cos": lambda x: x.cos(),
    "sin": lambda x: x.sin(),
    "erf": lambda x: x.erf(),
    "tanh": lambda x: F.tanh(x),
    "sigmoid": lambda x: x.sigmoid(),
    "relu": lambda x: F.relu(x),
    "gelu": lambda x: F.gelu(x, approximate="tanh"),
    "silu": lambda x: F.silu(x),
    "hardswish": lambda x: F.hardswish(x),
    "hardsigmoid": lambda x: F.hardsigmoid(x),
    "unary": lambda x: F.leaky_relu(x),
    "binary": lambda x: torch.maximum(x, x),
    "triangle": lambda x: x.tril(),
    "dropout": lambda x: F.dropout(x, 0.1),
    "reduce": lambda x: x.amax(1),
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: F.log_softmax(x, 1),
    "topk": lambda x: x.topk(2)[0],
    "sort": lambda x: x.sort()[0],
    "cumsum": lambda x: x.cumsum(1),
    "cast": lambda x: x.to(torch.bfloat16),
    "copy": lambda x: x.clone(),
    "concat": lambda x: torch.cat([x, x], 1),
    "pad": lambda x: F.pad(x, (0, 3)),
    "gather": lambda x: x.roll(1, 1),
    "view": lambda x: x.view(-1, 2, 8),
    "layernorm": lambda x: F.layer_norm(x, (WIDTH,)),
    "rmsnorm": lambda x: F.rms_norm(x, (WIDTH,)),
    "groupnorm": lambda x: F.group_norm(x, 4),
    "batchnorm": lambda x: F.batch_norm(x, None, None, training=True),
    "mse": lambda x: F.mse_loss(x, x.detach()),
    "binary_cross_entropy": lambda x: F.binary_cross_entropy(x, x.detach()),
}


@pytest.mark.parametrize("word", sorted(ONE_WORD))
def test_one_function_is_one_word(word):
    made = words(lambda _, x: ONE_WORD[word](x))
    assert [found for found in made if found == word or found not in ("view", "constant")] == [word]


def test_every_operator_in_the_table_is_one_of_pytorch():
    known = {found.partition(".")[0] for found in torch._C._dispatch_get_all_op_names()}
    table = torch_operators.names()
    assert len(table) > 400
    assert [name for name in table if name not in known and f"{name}_" not in known] == []


def test_the_core_operators_of_a_forward_pass_are_all_known():
    """The set that PyTorch's exporters lower everything to, but for transforms and distances of whole sets."""
    core = set()
    for name in torch._C._dispatch_get_all_op_names():
        space, _, rest = name.partition("::")
        packet, _, overload = rest.partition(".")
        if space == "aten" and torch.Tag.core in getattr(getattr(torch.ops.aten, packet), overload or "default").tags:
            core.add(f"aten::{packet}")
    unknown = {
        name
        for name in core
        if name not in torch_operators and name.removesuffix("_") not in torch_operators and "backward" not in name
    }
    assert unknown - DATA_DEPENDENT - SILENT <= {
        "aten::_cdist_forward", "aten::_fft_c2r", "aten::_fft_r2c", "aten::_pdist_forward", "aten::sym_is_contiguous",
    }  # fmt: skip


PLUGIN = """
from dovetail.importers.torch_operators import Reading, torch_operators

@torch_operators.register("dovetail_toys::twice")
def twice(call):
    return Reading(word="mul", inputs=call.numbers("x"))
"""


def test_a_plugin_can_add_an_operator():
    library = torch.library.Library("dovetail_toys", "DEF")
    library.define("twice(Tensor x, int times) -> Tensor")
    library.impl("twice", lambda x, times: torch.empty_like(x) if times else x.clone(), "Meta")

    def forward(_, x):
        return x + torch.ops.dovetail_toys.twice(x.detach(), 2)

    with pytest.raises(NotModelled, match=r"dovetail_toys::twice of float32\[2, 16\] in the outermost module"):
        capture(forward)
    owner = load(Plugin(path="own.py", source=PLUGIN))
    try:
        assert owner.registered == ("PyTorch operator dovetail_toys::twice",)
        assert words(forward)[-2:] == ["mul", "add"]
    finally:
        forget()
    with pytest.raises(NotModelled, match="dovetail_toys::twice"):
        capture(forward)


def test_a_reader_of_a_plugin_that_gives_no_reading_is_told():
    library = torch.library.Library("dovetail_toys", "FRAGMENT")
    library.define("thrice(Tensor x) -> Tensor")
    library.impl("thrice", torch.empty_like, "Meta")
    load(Plugin(path="own.py", source=PLUGIN.replace("twice", "thrice").replace("return", "return None and")))
    try:
        with pytest.raises(InvalidInput, match="the reader of dovetail_toys::thrice must give a Reading; got NoneType"):
            capture(lambda _, x: x + torch.ops.dovetail_toys.thrice(x.detach()))
    finally:
        forget()


def test_a_plugin_cannot_change_what_a_known_operator_is():
    source = PLUGIN.replace("dovetail_toys::twice", "aten::mm")
    with pytest.raises(InvalidInput, match="the PyTorch operator 'aten::mm' is there already, from a built-in"):
        load(Plugin(path="own.py", source=source))


def test_a_reading_of_an_unknown_word_is_refused():
    with pytest.raises(InvalidInput, match="no word of a recording is 'fly'"):
        Reading(word="fly", inputs=())


def test_sums_know_their_dims_counted_from_the_first():
    found = capture(lambda _, x: x.sum(-1) + x.mean() + x.mean((0, 1)) + x.sum()).recorded.base
    assert [step.attribute("dims", ()) for step in steps(found, "sum")] == [(1,), (0, 1)]
    assert [step.attribute("dims", ()) for step in steps(found, "mean")] == [(0, 1), (0, 1)]


def test_powers_know_their_exponent():
    found = capture(lambda _, x: x.pow(3) + x**2 + x.square()).recorded.base
    assert [step.attribute("exponent", 0) for step in steps(found, "pow")] == [3, 2, 2]


def test_concat_and_softmax_know_their_dim():
    found = capture(lambda _, x: torch.stack([torch.cat([x, x], -1).softmax(-1)] * 2, -1)).recorded.base
    assert [step.attribute("dim", -1) for step in steps(found, "concat")] == [1, 2]
    assert steps(found, "softmax")[0].attribute("dim", -1) == 1


def test_a_product_with_a_parameter_is_linear_whichever_way_it_lies():
    class Products(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(WIDTH, 8))
            self.bias = nn.Parameter(torch.zeros(8))

        def forward(self, x):
            straight = x @ self.weight
            added = torch.addmm(self.bias, x, self.weight)
            back = straight @ self.weight.t()
            again = torch.mm(added, self.weight.transpose(0, 1))
            return back + again

    found = captured_module(Products(), (batch(),)).recorded.base
    linears = steps(found, "linear")
    assert [step.attribute("turned", "") for step in linears] == [False, False, True, True]
    assert [[found.tensors[number].name for number in step.inputs][1:] for step in linears] == [
        ["weight"], ["weight", "bias"], ["weight"], ["weight"],
    ]  # fmt: skip


def test_a_product_of_two_activations_is_a_matmul_and_what_is_added_is_a_step_of_its_own():
    found = capture(lambda _, x: torch.addmm(x, x, x.t() @ x)).recorded.base
    assert [step.word for step in found.steps][1:] == ["view", "matmul", "matmul", "add"]
    add = found.steps[-1]
    assert add.inputs[1] == found.steps[-2].outputs[0]


def test_a_vector_stands_for_a_matrix_of_one_column():
    class Scores(nn.Module):
        def __init__(self):
            super().__init__()
            self.score = nn.Parameter(torch.zeros(WIDTH))
            self.matrix = nn.Parameter(torch.zeros(3, WIDTH))

        def forward(self, x):
            return (x.tanh() @ (self.score * 2)).sum() + (self.matrix @ self.score).sum()

    found = captured_module(Scores(), (batch(),)).recorded.base
    [product] = steps(found, "matmul")
    assert shapes(found, product.inputs) == [(2, WIDTH), (WIDTH, 1)]
    assert shapes(found, product.outputs) == [(2, 1)]
    [linear] = steps(found, "linear")
    assert shapes(found, linear.inputs) == [(WIDTH,), (3, WIDTH)]
    assert linear.attribute("turned", False) is True


def test_a_stack_of_weights_is_a_matmul():
    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(4, WIDTH, 8))

        def forward(self, x):
            return torch.einsum("bk,ekn->ebn", x, self.weight)

    found = captured_module(Experts(), (batch(),)).recorded.base
    assert len(steps(found, "matmul")) == 1


def test_rows_sorted_by_expert_are_a_grouped_linear():
    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(4, WIDTH, 32, dtype=torch.bfloat16))

        def forward(self, x):
            ends = torch.arange(1, 5, dtype=torch.int32) * (x.shape[0] // 4)
            return torch._grouped_mm(x, self.weight, offs=ends)

    x = torch.zeros(4, 64, WIDTH, dtype=torch.bfloat16)
    model = Experts()
    found = captured_module(Flat(model), (x,))
    [step] = steps(found.recorded.base, "grouped_linear")
    assert shapes(found.recorded.base, step.inputs) == [(128, WIDTH), (4, WIDTH, 32), (4,)]
    assert found.forward_flop == 2 * 128 * WIDTH * 32
    assert found.backward_flop == found.forward_flop


class Flat(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x.flatten(0, 1))


def test_a_convolution_knows_its_stride_padding_and_groups():
    model = nn.Conv2d(4, 8, 3, stride=2, padding=1, groups=2)
    found = captured_module(model, (batch(4, 8, 8),))
    [step] = found.recorded.base.steps
    assert dict(step.attributes) == {"groups": 2, "padding": (1, 1), "stride": (2, 2), "turned": False}
    assert shapes(found.recorded.base, step.inputs) == [(2, 4, 8, 8), (8, 2, 3, 3), (8,)]
    assert found.forward_flop == 2 * (2 * 8 * 4 * 4) * 2 * 9
    assert found.backward_flop == found.forward_flop


def test_a_transposed_and_a_dilated_convolution_say_so():
    model = nn.Sequential(nn.ConvTranspose1d(4, 6, 4, stride=2), nn.Conv1d(6, 6, 3, dilation=2))
    turned, dilated = captured_module(model, (batch(4, 10),)).recorded.base.steps
    assert turned.attribute("turned", False) is True
    assert dilated.attribute("dilation", ()) == (2,)


def test_pools_know_their_window_and_stride():
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.MaxPool2d(3, 2), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(2))
    found = captured_module(model, (batch(3, 32, 32),)).recorded.base
    [largest] = steps(found, "maxpool")
    assert (largest.attribute("window", 0), largest.attribute("stride", 0)) == (3, 2)
    mean, adaptive = steps(found, "avgpool")
    assert (mean.attribute("window", 0), mean.attribute("stride", 0)) == (2, 2)
    assert adaptive.attribute("window", 0) == 4


def test_attention_is_one_step_with_as_many_heads_of_keys_as_given():
    def attend(_, x):
        q = x.view(x.shape[0], 1, 4, 4).expand(-1, 4, 4, 4)
        k = q[:, :2]
        return F.scaled_dot_product_attention(q, k, k, dropout_p=0.25, is_causal=True, enable_gqa=True)

    found = capture(attend).recorded.base
    [step] = steps(found, "attention")
    assert dict(step.attributes) == {"dropout": 0.25, "is_causal": True}
    assert shapes(found, step.inputs) == [(2, 4, 4, 4), (2, 2, 4, 4), (2, 2, 4, 4)]
    assert not steps(found, "matmul")


def test_a_mask_of_attention_is_its_fourth_input():
    def attend(_, x):
        q = x.view(x.shape[0], 1, 4, 4)
        return F.scaled_dot_product_attention(q, q, q, attn_mask=torch.zeros(4, 4))

    found = capture(attend).recorded.base
    assert shapes(found, steps(found, "attention")[0].inputs)[3] == (4, 4)


def test_the_attention_layer_of_pytorch_has_linears_and_one_attention():
    model = nn.TransformerEncoderLayer(WIDTH, 4, 32, batch_first=True, dropout=0.1)
    found = captured_module(model, (batch(8, WIDTH),)).recorded.base
    kinds = [step.word for step in found.steps]
    assert kinds.count("attention") == 1
    assert kinds.count("linear") == 4
    assert kinds.count("layernorm") == 2
    assert kinds.count("dropout") == 3


def test_an_lstm_is_one_step_of_its_input_its_matrices_and_its_biases():
    model = nn.LSTM(WIDTH, 8, num_layers=2, bidirectional=True, batch_first=True)
    found = captured_module(model, (batch(6, WIDTH),)).recorded.base
    [step] = steps(found, "lstm")
    assert dict(step.attributes) == {"batch_first": True, "directions": 2, "hidden": 8, "layers": 2}
    given = shapes(found, step.inputs)
    assert given[0] == (2, 6, WIDTH)
    assert given[1:9] == [(32, WIDTH), (32, 8)] * 2 + [(32, 16), (32, 8)] * 2
    assert given[9:] == [(32,)] * 8
    assert shapes(found, step.outputs)[0] == (2, 6, 16)


def test_an_lstm_of_many_positions_counts_all_its_products_and_passes_gradients():
    class Translator(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(9, WIDTH)
            self.inner = nn.LSTM(WIDTH, 8, bidirectional=True)

        def forward(self, ids):
            found, (hidden, cell) = self.inner(self.table(ids))
            return found.sum() + hidden.sum() + cell.sum()

    found = captured_module(Translator(), (torch.zeros(4, 5000, dtype=torch.long),))
    once = 2 * (2 * 5000) * 2 * (32 * WIDTH + 32 * 8)
    assert (found.forward_flop, found.backward_flop) == (once, 2 * once)
    assert not any("no gradient" in note for note in found.notes)


def test_an_lstm_with_projections_is_not_modelled():
    with pytest.raises(Exception, match="proj_size"):
        captured_module(nn.LSTM(WIDTH, 8, proj_size=4), (batch(6, WIDTH),))


def test_batch_statistics_are_no_operands():
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH))
    found = captured_module(model, (batch(),))
    [step] = steps(found.recorded.base, "batchnorm")
    assert [found.recorded.base.tensors[number].name for number in step.inputs][1:] == ["1.weight", "1.bias"]
    assert not any("in place" in note for note in found.notes)


def test_spectral_norm_is_recorded():
    model = nn.utils.parametrizations.spectral_norm(nn.Linear(WIDTH, 8))
    found = captured_module(model, (batch(),)).recorded.base
    assert steps(found, "linear")[-1].where == ""
    assert steps(found, "div")


COUNTED = {
    "convolutions": lambda: (
        nn.Sequential(
            nn.Conv2d(4, 8, 3, 2, 1),
            nn.ReLU(),
            nn.Conv2d(8, 8, 3, padding="same"),
            nn.ConvTranspose2d(8, 4, 4, 2),
        ),
        (4, 16, 16),
    ),
    "an encoder": lambda: (nn.TransformerEncoderLayer(WIDTH, 4, 32, batch_first=True), (8, WIDTH)),
    "products": lambda: (nn.Sequential(nn.Linear(WIDTH, 32), nn.GELU(), nn.Linear(32, 4)), (5, WIDTH)),
    "a bilinear form": lambda: (Toy(lambda _, x: torch.einsum("bi,bj->bij", x, x) @ x[..., None]), (WIDTH,)),
}


@pytest.mark.parametrize("name", sorted(COUNTED))
def test_products_are_counted_as_pytorch_counts_them(name):
    """But for groups of convolutions: it counts the gradients of their weights as if there were none."""
    model, sides = COUNTED[name]()
    found = captured_module(model, (batch(*sides),))
    counter = FlopCounterMode(display=False)
    with counter:
        made = model(batch(*sides, num=2))
    assert found.forward_flop == counter.get_total_flops()
    with counter:
        made.sum().backward()
    assert found.backward_flop == counter.get_total_flops()
