"""Shapes of what a node makes: by ONNX's own inference, one node at a time with all sizes known.

A node whose inputs are constants has a constant value, and shapes may follow from it: it is computed by ONNX's
reference implementation where it is small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from dovetail.errors import InvalidInput, NotModelled
from dovetail.importers.onnx_file import one_line
from dovetail.importers.onnx_graph import Node
from dovetail.importers.onnx_literals import BFLOAT16, DOUBLE, DTYPE_OF, FLOAT16, MAX_KNOWN, Array, checked_shape
from dovetail.importers.onnx_package import onnx_package
from dovetail.importers.onnx_steps import LEFT_OUT, Call, Shape, Value, onnx_operators, onnx_shapes

# What ONNX's reference implementation computes for us: functions of numbers, none random, none with a graph inside.
FOLDED = frozenset((
    "Abs", "Add", "And", "ArgMax", "ArgMin", "Cast", "CastLike", "Ceil", "Clip", "Concat", "ConstantOfShape",
    "Cos", "CumSum", "Div", "Equal", "Exp", "Expand", "Flatten", "Floor", "Gather", "GatherElements",
    "GatherND", "Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual", "Log", "Max", "Min", "Mod",
    "Mul", "Neg", "Not", "Or", "Pow", "Range", "Reciprocal", "ReduceMax", "ReduceMean", "ReduceMin",
    "ReduceProd", "ReduceSum", "Reshape", "Round", "ScatterElements", "ScatterND", "Sign", "Sin", "Slice",
    "Split", "Sqrt", "Squeeze", "Sub", "Sum", "Tile", "Transpose", "Trilu", "Unsqueeze", "Where", "Xor",
))  # fmt: skip
_REFUSED = {
    "If": "it chooses between graphs as it runs", "Loop": "it repeats a graph as often as its values demand",
    "Scan": "it repeats a graph", "NonZero": "how much it makes depends on values",
    "Unique": "how much it makes depends on values", "Compress": "how much it makes depends on values",
    "NonMaxSuppression": "how much it makes depends on values",
    "QuantizeLinear": "it is quantised, for inference", "DequantizeLinear": "it is quantised, for inference",
    "DynamicQuantizeLinear": "it is quantised, for inference", "QLinearMatMul": "it is quantised, for inference",
    "QLinearConv": "it is quantised, for inference", "MatMulInteger": "it is quantised, for inference",
    "ConvInteger": "it is quantised, for inference", "com.microsoft.MatMulNBits": "it is quantised, for inference",
    "StringNormalizer": "it works on strings", "TfIdfVectorizer": "it works on strings",
    "StringConcat": "it works on strings", "StringSplit": "it works on strings",
    "RegexFullMatch": "it works on strings",
    "SequenceConstruct": "it works on sequences", "SequenceAt": "it works on sequences",
    "SequenceEmpty": "it works on sequences", "SequenceInsert": "it works on sequences",
    "SplitToSequence": "it works on sequences", "ConcatFromSequence": "it works on sequences",
    "Optional": "it works on optional values", "OptionalGetElement": "it works on optional values",
}  # fmt: skip


def refuse(call: Call) -> None:
    """Raises for an operator that is not mapped, with what it read and the way to add it."""
    if call.op in onnx_operators:
        return
    shapes = ", ".join(str(list(value.shape)) for value in call.given)
    why = f": {_REFUSED[call.op]}" if call.op in _REFUSED else ""
    raise NotModelled(
        f"{call.label} on {shapes or 'nothing'} is not modelled{why}; "
        f'leave it out of the export, or add it in a plugin file with @onnx_operators.register("{call.op}")'
    )


class Inference:
    """Shapes and values of nodes, for the opsets of one file."""

    def __init__(self, opsets: Mapping[str, int]) -> None:
        helper = onnx_package("onnx.helper")
        self._defs = onnx_package("onnx.defs")
        self._infer = onnx_package("onnx.shape_inference").infer_node_outputs
        self._type = helper.make_tensor_type_proto
        self._to_tensor = onnx_package("onnx.numpy_helper").from_array
        self._graph_type = onnx_package().GraphProto
        self._evaluator = onnx_package("onnx.reference").ReferenceEvaluator
        self._opsets = dict(opsets)
        self._imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]

    def shapes(self, node: Node, call: Call) -> Sequence[tuple[Shape, int]]:
        """(shape, type of elements) of every output of a node, empty ones included."""
        if call.op in onnx_shapes:
            found = _given_shapes(call, onnx_shapes[call.op](call))
        else:
            found = self._own_shapes(node, call)
        found += [((), 0)] * (len(node.outputs) - len(found))
        return [
            (checked_shape(shape, f"{name!r} of {call.label}"), elem_type) if name else ((), 0)
            for name, (shape, elem_type) in zip(node.outputs, found, strict=False)
        ]

    def _own_shapes(self, node: Node, call: Call) -> list[tuple[Shape, int]]:
        version = call.opset
        try:
            schema = self._defs.get_schema(node.proto.op_type, version, node.proto.domain)
        except self._defs.SchemaError:
            raise NotModelled(
                f"{call.label} is no operator of opset {version}, so the shape of what it makes is not known; "
                f'give it in a plugin file with @onnx_shapes.register("{call.op}")'
            ) from None
        read = _read(node, call)
        types = {name: self._type(value.elem_type, value.shape) for name, value in read.items()}
        data = {name: self._to_tensor(value.known[0]) for name, value in read.items() if value.known}
        try:
            inferred = self._infer(schema, node.proto, types, data, {}, self._imports)
        except Exception as error:  # several kinds from C++, without a common base
            if any(value.elem_type == BFLOAT16 for value in call.given):
                return self._in_half_precision(node, call)
            shapes = ", ".join(str(list(value.shape)) for value in call.given)
            raise InvalidInput(f"{call.label} cannot run on {shapes or 'nothing'}: {one_line(error)}") from None
        return [_found(inferred.get(name), name, call) if name else ((), 0) for name in node.outputs]

    def _in_half_precision(self, node: Node, call: Call) -> list[tuple[Shape, int]]:
        """Exporters write bfloat16 where an opset has no such operator; float16 has the same shapes."""
        halves = [
            replace(value, elem_type=FLOAT16, known=()) if value.elem_type == BFLOAT16 else value
            for value in call.inputs
        ]
        found = self._own_shapes(node, replace(call, inputs=tuple(halves)))
        return [(shape, BFLOAT16 if elem_type == FLOAT16 else elem_type) for shape, elem_type in found]

    def value(self, node: Node, call: Call, shapes: Sequence[tuple[Shape, int]]) -> tuple[tuple[Array, ...], ...]:
        """The values of a node's outputs; empty ones where they are large or nothing computes them."""
        unknown = ((),) * len(node.outputs)
        if call.op == "Shape":
            rank = len(call[0].shape)
            start, end = call.integer("start", 0), call.integer("end", rank)
            return ((np.array(call[0].shape[slice(*slice(start, end).indices(rank))], dtype=np.int64),),)
        if call.op == "Size":
            return ((np.array(call[0].num_elements, dtype=np.int64),),)
        if call.op not in FOLDED or not all(value.known for value in call.given):
            return unknown
        if any(prod(shape) > MAX_KNOWN or elem_type not in (*DTYPE_OF, DOUBLE) for shape, elem_type in shapes):
            return unknown
        graph = self._graph_type()
        graph.node.append(node.proto)
        read = _read(node, call)
        for name in read:
            graph.input.add(name=name)
        for name in filter(None, node.outputs):
            graph.output.add(name=name)
        feeds = {name: value.known[0] for name, value in read.items()}
        try:
            with np.errstate(all="ignore"):
                results = self._evaluator(graph, opsets=self._opsets).run(None, feeds)
        except Exception:  # whatever numpy makes of it; a shape that needs this value will say so
            return unknown
        made = iter(results)
        return tuple((np.asarray(next(made)),) if name else () for name in node.outputs)


