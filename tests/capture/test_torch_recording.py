"""What a PyTorch module does becomes steps in neutral words, and the module stays as it was."""

from __future__ import annotations

import logging
import random
import sys
import threading
import warnings

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, an extra, is not installed")
import torch.nn.functional as F  # noqa: E402, N812
from torch import nn  # noqa: E402
from torch.autograd.function import Function  # noqa: E402

from dovetail.errors import InvalidInput  # noqa: E402
from dovetail.importers.torch_model import captured_module  # noqa: E402
from dovetail.workload.recorded.record import Source  # noqa: E402
from dovetail.workload.recorded.words import LABELS  # noqa: E402
from tests.capture.torch_toys import WIDTH, Toy, batch, capture, parameters, shapes, steps, tokens, words  # noqa: E402
from tests.messages import holds  # noqa: E402


def test_a_linear_layer_is_one_step_of_its_input_its_weight_and_its_bias():
    found = capture(lambda _, x: x).recorded.base
    [step] = found.steps
    assert (step.word, step.op, step.where) == ("linear", "torch.linear", "first")
    assert step.attribute("turned", False) is True
    assert [found.tensors[number].name for number in step.inputs] == ["x", "first.weight", "first.bias"]
    assert shapes(found, step.outputs) == [(2, WIDTH)]


def test_the_base_has_two_samples_and_the_other_three_whatever_the_example_has():
    found = capture(lambda _, x: x, batch(num=7))
    assert found.batch == 7
    assert (found.recorded.batch, found.recorded.second_batch) == (2, 3)
    assert shapes(found.recorded.other_batch, found.recorded.other_batch.steps[0].outputs) == [(3, WIDTH)]


def test_floats_alone_have_no_positions():
    found = capture(lambda _, x: x, batch(128, WIDTH)).recorded
    assert (found.seq, found.second_seq) == (1, 1)
    assert found.other_seq is found.base


def test_a_dim_of_positions_can_be_named():
    found = capture(lambda _, x: x, batch(128, WIDTH), seq_dim=1).recorded
    assert (found.seq, found.second_seq) == (128, 64)
    assert shapes(found.other_seq, found.other_seq.steps[0].outputs) == [(2, 64, WIDTH)]


class Tokens(nn.Module):
    def __init__(self, positions=512):
        super().__init__()
        self.table = nn.Embedding(100, WIDTH)
        self.places = nn.Parameter(torch.zeros(positions, WIDTH))
        self.out = nn.Linear(WIDTH, 100, bias=False)
        self.out.weight = self.table.weight

    def forward(self, ids, labels=None):
        x = self.table(ids) + self.places[: ids.shape[1]]
        logits = self.out(x)
        if labels is None:
            return logits
        return {"loss": F.cross_entropy(logits.flatten(0, 1), labels.flatten()), "logits": logits}


def test_positions_are_dim_one_of_integers_and_the_other_length_is_half_in_whole_tiles():
    found = captured_module(Tokens(), {"ids": tokens(length=320), "labels": tokens(length=320)}).recorded
    assert (found.seq, found.second_seq) == (320, 128)


def test_lengths_that_differ_by_a_factor_are_taken_shorter_together():
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(9, WIDTH)

        def forward(self, source, target):
            return self.table(source).sum() + self.table(target).sum()

    found = captured_module(Pair(), (tokens(length=256), tokens(length=64))).recorded
    assert (found.seq, found.second_seq) == (256, 128)
    lengths = [tensor.shape for tensor in found.other_seq.tensors if tensor.source is Source.INPUT]
    assert lengths == [(2, 128), (2, 32)]


def test_a_module_of_one_length_is_recorded_at_that_length_alone_and_says_why():
    class Fixed(Tokens):
        def forward(self, ids, labels=None):
            return self.table(ids) + self.places if labels is None else labels

    found = captured_module(Fixed(256), (tokens(),))
    assert (found.recorded.seq, found.recorded.second_seq) == (1, 1)
    assert found.recorded.other_seq is found.recorded.base
    assert any(holds(note, "256", "128", "Fixed raised") for note in found.notes)


def test_tied_weights_are_one_parameter_and_a_note():
    found = captured_module(Tokens(), (tokens(), tokens()))
    assert parameters(found.recorded.base) == {"table.weight": (100, WIDTH), "places": (512, WIDTH)}
    assert "shared weights are counted once: out.weight as table.weight" in found.notes
    [linear] = steps(found.recorded.base, "linear")
    assert found.recorded.base.tensors[linear.inputs[1]].name == "table.weight"


def test_the_loss_is_where_gradients_start():
    found = captured_module(Tokens(), (tokens(), tokens()))
    assert shapes(found.recorded.base, found.results) == [()]
    assert found.recorded.base.steps[-1].word == "nll"
    assert found.results[0] in found.recorded.base.steps[-1].outputs


