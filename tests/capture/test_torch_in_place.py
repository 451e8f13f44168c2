"""What is written in place makes new values, seen by whatever shares its memory."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, an extra, is not installed")
import torch.nn.functional as F  # noqa: E402, N812
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from dovetail.importers.torch_model import captured_module  # noqa: E402
from tests.capture.torch_toys import WIDTH, Toy, batch, capture, shapes, steps  # noqa: E402


def test_an_operator_in_place_makes_a_new_value_and_a_note():
    found = capture(lambda _, x: x.relu_() + x)
    relu, add = found.recorded.base.steps[1:]
    assert relu.word == "relu"
    assert add.inputs == (relu.outputs[0], relu.outputs[0])
    assert "operators in place count as if they made a new tensor: relu_ (1)" in found.notes


def test_a_view_of_what_was_written_in_place_is_seen_again():
    def forward(_, x):
        x = x * 1
        flat = x.view(-1)
        x.mul_(2)
        return flat.exp()

    found = capture(forward).recorded.base
    once, _flat, twice, again, exp = found.steps[1:]
    assert [once.word, twice.word, again.word, exp.word] == ["mul", "mul", "view", "exp"]
    assert again.inputs == twice.outputs
    assert exp.inputs == again.outputs


def test_writing_into_a_slice_makes_a_new_whole():
    def forward(_, x):
        whole = torch.zeros(x.shape[0], 2 * WIDTH)
        whole[:, :WIDTH] = x
        return whole.exp()

    found = capture(forward).recorded.base
    [write] = steps(found, "copy")
    assert write.attribute("write", False) is True
    assert shapes(found, write.inputs) == [(2, 2 * WIDTH), (2, WIDTH)]
    assert shapes(found, write.outputs) == [(2, 2 * WIDTH)]
    [exp] = steps(found, "exp")
    assert _reaches(found, write.outputs[0], exp.inputs[0])


def test_an_operator_on_a_slice_is_written_back():
    def forward(_, x):
        x = x * 1
        x[:, :4].exp_()
        return x.sin()

    found = capture(forward).recorded.base
    kinds = [step.word for step in found.steps]
    assert kinds.index("exp") < kinds.index("copy") < kinds.index("sin")
    [exp], [copy], [sin] = steps(found, "exp"), steps(found, "copy"), steps(found, "sin")
    assert shapes(found, exp.outputs) == [(2, 4)]
    assert copy.inputs[1] == exp.outputs[0]
    assert _reaches(found, copy.outputs[0], sin.inputs[0])


def test_an_operator_that_writes_elsewhere_makes_a_new_value_there():
    def forward(_, x):
        with torch.no_grad():
            place = torch.zeros_like(x)
            torch.exp(x.detach(), out=place)
        return x * place

    found = capture(forward).recorded.base
    [exp], [product] = steps(found, "exp"), steps(found, "mul")
    assert len(exp.inputs) == 1
    assert product.inputs[1] == exp.outputs[0]


def _reaches(recording, first, last):
    """Through views alone."""
    while last != first:
        maker = next(step for step in recording.steps if last in step.outputs)
        if maker.word != "view":
            return False
        [last] = maker.inputs
    return True


PAIRS = {
    "relu": (lambda x: x.relu(), lambda x: x.relu_()),
    "mul": (lambda x: x * 2, lambda x: x.mul_(2)),
    "tanh": (lambda x: x.tanh(), lambda x: x.tanh_()),
    "add": (lambda x: x + 1, lambda x: x.add_(1)),
    "dropout": (lambda x: F.dropout(x, 0.5), lambda x: F.dropout(x, 0.5, inplace=True)),
}


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(PAIRS)), st.booleans()), min_size=1, max_size=6))
def test_in_place_or_not_the_same_steps_run_on_the_same_values(chain):
    def recorded(in_place):
        def forward(_, x):
            x = x * 1
            with torch.no_grad():
                for name, may_write in chain:
                    x = PAIRS[name][in_place and may_write](x)
            return x + torch.zeros(WIDTH, requires_grad=True).sum()

        model = Toy(lambda self, x: forward(self, x) + x)
        return captured_module(model, (batch(),)).recorded.base

    plain, written = recorded(False), recorded(True)
    assert [(step.word, step.inputs, step.outputs) for step in plain.steps] == [
        (step.word, step.inputs, step.outputs) for step in written.steps
    ]
    assert plain.tensors == written.tensors
