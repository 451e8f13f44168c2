"""What a PyTorch module is called with: inputs at other sizes, and numbers that a recording knows."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, an extra, is not installed")
import torch.nn.functional as F  # noqa: E402, N812
from torch import nn  # noqa: E402

from dovetail.importers.torch_model import captured_module  # noqa: E402
from dovetail.workload.recorded.record import Source  # noqa: E402
from tests.capture.torch_toys import WIDTH, batch, capture, shapes, steps, tokens, words  # noqa: E402


def test_inputs_may_be_nested_and_hold_other_things():
    class Nested(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(WIDTH, WIDTH)

        def forward(self, pair, factor=1, more=None):
            return self.inner(pair[0] + pair[1]["x"]) * factor + more

    inputs = {"pair": [batch(), {"x": batch()}], "factor": 3, "more": batch(1)}
    found = captured_module(Nested(), inputs).recorded.base
    given = {tensor.name: tensor.shape for tensor in found.tensors if tensor.source is Source.INPUT}
    assert given == {"pair.0": (2, WIDTH), "pair.1": (2, WIDTH), "more": (2, 1)}


def test_flat_indices_and_offsets_of_bags_grow_with_the_batch():
    class Bag(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.EmbeddingBag(50, WIDTH, mode="sum")

        def forward(self, dense, indices, offsets):
            return dense + self.table(indices, offsets)

    whole = torch.zeros(20, dtype=torch.long)
    found = captured_module(Bag(), (batch(), whole, torch.arange(0, 20, 5))).recorded.base
    [step] = steps(found, "embedding_bag")
    assert shapes(found, step.inputs) == [(50, WIDTH), (10,), (2,)]
    assert step.attribute("pool", 0) == 5


def test_offsets_may_end_with_the_end_of_the_last_bag():
    class Bag(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.EmbeddingBag(50, WIDTH, mode="sum", include_last_offset=True)

        def forward(self, dense, indices, offsets):
            return dense + self.table(indices, offsets)

    inputs = (batch(), torch.zeros(20, dtype=torch.long), torch.arange(0, 21, 5))
    found = captured_module(Bag(), inputs).recorded.other_batch
    [step] = steps(found, "embedding_bag")
    assert shapes(found, step.inputs) == [(50, WIDTH), (15,), (4,)]
    assert step.attribute("pool", 0) == 5


def test_positions_may_come_first():
    found = captured_module(nn.LSTM(WIDTH, 8), (torch.zeros(128, 4, WIDTH),), seq_dim=0)
    assert found.batch == 4
    assert (found.recorded.seq, found.recorded.second_seq) == (128, 64)
    [step] = steps(found.recorded.other_seq, "lstm")
    assert shapes(found.recorded.other_seq, step.inputs)[0] == (64, 2, WIDTH)
    [step] = steps(found.recorded.other_batch, "lstm")
    assert shapes(found.recorded.other_batch, step.inputs)[0] == (128, 3, WIDTH)


def test_positions_masks_and_embeddings_are_taken_shorter_with_the_tokens():
    class Placed(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(9, WIDTH)

        def forward(self, ids, places, mask, bias, embedded):
            x = self.table(ids) + self.table(places) + embedded
            q = x[:, None] * 1
            return F.scaled_dot_product_attention(q, q, q, attn_mask=mask.log() + bias)

    square = torch.ones(4, 1, 256, 256)
    inputs = (tokens(), torch.arange(256), square.bool(), square, torch.zeros(4, 256, WIDTH))
    found = captured_module(Placed(), inputs).recorded
    given = [tensor.shape for tensor in found.other_seq.tensors if tensor.source is Source.INPUT]
    assert given == [(2, 128), (128,), (2, 1, 128, 128), (2, 1, 128, 128), (2, 128, WIDTH)]


def test_outputs_may_be_a_dataclass():
    @dataclass
    class Answer:
        logits: object
        loss: object = None

    assert shapes((found := capture(lambda _, x: Answer(x))).recorded.base, found.results) == [(2, WIDTH)]
    assert shapes((found := capture(lambda _, x: Answer(x, x.sum()))).recorded.base, found.results) == [()]


def test_arrays_of_numpy_are_known_numbers():
    numpy = pytest.importorskip("numpy")

    def forward(_, x):
        scale = torch.from_numpy(numpy.ones(WIDTH, dtype=numpy.float32))
        other = torch.as_tensor([1.0] * WIDTH)
        return x * scale + other if bool(scale.sum() == WIDTH) and float(other.max()) == 1 else x

    assert words(forward)[-2:] == ["mul", "add"]


def test_numbers_made_of_shapes_may_decide():
    def positions(_, x):
        places = torch.arange(x.shape[1])
        if bool((places.diff() == 1).all()) and int(torch.tensor([3, 4]).max()) == 4:
            return x.relu()
        return x.exp()

    assert words(positions)[-1] == "relu"


def test_a_mask_of_ones_with_numbers_may_decide():
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(WIDTH, WIDTH)

        def forward(self, x, attention_mask):
            x = self.inner(x)
            return x if attention_mask.all() else x * attention_mask[..., None]

    mask = torch.ones(4, dtype=torch.long)
    assert "mul" not in [s.word for s in captured_module(Masked(), (batch(), mask)).recorded.base.steps]
    assert "mul" in [s.word for s in captured_module(Masked(), (batch(), 0 * mask)).recorded.base.steps]


def test_a_layer_drop_that_is_unlikely_drops_no_layer():
    def drop(_, x):
        return x if torch.rand([]) < 0.1 else x.relu()

    found = capture(drop)
    assert found.recorded.base.steps[-1].word == "relu"
    assert "1 random choices of the forward pass were made with the number 0.5" in found.notes


def test_a_check_for_numbers_that_are_not_finite_passes():
    found = capture(
        lambda _, x: x.clamp(0, 1) if x.isnan().any() or torch.isinf(x).any() or not x.isfinite().all() else x.relu()
    )
    assert found.recorded.base.steps[-1].word == "relu"
    assert "all numbers are taken to be finite, as the module checks" in found.notes


def test_a_write_through_a_mask_is_a_scatter():
    def forward(_, x):
        x = x * 1
        x[x.sum(-1) > 0] = 3.0
        return x

    assert words(forward)[-1] == "scatter"


def test_complex_numbers_are_two_floats():
    def rotate(_, x):
        turns = torch.polar(torch.ones(WIDTH // 2), torch.arange(WIDTH // 2).float())
        pairs = torch.view_as_complex(x.view(-1, WIDTH // 2, 2))
        return torch.view_as_real(pairs * turns).flatten(1)

    found = capture(rotate).recorded.base
    [step] = steps(found, "mul")
    assert shapes(found, step.inputs) == [(2, WIDTH // 2, 2), (WIDTH // 2, 2)]
    assert {tensor.dtype for tensor in found.tensors} <= {"fp32", "int"}


def test_a_mask_without_numbers_is_of_ones_and_a_mask_with_some_zeros_is_repeated():
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(9, WIDTH)

        def forward(self, ids, attention_mask):
            x = self.table(ids)
            return x if attention_mask.all() else x * attention_mask[..., None]

    empty = captured_module(Masked(), (tokens(), tokens().to("meta")))
    assert "attention_mask has no numbers and is taken to be of ones" in empty.notes
    assert not steps(empty.recorded.base, "mul")
    mask = torch.ones_like(tokens())
    mask[0, 0] = 0
    assert steps(captured_module(Masked(), (tokens(), mask)).recorded.other_seq, "mul")
