"""ONNX's norms. Running statistics are no inputs of a step: training makes its own."""

from __future__ import annotations

from functools import partial

from dovetail.importers.onnx_steps import Call, Shape, Steps, Value, onnx_operators, onnx_shapes

WORD_OF = {
    "LayerNormalization": "layernorm", "RMSNormalization": "rmsnorm", "SimplifiedLayerNormalization": "rmsnorm",
    "com.microsoft.SimplifiedLayerNormalization": "rmsnorm", "BatchNormalization": "batchnorm",
    "GroupNormalization": "groupnorm", "MeanVarianceNormalization": "groupnorm",
    "InstanceNormalization": "groupnorm", "com.microsoft.GroupNorm": "groupnorm",
}  # fmt: skip


def norm(word: str, call: Call, steps: Steps) -> None:
    num_weights = 1 if word == "rmsnorm" else 2
    steps.write(word, [value for value in call.inputs[: 1 + num_weights] if value.name], call.outputs[:1])


def same_shape(call: Call) -> list[tuple[Shape, int]]:
    return [(call[0].shape, call[0].elem_type)]


for _op, _word in WORD_OF.items():
    onnx_operators.register(_op)(partial(norm, _word))
for _op in (
    "SimplifiedLayerNormalization", "com.microsoft.SimplifiedLayerNormalization", "com.microsoft.GroupNorm",
    "com.microsoft.Gelu", "com.microsoft.QuickGelu", "com.microsoft.FastGelu", "com.microsoft.BiasGelu",
):  # fmt: skip
    onnx_shapes.register(_op)(same_shape)


@onnx_operators.register("LRN")
def local_response(call: Call, steps: Steps) -> None:
    """x / (k + a * mean of squares over near channels)^b: squares, a window over them, a power, a quotient."""
    squares, means, powers = (steps.made(call[0].shape, call[0].elem_type) for _ in range(3))
    steps.write("pow", [call[0]], [squares], exponent=2.0)
    steps.write("avgpool", [squares], [means], window=call.integer("size", 1), stride=1)
    steps.write("pow", [means], [powers], exponent=float(call.attributes.get("beta", 0.75)))
    steps.write("div", [call[0], powers], call.outputs)


@onnx_shapes.register("com.microsoft.SkipLayerNormalization")
@onnx_shapes.register("com.microsoft.SkipSimplifiedLayerNormalization")
def skip_shapes(call: Call) -> list[tuple[Shape, int]]:
    """The norm, two statistics, and the sum."""
    rows = (*call[0].shape[:-1], 1)
    return [(call[0].shape, call[0].elem_type), (rows, 1), (rows, 1), (call[0].shape, call[0].elem_type)]


def skip_norm(word: str, call: Call, steps: Steps) -> None:
    """x + skip (+ bias), and the norm of the sum. Source: ContribOperators.md of ONNX Runtime."""
    num_weights = 1 if word == "rmsnorm" else 2
    bias_at = 2 + num_weights
    is_kept = len(call.outputs) > 3 and bool(call.outputs[3].name)
    last = call.outputs[3] if is_kept else steps.made(call[0].shape, call[0].elem_type)
    if call.has(bias_at):
        summed = steps.made(call[0].shape, call[0].elem_type)
        steps.write("add", [call[0], call[1]], [summed])
        steps.write("add", [summed, call[bias_at]], [last])
    else:
        steps.write("add", [call[0], call[1]], [last])
    weights: list[Value] = [value for value in call.inputs[2:bias_at] if value.name]
    steps.write(word, [last, *weights], call.outputs[:1])


onnx_operators.register("com.microsoft.SkipLayerNormalization")(partial(skip_norm, "layernorm"))
onnx_operators.register("com.microsoft.SkipSimplifiedLayerNormalization")(partial(skip_norm, "rmsnorm"))


@onnx_shapes.register("com.microsoft.EmbedLayerNormalization")
def embed_shapes(call: Call) -> list[tuple[Shape, int]]:
    batch, seq = call.dims(0, 2)
    width = call[2].shape[-1]
    return [((batch, seq, width), call[2].elem_type), ((batch,), 6), ((batch, seq, width), call[2].elem_type)]


@onnx_operators.register("com.microsoft.EmbedLayerNormalization")
def embed_norm(call: Call, steps: Steps) -> None:
    """Rows of up to three tables, added, and the layer norm of them.

    Inputs: ids, segments, tables of words, positions and segments, scale and bias.
    """
    shape, elem_type = call.outputs[0].shape, call.outputs[0].elem_type
    total = steps.made(shape, elem_type)
    steps.write("embedding", [call[2], call[0]], [total])
    for table, indices in ((3, 7 if call.has(7) else 0), (4, 1)):
        if call.has(table) and call.has(indices):
            looked_up, summed = steps.made(shape, elem_type), steps.made(shape, elem_type)
            steps.write("embedding", [call[table], call[indices]], [looked_up])
            steps.write("add", [total, looked_up], [summed])
            total = summed
    steps.write("layernorm", [total, call[5], call[6]], call.outputs[:1])