def test_without_a_loss_gradients_start_from_all_outputs():
    found = capture(lambda _, x: {"a": x, "b": [x.tanh(), None, "text"]})
    assert len(found.results) == 2


def test_a_dict_of_losses_is_their_sum():
    found = capture(lambda _, x: {"box": x.sum(), "label": x.mean()})
    assert len(found.results) == 2
    assert "the loss is the sum of 2 outputs that are single numbers" in found.notes


def test_products_forward_and_backward_are_counted():
    found = capture(lambda _, x: x.sum())
    once = 2 * 2 * WIDTH * WIDTH
    assert found.forward_flop == once
    assert found.backward_flop == once  # inputs need no gradient, so only the weight's


def test_the_module_is_untouched():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.BatchNorm1d(WIDTH)
            self.num_calls = 0

        def forward(self, x):
            self.num_calls += 1
            return self.inner(x)

    model = Counting()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    captured_module(model, (batch(),))
    assert model.num_calls == 0
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None and not parameter.is_meta for parameter in model.parameters())


def test_the_state_of_random_numbers_is_untouched():
    model = Toy(lambda _, x: F.dropout(x) + torch.rand(WIDTH, device="cpu"))
    before = torch.random.get_rng_state()
    captured_module(model, (batch(),))
    assert torch.equal(before, torch.random.get_rng_state())


def test_random_numbers_of_the_host_are_the_same_in_every_run_and_told():
    numpy = pytest.importorskip("numpy")

    def forward(_, x):
        for _layer in range(20):
            x = x.relu() if random.random() < 0.5 else x.exp()
            x = x.sin() if numpy.random.rand() < 0.5 else x
        return x

    states = random.getstate(), numpy.random.get_state()[1].tobytes()
    first, second = capture(forward), capture(forward)
    assert first == second
    assert {"relu", "exp", "sin"} <= {step.word for step in first.recorded.base.steps}
    assert (random.getstate(), numpy.random.get_state()[1].tobytes()) == states
    assert [note.partition(":")[0] for note in first.notes if "random" in note] == [
        "the forward pass draws random numbers of Python",
        "the forward pass draws random numbers of NumPy",
    ]


def test_nothing_reaches_the_terminal(capfd):
    def loud(_, x):
        print("to the terminal")
        print("there too", file=sys.stderr)
        warnings.warn("careful", stacklevel=1)
        logging.getLogger("transformers").error("no")
        return x

    capture(loud)
    assert capfd.readouterr() == ("", "")


def test_a_module_already_on_meta_is_recorded_like_any_other():
    with torch.device("meta"):
        model = Tokens()
    found = captured_module(model, (torch.empty(2, 256, dtype=torch.long, device="meta"),))
    assert all(parameter.grad is None for parameter in model.parameters())
    real = captured_module(Tokens(), (tokens(),))
    assert found.recorded == real.recorded


def test_a_lock_in_a_module_does_not_matter():
    model = nn.Linear(WIDTH, WIDTH)
    model.lock = threading.Lock()
    assert captured_module(model, (batch(),)).recorded.base.steps


def test_wrappers_of_the_same_module_record_the_same():
    model = nn.Linear(WIDTH, WIDTH)
    plain = captured_module(model, (batch(),), name="m").recorded
    assert captured_module(nn.DataParallel(model), (batch(),), name="m").recorded == plain
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what torch.compile imports warns of itself
        compiled = torch.compile(model, backend="eager")
    assert captured_module(compiled, (batch(),), name="m").recorded == plain


def test_what_is_compiled_inside_runs_as_it_was_written():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = torch.compile(lambda x: x.relu() + x.exp(), backend="eager")
    assert words(lambda _, x: compiled(x)) == ["relu", "exp", "add"]


def test_attributes_that_are_tensors_are_constants():
    def add_mask(self, x):
        return x + self.mask + outside

    outside = torch.ones(WIDTH)
    model = Toy(add_mask)
    model.mask = torch.ones(WIDTH)
    found = captured_module(model, (batch(),)).recorded.base
    assert [step.word for step in found.steps] == ["linear", "add", "add"]
    constants = [tensor.shape for tensor in found.tensors if tensor.source is Source.CONSTANT]
    assert constants == [(WIDTH,), (WIDTH,)]


def test_frozen_parameters_have_their_own_source_and_a_name():
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH, bias=False))
    model[0].requires_grad_(False)
    found = captured_module(model, (batch(),))
    assert parameters(found.recorded.base) == {"1.weight": (WIDTH, WIDTH)}
    named = [tensor.name for tensor in found.recorded.base.tensors if tensor.source is Source.FROZEN]
    assert named == ["0.weight", "0.bias"]
    assert "272 of 528 parameters are frozen: 0.weight, 0.bias" in found.notes
    assert [step.word for step in found.recorded.base.steps] == ["linear", "linear"]


