"""ONNX operators that work element by element."""

from __future__ import annotations

from functools import partial

from dovetail.importers.onnx_steps import Call, Steps, onnx_operators

WORD_OF = {
    "Add": "add", "Sub": "sub", "Mul": "mul", "Neg": "neg", "Exp": "exp", "Log": "log", "Sqrt": "sqrt",
    "Reciprocal": "reciprocal", "Abs": "abs", "Cos": "cos", "Sin": "sin", "Erf": "erf", "Tanh": "tanh",
    "Sigmoid": "sigmoid", "Relu": "relu", "Gelu": "gelu", "HardSwish": "hardswish", "HardSigmoid": "hardsigmoid",
    "Swish": "silu", "com.microsoft.Gelu": "gelu", "com.microsoft.QuickGelu": "gelu",
    "Where": "where", "Trilu": "triangle",
}  # fmt: skip
UNARY = (
    "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Ceil", "Celu", "Clip", "Cosh", "Elu",
    "Floor", "LeakyRelu", "Mish", "Round", "Selu", "Shrink", "Sign", "Sinh", "Softplus", "Softsign", "Tan",
    "ThresholdedRelu",
)  # fmt: skip
BINARY = ("BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Max", "Mean", "Min", "Mod", "PRelu")
COMPARE = (
    "And", "Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual", "Not", "Or", "Xor",
    "OneHot",
)  # fmt: skip


def element_wise(word: str, call: Call, steps: Steps) -> None:
    """One step; operands that are plain numbers are none of its inputs."""
    tensors = [value for value in call.given if not value.is_number]
    steps.write(word, tensors or call.given[:1], call.outputs)


for _op, _word in WORD_OF.items():
    onnx_operators.register(_op)(partial(element_wise, _word))
for _word, _ops in (("unary", UNARY), ("binary", BINARY), ("compare", COMPARE)):
    for _op in _ops:
        onnx_operators.register(_op)(partial(element_wise, _word))


@onnx_operators.register("Div")
def div(call: Call, steps: Steps) -> None:
    is_reciprocal = call[0].is_number and bool(call[0].known) and float(call[0].known[0].ravel()[0]) == 1.0
    element_wise("reciprocal" if is_reciprocal else "div", call, steps)


@onnx_operators.register("Pow")
def power(call: Call, steps: Steps) -> None:
    if call[1].is_number and call[1].known:
        steps.write("pow", [call[0]], call.outputs, exponent=float(call[1].known[0].ravel()[0]))
    else:
        element_wise("binary", call, steps)


@onnx_operators.register("Sum")
def total(call: Call, steps: Steps) -> None:
    """Any number of tensors, added one after the other."""
    running = call[0]
    for place, value in enumerate(call.given[1:], start=2):
        is_last = place == len(call.given)
        made = call.outputs[0] if is_last else steps.made(call.outputs[0].shape, call.outputs[0].elem_type)
        steps.write("add", [running, value], [made])
        running = made
    if len(call.given) == 1:
        steps.write("copy", call.given, call.outputs)


@onnx_operators.register("Dropout")
def dropout(call: Call, steps: Steps) -> None:
    """A share of nothing drops nothing; it was an attribute before opset 12."""
    ratio = float(call[1].known[0].ravel()[0]) if call.has(1) and call[1].known else call.attributes.get("ratio", 0.5)
    steps.write("dropout" if ratio else "view", [call[0]], call.outputs[:1])


@onnx_operators.register("com.microsoft.FastGelu")
@onnx_operators.register("com.microsoft.BiasGelu")
def bias_gelu(call: Call, steps: Steps) -> None:
    given = call[0]
    if call.has(1):
        given = steps.made(call[0].shape, call[0].elem_type)
        steps.write("add", [call[0], call[1]], [given])
    steps.write("gelu", [given], call.outputs)
