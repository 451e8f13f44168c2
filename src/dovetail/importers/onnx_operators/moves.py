"""ONNX operators that move elements, look them up, or only see them another way."""

from __future__ import annotations

from functools import partial

from dovetail.importers.onnx_steps import Call, Steps, onnx_operators
from dovetail.workload.recorded.record import Source

VIEWS = ("BitCast", "Expand", "Flatten", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze")
COPIES = ("DepthToSpace", "SpaceToDepth")
GATHERS = ("GatherElements", "GatherND", "GridSample", "ReverseSequence", "Tile")
SCATTERS = ("Scatter", "ScatterElements", "ScatterND", "TensorScatter")
MADE = (
    "Bernoulli", "ConstantOfShape", "EyeLike", "Multinomial", "RandomNormal", "RandomNormalLike",
    "RandomUniform", "RandomUniformLike", "Range", "Shape", "Size",
)  # fmt: skip


def first_only(word: str, call: Call, steps: Steps) -> None:
    """One step of the first input: the others say shapes and axes."""
    steps.write(word, [call[0]], call.outputs)


def of_tensors(word: str, call: Call, steps: Steps) -> None:
    steps.write(word, call.given, call.outputs)


def made_of_nothing(call: Call, steps: Steps) -> None:
    steps.write("constant", (), call.outputs)


for _op in VIEWS:
    onnx_operators.register(_op)(partial(first_only, "view"))
for _op in COPIES:
    onnx_operators.register(_op)(partial(first_only, "copy"))
for _op in ("Cast", "CastLike"):
    onnx_operators.register(_op)(partial(first_only, "cast"))
for _op in GATHERS:
    onnx_operators.register(_op)(partial(of_tensors, "gather"))
for _op in SCATTERS:
    onnx_operators.register(_op)(partial(of_tensors, "scatter"))
for _op in MADE:
    onnx_operators.register(_op)(made_of_nothing)


@onnx_operators.register("CenterCropPad")
@onnx_operators.register("Pad")
def pad(call: Call, steps: Steps) -> None:
    steps.write("pad", [call[0]], call.outputs)


@onnx_operators.register("Concat")
def concat(call: Call, steps: Steps) -> None:
    dim = call.integer("axis", 0)
    rank = len(call.outputs[0].shape)
    tensors = [value for value in call.given if value.num_elements]
    steps.write("concat", tensors, call.outputs, dim=dim + rank if dim < 0 else dim)


@onnx_operators.register("Gather")
def gather(call: Call, steps: Steps) -> None:
    """A lookup in a table of weights, one place of a tensor, or rows of it by an index."""
    table, indices = call[0], call[1]
    if table.source is Source.PARAMETER and call.integer("axis", 0) == 0 and len(table.shape) > 1 and indices.shape:
        steps.write("embedding", [table, indices], call.outputs)
    elif indices.is_number:
        steps.write("view", [table], call.outputs)
    else:
        steps.write("gather", [table, indices], call.outputs)
