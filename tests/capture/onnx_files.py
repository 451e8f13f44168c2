"""Small ONNX files made by hand, as exporters write them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper, save_model

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
Dims = Sequence[int | str]


class File:
    """A graph in the making: weights have shapes and no interesting numbers."""

    def __init__(self, opset: int = 17, *, microsoft: bool = False) -> None:
        self.nodes: list[NodeProto] = []
        self.weights: list[TensorProto] = []
        self.inputs: list[Any] = []
        self.opsets = [helper.make_opsetid("", opset)]
        if microsoft:
            self.opsets.append(helper.make_opsetid("com.microsoft", 1))
        self.count = 0

    def given(self, name: str, dims: Dims, elem_type: int = FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, elem_type, dims))
        return name

    def weight(self, name: str, *shape: int) -> str:
        self.weights.append(numpy_helper.from_array(np.zeros(shape, dtype=np.float32), name))
        return name

    def numbers(self, *values: int) -> str:
        self.count += 1
        self.weights.append(numpy_helper.from_array(np.array(values, dtype=np.int64), f"numbers_{self.count}"))
        return f"numbers_{self.count}"

    def number(self, value: float) -> str:
        self.count += 1
        self.weights.append(numpy_helper.from_array(np.array(value, dtype=np.float32), f"number_{self.count}"))
        return f"number_{self.count}"

    def add(self, op: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: Any) -> str:
        """The first output of a new node; others are named after it."""
        self.count += 1
        made = [f"{op.lower()}_{self.count}" + (f"_{place}" if place else "") for place in range(outputs)]
        node = helper.make_node(op, inputs, made, name=f"{op}_{self.count}", domain=domain, **attributes)
        self.nodes.append(node)
        return made[0]

    def model(self, *outputs: str) -> ModelProto:
        made = [helper.make_empty_tensor_value_info(name) for name in outputs]
        graph = helper.make_graph(self.nodes, "by_hand", self.inputs, made, self.weights)
        return helper.make_model(graph, opset_imports=self.opsets)

    def save(self, path: Path, *outputs: str) -> Path:
        save_model(self.model(*outputs), str(path))
        return path


def mlp(path: Path, batch: int | str = "batch") -> Path:
    file = File()
    x = file.given("x", [batch, 64])
    hidden = file.add("Relu", file.add("Gemm", x, file.weight("w1", 128, 64), file.weight("b1", 128), transB=1))
    return file.save(path, file.add("Gemm", hidden, file.weight("w2", 128, 10), file.weight("b2", 10)))


def layer_norm_by_hand(file: File, x: str, width: int, name: str) -> str:
    """As exporters wrote it before there was LayerNormalization."""
    centred = file.add("Sub", x, file.add("ReduceMean", x, axes=[-1]))
    variance = file.add("ReduceMean", file.add("Pow", centred, file.number(2.0)), axes=[-1])
    scaled = file.add("Div", centred, file.add("Sqrt", file.add("Add", variance, file.number(1e-5))))
    return file.add("Add", file.add("Mul", scaled, file.weight(f"{name}.w", width)), file.weight(f"{name}.b", width))


def linear(file: File, x: str, rows: int, columns: int, name: str) -> str:
    return file.add(
        "Add", file.add("MatMul", x, file.weight(f"{name}.w", rows, columns)), file.weight(f"{name}.b", columns)
    )


def split_heads(file: File, x: str, sizes: str, *perm: int) -> str:
    return file.add("Transpose", file.add("Reshape", x, sizes), perm=perm)


def attention_by_hand(file: File, x: str, width: int, heads: int, name: str, mask: str = "") -> str:
    """Sizes by Shape, Gather and Concat, as the exporter that traces writes them."""
    shape = file.add("Shape", x)
    batch = file.add("Gather", shape, file.numbers(0))
    seq = file.add("Gather", shape, file.numbers(1))
    apart = file.add("Concat", batch, seq, file.numbers(heads), file.numbers(width // heads), axis=0)
    query, key, value = (linear(file, x, width, width, f"{name}.{part}") for part in "qkv")
    query = split_heads(file, query, apart, 0, 2, 1, 3)
    key = split_heads(file, key, apart, 0, 2, 3, 1)
    value = split_heads(file, value, apart, 0, 2, 1, 3)
    scores = file.add("Div", file.add("MatMul", query, key), file.number((width // heads) ** 0.5))
    if mask:
        scores = file.add("Add", scores, mask)
    mixed = file.add("Transpose", file.add("MatMul", file.add("Softmax", scores, axis=-1), value), perm=[0, 2, 1, 3])
    joined = file.add("Reshape", mixed, file.add("Concat", batch, seq, file.numbers(width), axis=0))
    return linear(file, joined, width, width, f"{name}.o")


def gelu_by_hand(file: File, x: str) -> str:
    erf = file.add("Erf", file.add("Div", x, file.number(2.0**0.5)))
    return file.add("Mul", file.add("Mul", x, file.add("Add", erf, file.number(1.0))), file.number(0.5))


def block(file: File, x: str, width: int, heads: int, name: str, mask: str = "", *, is_fused: bool = False) -> str:
    def norm(value: str, label: str) -> str:
        if is_fused:
            weights = file.weight(f"{label}.w", width), file.weight(f"{label}.b", width)
            return file.add("LayerNormalization", value, *weights, axis=-1)
        return layer_norm_by_hand(file, value, width, label)

    x = file.add("Add", x, attention_by_hand(file, norm(x, f"{name}.ln1"), width, heads, f"{name}.attn", mask))
    hidden = gelu_by_hand(file, linear(file, norm(x, f"{name}.ln2"), width, 4 * width, f"{name}.fc"))
    return file.add("Add", x, linear(file, hidden, 4 * width, width, f"{name}.proj"))


def transformer_block(path: Path, opset: int = 14) -> Path:
    file = File(opset)
    x = file.given("x", ["batch", "seq", 64])
    return file.save(path, block(file, x, 64, 4, "h0"))


def causal_mask(file: File, ids: str) -> str:
    seq = file.add("Gather", file.add("Shape", ids), file.numbers(1))
    ones = file.add("Expand", file.number(1.0), file.add("Concat", seq, seq, axis=0))
    is_later = file.add("Equal", file.add("Trilu", ones, upper=0), file.number(0.0))
    return file.add("Where", is_later, file.number(-1e9), file.number(0.0))


def gpt(path: Path, layers: int = 4, width: int = 64, heads: int = 4, vocab: int = 100, positions: int = 32) -> Path:
    """A decoder as GPT-2 is, its head on the table of words."""
    file = File(17)
    ids = file.given("ids", ["batch", "seq"], INT64)
    seq = file.add("Squeeze", file.add("Gather", file.add("Shape", ids), file.numbers(1)))
    places = file.add("Range", file.add("Squeeze", file.numbers(0)), seq, file.add("Squeeze", file.numbers(1)))
    table = file.weight("wte", vocab, width)
    x = file.add(
        "Add", file.add("Gather", table, ids), file.add("Gather", file.weight("wpe", positions, width), places)
    )
    mask = causal_mask(file, ids)
    for layer in range(layers):
        x = block(file, x, width, heads, f"h{layer}", mask, is_fused=True)
    x = file.add("LayerNormalization", x, file.weight("ln.w", width), file.weight("ln.b", width), axis=-1)
    return file.save(path, file.add("MatMul", x, file.add("Transpose", table, perm=[1, 0])))


def convolutions(path: Path, batch: int | str = "N") -> Path:
    """A stem, a block with a shortcut, a pool and a classifier, as ResNets have."""
    file = File()
    x = file.given("x", [batch, 3, 32, 32])

    def conv(value: str, rows: int, columns: int, side: int, stride: int, name: str) -> str:
        made = file.add(
            "Conv", value, file.weight(f"{name}.w", rows, columns, side, side),
            kernel_shape=[side, side], strides=[stride, stride], pads=[side // 2] * 4,
        )  # fmt: skip
        statistics = (file.weight(f"{name}.{part}", rows) for part in ("scale", "bias", "mean", "var"))
        return file.add("BatchNormalization", made, *statistics)

    x = file.add(
        "MaxPool", file.add("Relu", conv(x, 16, 3, 7, 2, "stem")), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4
    )
    inner = conv(file.add("Relu", conv(x, 32, 16, 3, 2, "a")), 32, 32, 3, 1, "b")
    x = file.add("Relu", file.add("Add", inner, conv(x, 32, 16, 1, 2, "short")))
    x = file.add("Flatten", file.add("GlobalAveragePool", x), axis=1)
    return file.save(path, file.add("Gemm", x, file.weight("fc.w", 10, 32), file.weight("fc.b", 10), transB=1))


def recurrent(path: Path, directions: int = 1) -> Path:
    file = File()
    x = file.given("x", ["seq", "batch", 24])
    weights = (
        file.weight("w", directions, 4 * 16, 24),
        file.weight("r", directions, 4 * 16, 16),
        file.weight("b", directions, 8 * 16),
    )
    direction = "bidirectional" if directions == 2 else "forward"
    made = file.add("LSTM", x, *weights, outputs=3, hidden_size=16, direction=direction)
    return file.save(path, file.add("Squeeze", made, file.numbers(1)) if directions == 1 else made)