def _given_shapes(call: Call, answer: Any) -> list[tuple[Shape, int]]:
    """What a shape function gave, which may be a plugin's."""
    try:
        return [(tuple(int(size) for size in shape), int(elem_type)) for shape, elem_type in answer]
    except (TypeError, ValueError):
        message = "a list of (shape, type of elements), one for each output"
        raise InvalidInput(f"the shape function of {call.op} must give {message}; got {answer!r:.80}") from None


def _read(node: Node, call: Call) -> dict[str, Value]:
    """What a node reads, by the names the file has for it."""
    return {name: value for name, value in zip(node.inputs, call.inputs, strict=True) if name}


def _found(type_proto: Any, name: str, call: Call) -> tuple[Shape, int]:
    if type_proto is not None and type_proto.WhichOneof("value") not in ("tensor_type", None):
        raise NotModelled(f"{call.label} makes {name!r}, which is no tensor; only tensors are modelled")
    if type_proto is not None and type_proto.tensor_type.HasField("shape"):
        dims = type_proto.tensor_type.shape.dim
        if all(dim.HasField("dim_value") for dim in dims):
            return tuple(dim.dim_value for dim in dims), type_proto.tensor_type.elem_type
    shapes = ", ".join(str(list(value.shape)) for value in call.given)
    raise InvalidInput(
        f"the shape of {name!r}, which {call.label} makes of {shapes}, depends on values that only a run would tell; "
        "shapes must follow from the sizes of the inputs"
    )


def with_outputs(call: Call, node: Node, shapes: Sequence[tuple[Shape, int]]) -> Call:
    is_constant = call.op in ("Shape", "Size") or all(value.is_constant for value in call.given)
    outputs = tuple(
        Value(name=name, shape=shape, elem_type=elem_type, is_constant=is_constant) if name else LEFT_OUT
        for name, (shape, elem_type) in zip(node.outputs, shapes, strict=True)
    )
    return replace(call, outputs=outputs)
