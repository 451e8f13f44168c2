"""ONNX operators over several elements: sums, softmax, sorting, pools, losses."""

from __future__ import annotations

from functools import partial
from math import prod

from dovetail.importers.onnx_steps import Call, Steps, onnx_operators

REDUCING = (
    "ArgMax", "ArgMin", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMin",
    "ReduceProd", "ReduceSumSquare", "LpNormalization", "Hardmax",
)  # fmt: skip
POOLS = {"MaxPool": "maxpool", "AveragePool": "avgpool", "LpPool": "avgpool"}
GLOBAL_POOLS = {"GlobalMaxPool": "maxpool", "GlobalAveragePool": "avgpool", "GlobalLpPool": "avgpool"}


def summed_dims(call: Call) -> tuple[int, ...]:
    """The dims a reduction runs over: an attribute, later an input, all where neither is given."""
    rank = len(call[0].shape)
    if call.has(1):
        dims = call.numbers(1)
    else:
        dims = call.integers("axes")
    if not dims:
        dims = () if call.integer("noop_with_empty_axes", 0) else tuple(range(rank))
    return tuple(sorted(dim + rank if dim < 0 else dim for dim in dims))


def reduction(word: str, call: Call, steps: Steps) -> None:
    steps.write(word, [call[0]], call.outputs, dims=summed_dims(call))


def other_reduction(call: Call, steps: Steps) -> None:
    steps.write("reduce", [call[0]], call.outputs)


def softmax(word: str, call: Call, steps: Steps) -> None:
    """Before opset 13 all dims from `axis` on are taken as one; the last of them is as good a name for it."""
    is_flattened = call.opset < 13  # the version of Softmax that takes one dim alone
    dim = call.integer("axis", 1 if is_flattened else -1)
    rank = len(call[0].shape)
    steps.write(word, [call[0]], call.outputs, dim=dim + rank if dim < 0 else dim)


def pool(word: str, call: Call, steps: Steps) -> None:
    window = call.integers("kernel_shape", (1,))
    strides = call.integers("strides") or (1,) * len(window)
    steps.write(word, [call[0]], call.outputs[:1], window=window[0], stride=strides[0])


def global_pool(word: str, call: Call, steps: Steps) -> None:
    side = call[0].shape[-1]
    steps.write(word, [call[0]], call.outputs, window=side, stride=side)


onnx_operators.register("ReduceSum")(partial(reduction, "sum"))
onnx_operators.register("ReduceMean")(partial(reduction, "mean"))
onnx_operators.register("Softmax")(partial(softmax, "softmax"))
onnx_operators.register("LogSoftmax")(partial(softmax, "log_softmax"))
for _op in REDUCING:
    onnx_operators.register(_op)(other_reduction)
for _op, _word in POOLS.items():
    onnx_operators.register(_op)(partial(pool, _word))
for _op, _word in GLOBAL_POOLS.items():
    onnx_operators.register(_op)(partial(global_pool, _word))


@onnx_operators.register("TopK")
def top_k(call: Call, steps: Steps) -> None:
    steps.write("topk", [call[0]], call.outputs)


@onnx_operators.register("CumSum")
@onnx_operators.register("CumProd")
def cumulative(call: Call, steps: Steps) -> None:
    steps.write("cumsum", [call[0]], call.outputs)


@onnx_operators.register("Resize")
@onnx_operators.register("Upsample")
def resize(call: Call, steps: Steps) -> None:
    """An interpolation: each element made reads as many as a window of the pool does."""
    ratio = max(1, round((call[0].num_elements / max(1, prod(call.outputs[0].shape))) ** 0.5))
    steps.write("avgpool", [call[0]], call.outputs, window=ratio, stride=ratio)


@onnx_operators.register("SoftmaxCrossEntropyLoss")
def cross_entropy(call: Call, steps: Steps) -> None:
    steps.write("cross_entropy", [call[0], call[1]], call.outputs[:1])


@onnx_operators.register("NegativeLogLikelihoodLoss")
def negative_log_likelihood(call: Call, steps: Steps) -> None:
    steps.write("nll", [call[0], call[1]], call.outputs[:1])
