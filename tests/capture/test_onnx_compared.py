"""The same decoder three ways: an ONNX file, the PyTorch module it came from, and the catalogue's Transformer."""

from __future__ import annotations

import io
import warnings
from collections import Counter
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")

from dovetail.importers.onnx_model import recorded_onnx
from dovetail.workload.gpt2 import gpt2_like
from dovetail.workload.graph import Graph
from dovetail.workload.layers import Sample
from dovetail.workload.operators import OPERATORS
from dovetail.workload.recorded.record import Recorded
from dovetail.workload.recorded.understand import understood
from tests.capture import onnx_files

LAYERS, WIDTH, HEADS, VOCAB, POSITIONS, SEQ = 3, 64, 4, 100, 64, 32


def graph_of(recorded: Recorded, batch: int = 8) -> Graph:
    model = understood(recorded)
    return model.forward(Sample(batch=batch, seq=model.seq, dtype="bf16"))


def catalogue_graph(batch: int = 8) -> Graph:
    shape = gpt2_like("gpt2-like", LAYERS, WIDTH, HEADS, VOCAB, POSITIONS)
    shape = replace(shape, has_dropout=False, has_attention_dropout=False)  # an export for inference has none
    return shape.forward(Sample(batch=batch, seq=SEQ, dtype="bf16"))


def operators(graph: Graph) -> Counter[tuple[Any, ...]]:
    """Every operator with its extents; constants are made in other ways by other tools, and cost next to nothing."""
    found: Counter[tuple[Any, ...]] = Counter()
    for block in graph.blocks:
        for place in range(len(block.ops.names)):
            name = OPERATORS[block.ops.kind[place]].name
            if name not in ("constant", "input"):
                found[name, *block.ops.extents[place].tolist()] += block.repeat
    return found