def test_eval_mode_is_kept_and_told():
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Dropout(0.5))
    assert len(steps(captured_module(model, (batch(),)).recorded.base, "dropout")) == 1
    found = captured_module(model.eval(), (batch(),))
    assert not steps(found.recorded.base, "dropout")
    assert any("eval mode" in note for note in found.notes)
    assert not model.training


def test_parameters_that_the_loss_does_not_depend_on_are_told():
    model = nn.Linear(WIDTH, WIDTH)
    model.spare = nn.Parameter(torch.zeros(3))
    found = captured_module(model, (batch(),))
    assert "no gradient reaches spare: the loss does not depend on it" in found.notes


def test_steps_that_stop_gradients_are_marked():
    found = capture(lambda _, x: x.detach() * 2 + x).recorded.base
    marked = [step.op for step in found.steps if step.attribute("no_grad", False)]
    assert marked == ["aten::detach"]

    def under_no_grad(_, x):
        with torch.no_grad():
            scale = x.exp()
        return x * scale

    marked = [step.word for step in capture(under_no_grad).recorded.base.steps if step.attribute("no_grad", False)]
    assert marked == ["exp"]


def test_each_step_knows_its_module():
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Sequential(nn.ReLU(), nn.Linear(WIDTH, WIDTH)))
    found = captured_module(model, (batch(),)).recorded.base
    assert [step.where for step in found.steps] == ["0", "1.0", "1.1"]


def test_a_shared_module_goes_by_its_first_name():
    shared = nn.Linear(WIDTH, WIDTH)
    found = captured_module(nn.Sequential(shared, nn.ReLU(), shared), (batch(),)).recorded.base
    assert [step.where for step in found.steps] == ["0", "1", "0"]
    assert list(parameters(found)) == ["0.weight", "0.bias"]


def test_hooks_are_gone_afterwards():
    from torch.nn.modules import module as hooks

    before = dict(hooks._global_forward_hooks), dict(hooks._global_forward_pre_hooks)
    capture(lambda _, x: x)
    with pytest.raises(InvalidInput, match="raised ZeroDivisionError"):
        capture(lambda _, x: x / (1 // 0))
    assert (hooks._global_forward_hooks, hooks._global_forward_pre_hooks) == before


def test_recomputation_within_the_module_is_no_part_of_its_forward_pass():
    from torch.utils.checkpoint import checkpoint

    def forward(self, x):
        return checkpoint(lambda y: self.first(y).relu(), x, use_reentrant=False)

    made = words(forward)
    assert made[-2:] == ["linear", "relu"]
    assert made.count("linear") == 1


def test_functions_with_gradients_of_their_own_are_recorded():
    class Twice(Function):
        @staticmethod
        def forward(_context, x):
            return x * 2

        @staticmethod
        def backward(_context, gradient):
            return gradient * 2

    found = capture(lambda _, x: Twice.apply(x).relu())
    assert [step.word for step in found.recorded.base.steps] == ["linear", "mul", "relu"]
    assert not any(step.attribute("no_grad", False) for step in found.recorded.base.steps)


@pytest.mark.parametrize(
    "move",
    [lambda x: x.cuda(), lambda x: x.to("cuda:0"), lambda x: x.cpu(), lambda x: x.to(device=torch.device("cpu"))],
)
def test_moves_between_devices_are_left_out_and_told(move):
    found = capture(lambda _, x: move(x).relu())
    assert [step.word for step in found.recorded.base.steps] == ["linear", "relu"]
    assert any(note.startswith("moves between devices are left out") for note in found.notes)


def test_tensors_made_on_a_device_are_made_here():
    assert words(lambda _, x: x + torch.ones(WIDTH, device="cuda")) == ["constant", "view", "add"]


def test_all_words_are_known_words():
    found = captured_module(nn.TransformerEncoderLayer(WIDTH, 4, 32, batch_first=True), (batch(8, WIDTH),)).recorded
    assert {step.word for step in found.base.steps} <= LABELS


def test_every_number_of_a_step_is_a_tensor_that_was_there_before():
    model = nn.TransformerEncoderLayer(WIDTH, 4, 32, batch_first=True)
    found = captured_module(model, (batch(8, WIDTH),)).recorded.base
    made = {number for number, tensor in enumerate(found.tensors) if tensor.source is not Source.STEP}
    for step in found.steps:
        assert set(step.inputs) <= made
        assert not made & set(step.outputs)
        made |= set(step.outputs)
    assert made == set(range(len(found.tensors)))


def test_the_same_module_records_the_same_twice():
    state = random.getstate()
    first, second = (captured_module(Tokens(), (tokens(), tokens())) for _ in range(2))
    assert first == second
    assert random.getstate() == state
