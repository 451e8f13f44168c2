"""ONNX files: the forward pass they hold, recorded at three sizes of its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

import numpy as np

from dovetail.errors import InvalidInput, NotModelled
from dovetail.importers.onnx_graph import Node, OnnxGraph, onnx_graph
from dovetail.importers.onnx_idioms import with_biases, with_one_scale, without_nan
from dovetail.importers.onnx_infer import Inference, refuse, with_outputs
from dovetail.importers.onnx_literals import BOOL, FLOATS
from dovetail.importers.onnx_package import onnx_package
from dovetail.importers.onnx_roles import trained
from dovetail.importers.onnx_shared import SharedTensor, shared_weights
from dovetail.importers.onnx_sizes import (
    Axes,
    Frozen,
    axes_of,
    frozen_sizes,
    input_shapes,
    refitted,
    requested_batch_and_seq,
)
from dovetail.importers.onnx_steps import LEFT_OUT, Call, Steps, Value, onnx_operators
from dovetail.workload.recorded.record import Recorded, Recording, Source

_SHAPED = ("Reshape", "Expand")  # they take the shape of their output as a value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Model:
    """A file and what was found out about it, which is the same at all sizes."""

    graph: OnnxGraph
    axes: Axes
    trained: frozenset[str]
    shared: Mapping[str, SharedTensor]


def recorded_onnx(path: str | PathLike[str], *, batch: int = 0, seq: int = 0) -> Recorded:
    """The model of an ONNX file at `batch` samples of `seq` positions; 0 is what the file says.

    Weights are not read and need not be there. `batch` of a file that leaves it open is 2; `seq` must then be given.
    """
    graph = onnx_graph(Path(path))
    names = trained(graph)
    model = _Model(graph=graph, axes=axes_of(graph), trained=names, shared=shared_weights(graph, names))
    batch, seq = requested_batch_and_seq(graph, model.axes, batch, seq)
    base = _recording(model, batch, seq)
    other_seq, second_seq = _at_other_seq(model, batch, seq, base)
    has_positions = bool(model.axes.seq_at) and not model.axes.sides_at
    return Recorded(
        base=base,
        other_batch=_recording(model, batch + 1, seq),
        other_seq=other_seq,
        batch=batch,
        second_batch=batch + 1,
        seq=seq if has_positions else 1,
        second_seq=second_seq if has_positions else 1,
        tool=f"onnx {onnx_package().__version__}",
    )


def _at_other_seq(model: _Model, batch: int, seq: int, base: Recording) -> tuple[Recording, int]:
    """The recording at fewer positions, since tables of positions end somewhere; `base` where none can differ."""
    if not model.axes.seq_at or model.axes.sides_at:
        return base, seq
    second = seq // 2 if seq > 2 else seq + 1
    try:
        return _recording(model, batch, second), second
    except InvalidInput:
        if model.axes.seq:  # frozen at export: then all its steps are at that many positions
            return base, seq
        raise


def _recording(model: _Model, batch: int, seq: int) -> Recording:
    """One walk over the nodes, at these sizes."""
    graph, frozen = model.graph, frozen_sizes(model.axes, batch, seq)
    try:
        return _walk(model, _given(model, batch, seq), frozen)
    except InvalidInput as error:
        if not frozen:
            raise error.at(str(graph.path)) from None
        fixed = " and ".join(f"{'batch' if size.is_batch else 'seq'} {size.written}" for size in frozen)
        raise InvalidInput(
            f"{graph.path} is frozen at {fixed} and cannot run at batch {batch}, seq {seq}: {error.message}; "
            "export it with dynamic axes"
        ) from None
    except NotModelled as error:
        raise error.at(str(graph.path)) from None


def _walk(model: _Model, values: dict[str, Value], frozen: tuple[Frozen, ...]) -> Recording:
    """The steps of all nodes, which add what they make to `values`."""
    inference = Inference(model.graph.opsets)
    steps = Steps()
    for node in model.graph.nodes:
        call = _call(node, values, frozen)
        refuse(call)
        found = inference.shapes(node, call)
        call = with_outputs(call, node, found)
        if _is_view_of_weight(call):
            seen = call[0] if node.op == "Identity" else replace(call[0], is_turned=not call[0].is_turned)
            values[node.outputs[0]] = replace(seen, shape=call.outputs[0].shape)
        elif _is_folded(call):
            known = inference.value(node, call, found)
            for value, number in zip(call.outputs, known, strict=True):
                values[value.name] = replace(value, source=Source.CONSTANT, known=number)
        else:
            steps.begin(call)
            onnx_operators[call.op](call, steps)
            values.update((value.name, value) for value in call.outputs)
    recording = Recording(name=model.graph.name, tensors=tuple(steps.tensors), steps=tuple(steps.steps))
    return without_nan(with_one_scale(with_biases(recording)))


def _given(model: _Model, batch: int, seq: int) -> dict[str, Value]:
    """Inputs and what the file writes down, as values."""
    shapes = input_shapes(model.graph, model.axes, batch, seq)
    values = {
        entry.name: Value(name=entry.name, shape=shapes[entry.name], elem_type=entry.elem_type, source=Source.INPUT)
        for entry in model.graph.inputs
    }
    for name, literal in model.graph.literals.items():
        is_trained = name in model.trained
        values[name] = Value(
            name=name,
            shape=literal.shape,
            elem_type=literal.elem_type,
            source=Source.PARAMETER if is_trained else Source.CONSTANT,
            is_constant=not is_trained,
            known=literal.known,
        )
    for name, weight in model.shared.items():
        values[name] = replace(values[weight.name], shape=values[name].shape, is_turned=weight.is_turned)
    return values


def _call(node: Node, values: dict[str, Value], frozen: tuple[Frozen, ...]) -> Call:
    inputs = [values[name] if name else LEFT_OUT for name in node.inputs]
    if frozen and node.op in _SHAPED and len(inputs) > 1 and inputs[1].known:
        target = tuple(int(size) for size in inputs[1].known[0].ravel())
        fitted = refitted(target, inputs[0].shape, frozen) if node.op == "Reshape" else target
        inputs[1] = replace(inputs[1], known=(np.array(fitted, dtype=np.int64),))
    return Call(
        op=node.op,
        label=node.label,
        where=node.where,
        opset=node.opset,
        attributes=node.attributes,
        inputs=tuple(inputs),
    )


def _is_view_of_weight(call: Call) -> bool:
    """Whether a node hands a weight on as it is, or a matrix turned."""
    if call.op not in ("Identity", "Transpose") or call[0].source is not Source.PARAMETER:
        return False
    return call.op == "Identity" or (len(call[0].shape) == 2 and call.integers("perm", (1, 0)) == (1, 0))


def _is_folded(call: Call) -> bool:
    """Whether a node leaves no step: its outputs are constants, and whole numbers or single rows of floats.

    Floats and truth values of two dims and more are kept as steps: masks and tables of rotations are made each time.
    The rule looks at dims, not sizes, so that a model has the same steps at every size.
    """
    return all(
        value.is_constant and (value.elem_type not in (*FLOATS, BOOL) or len(value.shape) < 2)
        for value in call.outputs
        if value.name
    )