def decoder() -> Any:
    torch = pytest.importorskip("torch")
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):  # type: ignore[misc,name-defined,unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x: Any) -> Any:
            batch, seq, _ = x.shape
            parts = self.qkv(self.ln1(x)).split(WIDTH, 2)
            heads = (part.view(batch, seq, HEADS, WIDTH // HEADS).transpose(1, 2) for part in parts)
            mixed = functional.scaled_dot_product_attention(*heads, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(batch, seq, WIDTH))
            return x + self.down(functional.gelu(self.up(self.ln2(x))))

    class Decoder(nn.Module):  # type: ignore[misc,name-defined,unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(VOCAB, WIDTH), nn.Embedding(POSITIONS, WIDTH)
            self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
            self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCAB, bias=False)
            self.head.weight = self.words.weight

        def forward(self, ids: Any) -> Any:
            x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    torch.manual_seed(0)
    return Decoder().eval()


def exported(module: Any, path: Path, *, is_frozen: bool = False) -> Path:
    """The file that PyTorch's tracing exporter writes, which needs no package but onnx."""
    torch = pytest.importorskip("torch")
    ids = torch.zeros(2, SEQ, dtype=torch.long)
    axes = {} if is_frozen else {"dynamic_axes": {"ids": {0: "batch", 1: "seq"}}}
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        torch.onnx.export(module, (ids,), str(path), dynamo=False, input_names=["ids"], opset_version=17, **axes)
    return path


@pytest.fixture(scope="module")
def module() -> Any:
    return decoder()


@pytest.fixture(scope="module")
def file(module: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported(module, tmp_path_factory.mktemp("onnx") / "decoder.onnx")


def test_a_file_and_the_module_it_came_from_are_the_same_graph(module: Any, file: Path):
    torch = pytest.importorskip("torch")
    from dovetail.importers.torch_model import recorded_module

    of_file = graph_of(recorded_onnx(file, seq=SEQ))
    of_module = graph_of(recorded_module(module, (torch.zeros(2, SEQ, dtype=torch.long),)))
    assert of_file.num_parameters == of_module.num_parameters == sum(weight.numel() for weight in module.parameters())
    assert of_file.model_flop == of_module.model_flop
    assert operators(of_file) == operators(of_module)


@pytest.mark.parametrize("by", ["exporter", "hand"])
def test_a_file_has_the_parameters_and_flop_of_the_catalogues_shape(file: Path, tmp_path: Path, by):
    if by == "hand":
        file = onnx_files.gpt(tmp_path / "gpt.onnx", LAYERS, WIDTH, HEADS, VOCAB, POSITIONS)
    for batch in (1, 8):
        of_file, of_catalogue = graph_of(recorded_onnx(file, seq=SEQ), batch), catalogue_graph(batch)
        assert of_file.num_parameters == of_catalogue.num_parameters
        assert of_file.model_flop == of_catalogue.model_flop


def test_layers_of_a_file_are_found_to_repeat(file: Path):
    assert [block.repeat for block in graph_of(recorded_onnx(file, seq=SEQ)).blocks] == [1, LAYERS, 1]


def test_a_frozen_export_gives_the_same_products_at_any_batch(module: Any, file: Path, tmp_path: Path):
    frozen = graph_of(recorded_onnx(exported(module, tmp_path / "frozen.onnx", is_frozen=True)))
    free = graph_of(recorded_onnx(file, seq=SEQ))
    assert frozen.model_flop == free.model_flop
    assert free.num_parameters - frozen.num_parameters == (POSITIONS - SEQ) * WIDTH  # only the places in use are there


def test_a_head_on_the_table_of_words_is_shared_though_the_file_holds_it_twice(file: Path):
    recorded = recorded_onnx(file, seq=SEQ)
    matrices = [tensor.shape for tensor in recorded.base.tensors if tensor.name and tensor.shape == (VOCAB, WIDTH)]
    assert matrices == [(VOCAB, WIDTH)]
    assert not [tensor for tensor in recorded.base.tensors if tensor.name and tensor.shape == (WIDTH, VOCAB)]


def test_a_convolutional_file_is_understood(tmp_path: Path):
    recorded = recorded_onnx(onnx_files.convolutions(tmp_path / "cnn.onnx"))
    assert {"convolution", "batchnorm"} <= {name for name, *_ in operators(graph_of(recorded))}


@pytest.mark.parametrize("directions", [1, 2])
def test_a_recurrent_file_has_the_flop_of_its_gates(tmp_path: Path, directions):
    graph = graph_of(recorded_onnx(onnx_files.recurrent(tmp_path / "lstm.onnx", directions), seq=6))
    assert graph.num_parameters == directions * (64 * 24 + 64 * 16 + 128)
    assert graph.model_flop == 2 * 8 * 6 * directions * 64 * (24 + 16)


def test_attention_with_a_mask_is_one_operator_however_it_is_exported(tmp_path: Path):
    """Both sides scaled, and what is no number replaced behind the softmax, as PyTorch's exporters write it."""
    file = onnx_files.File()
    x = file.given("x", ["batch", 16, 32])
    heads = file.add("Reshape", onnx_files.linear(file, x, 32, 32, "q"), file.numbers(0, 16, 4, 8))
    query = file.add("Mul", file.add("Transpose", heads, perm=[0, 2, 1, 3]), file.number(0.6))
    keys = file.add("Mul", file.add("Transpose", heads, perm=[0, 2, 3, 1]), file.number(0.6))
    shares = file.add("Softmax", file.add("MatMul", query, keys), axis=-1)
    shares = file.add("Where", file.add("IsNaN", shares), file.number(0.0), shares)
    mixed = file.add("MatMul", shares, file.add("Transpose", heads, perm=[0, 2, 1, 3]))
    made = file.add("Reshape", file.add("Transpose", mixed, perm=[0, 2, 1, 3]), file.numbers(0, 16, 32))
    path = file.save(tmp_path / "f.onnx", onnx_files.linear(file, made, 32, 32, "o"))
    names = Counter(name for name, *_ in operators(graph_of(recorded_onnx(path))).elements())
    assert names["attention"] == 1
    assert not {"scale", "where", "softmax"} & names.keys()
