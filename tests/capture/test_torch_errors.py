"""Modules that cannot be recorded: one clear line each, with the module, the line of code and the way out."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, an extra, is not installed")
import torch.nn.functional as F  # noqa: E402, N812
from torch import nn  # noqa: E402

from dovetail.errors import DovetailError, InvalidInput, NotModelled  # noqa: E402
from dovetail.importers.torch_model import captured_module  # noqa: E402
from dovetail.workload.recorded.understand import understood  # noqa: E402
from tests.capture.torch_toys import WIDTH, Toy, batch, capture  # noqa: E402


def message(after, *inputs, kind=InvalidInput):
    with pytest.raises(kind) as caught:
        capture(after, *inputs)
    said = str(caught.value)
    assert "\n" not in said
    return said


def line_of(function):
    return f"{__file__}:{function.__code__.co_firstlineno + 1}"


def test_an_unknown_operator_is_named_with_its_shapes_its_module_and_how_to_add_it():
    said = message(lambda _, x: torch.linalg.svd(x[:, :2]).S, kind=NotModelled)
    assert "the PyTorch operator aten::_linalg_svd of float32[2, 2] in the outermost module is not modelled" in said
    assert '@torch_operators.register("aten::_linalg_svd") from dovetail.importers.torch_operators' in said


def test_the_module_of_an_unknown_operator_is_named():
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Sequential(Toy(lambda _, x: torch.fft.rfft(x).abs())))
    with pytest.raises(NotModelled, match=r"in 1\.0"):
        captured_module(model, (batch(),))


@pytest.mark.parametrize(
    ("ask", "named"),
    [
        (lambda x: x.sum().item(), "the value of a tensor"),
        (lambda x: 1 if x.sum() > 0 else 2, "the value of a tensor"),
        (lambda x: int(x.argmax()), "the value of a tensor"),
        (lambda x: (x > 0).nonzero().shape[0], "aten::nonzero"),
        (lambda x: x[x > 0].sum(), "aten::index"),
        (lambda x: torch.masked_select(x, x > 0).sum(), "aten::masked_select"),
        (lambda x: torch.unique(x).shape[0], "aten::_unique2"),
        (lambda x: torch.where(x > 0)[0].shape[0], "aten::nonzero"),
        (lambda x: x.sum().tolist(), "the numbers of a tensor"),
        (lambda x: x.detach().numpy().sum(), "the numbers of a tensor"),
    ],
)
def test_what_depends_on_numbers_is_told_with_its_line(ask, named):
    def forward(_, x):
        return x * ask(x)

    said = message(forward)
    assert f" asks for {named}" in said
    assert __file__ in said
    assert "let sizes and choices depend on shapes, not on values (a mask" in said


def test_a_module_that_raises_is_named_with_its_line_and_what_it_said():
    def forward(_, x):
        raise KeyError("no such\nlayer")

    said = message(forward)
    assert f"Toy raised KeyError at {line_of(forward)}: 'no such\\nlayer'" in said


def test_a_layer_that_raises_is_named():
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Linear(5, 5))
    with pytest.raises(InvalidInput, match=r"^1 raised RuntimeError: .*16.*5"):
        captured_module(model, (batch(),))


def test_a_backward_pass_that_raises_is_told_as_that():
    said = message(lambda _, x: F.multi_margin_loss(x, torch.zeros(x.shape[0], dtype=torch.long)))
    assert said.startswith("the backward pass of Toy raised NotImplementedError: aten::multi_margin_loss_backward")


def test_a_parameter_may_not_be_written_to():
    def forward(self, x):
        self.first.weight.mul_(2)
        return x

    assert "a leaf Variable that requires grad is being used in an in-place operation" in message(forward)


@pytest.mark.parametrize(
    ("dtype", "named"),
    [(torch.float64, "float64"), (torch.complex64, "complex64"), (torch.float8_e4m3fn, "float8_e4m3fn")],
)
def test_a_dtype_that_is_not_modelled_is_named_with_its_tensor(dtype, named):
    model = nn.Linear(WIDTH, WIDTH)
    model.odd = nn.Parameter(torch.zeros(3, dtype=dtype), requires_grad=dtype != torch.float8_e4m3fn)
    with pytest.raises(NotModelled, match=rf"odd is {named} of shape \[3\], a dtype that is not modelled; convert"):
        captured_module(model, (batch(),))


def test_a_dtype_in_the_middle_is_named_with_its_operator():
    said = message(lambda _, x: x.double().sum(), kind=NotModelled)
    assert "what aten::_to_copy makes is float64 of shape [2, 16]" in said


def test_autocast_is_refused_whether_or_not_there_is_such_a_device():
    def on_the_host(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.first(x).relu()

    def on_a_device(self, x):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return self.first(x).relu()

    for forward in (on_the_host, on_a_device):
        said = message(forward)
        assert "runs under autocast" in said
        assert "convert the model with .to(torch.bfloat16)" in said


@pytest.mark.parametrize("kind", [nn.GRU, nn.RNN])
def test_recurrent_layers_other_than_lstm_are_not_modelled(kind):
    with pytest.raises(NotModelled, match=f"{kind.__name__} layers are not modelled; LSTM is"):
        captured_module(kind(WIDTH, WIDTH), (batch(8, WIDTH),))


def test_packed_sequences_are_not_modelled():
    class Packed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.LSTM(WIDTH, WIDTH)

        def forward(self, x):
            packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([8] * x.shape[1]), enforce_sorted=False)
            return self.inner(packed)[0].data

    with pytest.raises(DovetailError):
        captured_module(Packed(), (torch.zeros(8, 4, WIDTH),))


def test_inputs_that_do_not_fit_are_told_with_what_the_forward_takes():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(WIDTH, WIDTH)

        def forward(self, x, mask, scale=1):
            return self.inner(x) * mask * scale

    with pytest.raises(InvalidInput) as caught:
        captured_module(Two(), (batch(),))
    assert str(caught.value) == (
        "the example inputs do not fit Two: missing a required argument: 'mask'; its forward takes (x, mask, scale=1)"
    )
    with pytest.raises(InvalidInput, match="unexpected keyword argument 'y'"):
        captured_module(Two(), {"x": batch(), "mask": batch(), "y": 1})


@pytest.mark.parametrize("inputs", [(), {}, (3,), (torch.tensor(1.0),)])
def test_inputs_without_a_batch_are_refused(inputs):
    class Free(nn.Module):
        def forward(self, *inputs, **named):
            return inputs, named

    with pytest.raises(InvalidInput, match="hold no tensor with a batch dim"):
        captured_module(Free(), inputs)


def test_inputs_of_another_kind_are_refused():
    with pytest.raises(InvalidInput, match="a tensor, a tuple or a dict of them; got str"):
        captured_module(nn.Linear(2, 2), "x")


def test_something_that_is_no_module_is_refused():
    with pytest.raises(InvalidInput, match=r"an instance of torch\.nn\.Module; got dict"):
        captured_module({}, (batch(),))


def test_a_tensor_without_elements_is_named_with_what_makes_it():
    hollow = capture(lambda toy, x: torch.cat([F.linear(x, toy.first.weight[:0]), x], 1)).recorded
    with pytest.raises(NotModelled, match="makes a tensor without elements; give every layer a width of at least 1"):
        understood(hollow)


def test_a_module_without_trained_parameters_is_refused():
    with pytest.raises(InvalidInput, match="ReLU has no parameter that is trained"):
        captured_module(nn.ReLU(), (batch(),))
    with pytest.raises(InvalidInput, match="Linear has no parameter that is trained"):
        captured_module(nn.Linear(2, 2).requires_grad_(False), (batch(2),))


def test_outputs_without_a_gradient_are_refused():
    assert "no output of the module has a gradient" in message(lambda _, x: x.detach())
    assert "no output of the module has a gradient" in message(lambda _self, _x: "text")


def test_a_gradient_that_gets_lost_on_the_way_is_told(monkeypatch):
    """As it was seen to happen to whole backward passes on meta."""
    from dovetail.importers import torch_run

    monkeypatch.setattr(torch_run, "gradients_from", lambda _start: None)
    said = message(lambda _, x: x.sum())
    assert "the loss depends on first.weight, first.bias, but no gradient arrives there" in said


def test_a_module_for_one_batch_is_told():
    said = message(lambda _, x: x.view(4, WIDTH))
    assert said.startswith("Toy runs with a batch of 4 but not of 2: Toy raised RuntimeError")
    assert said.endswith("let the forward pass take its batch from its inputs")
    said = message(lambda _, x: x if x.shape[0] == 2 else x.view(2, WIDTH))
    assert said.startswith("Toy runs with a batch of 2 but not of 3: Toy raised RuntimeError")


def test_what_is_wrong_at_any_batch_is_told_as_that():
    assert message(lambda _, x: x.view(7, 7)).startswith("Toy raised RuntimeError")


def test_operators_that_depend_on_the_batch_are_told():
    said = message(lambda _, x: x.relu() if x.shape[0] == 2 else x.exp())
    assert "Toy runs other operators with a batch of 3 than of 2: aten::relu becomes aten::exp" in said
    said = message(lambda _, x: sum(x[place] for place in range(x.shape[0])))
    assert "operators become" in said or "becomes" in said


def test_a_trained_tensor_outside_of_the_module_is_told():
    outside = nn.Parameter(torch.ones(WIDTH))
    said = message(lambda _, x: x * outside)
    assert f"trains a tensor of shape [{WIDTH}] that is no parameter of the model" in said


def test_a_lazy_module_is_told_to_be_run_once():
    with pytest.raises(InvalidInput, match="weight has no shape yet: run the lazy module once"):
        captured_module(nn.LazyLinear(4), (batch(),))


def test_a_seq_dim_beyond_all_dims_is_refused():
    with pytest.raises(InvalidInput, match="seq_dim=5 is beyond the dims of every example input"):
        capture(lambda _, x: x, seq_dim=5)


def test_recording_functions_do_not_hide_errors_of_their_own():
    assert "raised RuntimeError" in message(lambda _, x: F.linear(x, torch.ones(3, 3)))


def test_a_product_of_two_dtypes_is_refused_as_pytorch_does():
    said = message(lambda self, x: self.first(x.bfloat16()).float())
    assert "first gives aten::addmm operands of two dtypes" in said
    assert "bfloat16[4, 16] and float32[16, 16]" in said


def test_a_position_beyond_its_table_is_refused():
    said = message(lambda _, x: x.sum() + F.embedding(torch.arange(5, device=x.device), x.new_empty(4, WIDTH)).sum())
    assert "looks up row 4 of a table of 4 with aten::embedding" in said
