"""The graph of an ONNX file as values: nodes in an order in which they can run, literals, inputs."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dovetail.errors import InvalidInput, NotModelled
from dovetail.importers.onnx_file import MAX_NODES, onnx_model
from dovetail.importers.onnx_literals import Written, constant_literal, tensor_literal

OWN_DOMAINS = ("", "ai.onnx")
_INT, _FLOAT, _STRING, _INTS, _FLOATS = 2, 1, 3, 7, 6  # AttributeProto.AttributeType of onnx.proto


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One operator of the file. An input that is left out is an empty name."""

    op: str  # with its domain before it where that is not ONNX's own: "com.microsoft.Attention"
    label: str  # what a message calls it
    where: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    proto: Any
    opset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """One input of the graph: a size that is given with every call is a word."""

    name: str
    elem_type: int
    dims: tuple[int | str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxGraph:
    """What a file says, with nothing in it that no output needs."""

    name: str
    path: Path
    nodes: tuple[Node, ...]
    inputs: tuple[Input, ...]
    literals: Mapping[str, Written]
    opsets: Mapping[str, int]


def onnx_graph(path: Path) -> OnnxGraph:
    model, starts = onnx_model(path)
    graph = model.graph
    opsets = {("" if entry.domain in OWN_DOMAINS else entry.domain): entry.version for entry in model.opset_import}
    nodes, literals = _nodes_and_literals(graph, starts, opsets, path)
    inputs = tuple(_input(entry, path) for entry in graph.input if entry.name not in literals)
    outputs = tuple(entry.name for entry in graph.output)
    if not outputs:
        raise InvalidInput(f"{path} has no output, so nothing in it need run")
    known = {*literals, *(entry.name for entry in inputs)}
    ordered = _in_order(_needed(nodes, outputs, known, path), known, path)
    used = {name for node in ordered for name in node.inputs}
    return OnnxGraph(
        name=graph.name or path.stem,
        path=path,
        nodes=ordered,
        inputs=tuple(entry for entry in inputs if entry.name in used),
        literals={name: literal for name, literal in literals.items() if name in used},
        opsets=opsets,
    )


def _nodes_and_literals(
    graph: Any, starts: Mapping[str, int], opsets: Mapping[str, int], path: Path
) -> tuple[list[Node], dict[str, Written]]:  # fmt: skip
    """The nodes of the file in its order, less those that only write a tensor down."""
    _check_names(graph, path)
    if graph.sparse_initializer:
        raise NotModelled(
            f"{path}: sparse weights are not modelled; store {graph.sparse_initializer[0].values.name!r} densely"
        )
    literals = {tensor.name: tensor_literal(tensor, path, starts.get(tensor.name, 0)) for tensor in graph.initializer}
    nodes: list[Node] = []
    for number, proto in enumerate(graph.node):
        if proto.op_type == "Constant" and proto.domain in OWN_DOMAINS and len(proto.output) == 1:
            literals[proto.output[0]] = constant_literal(proto, path)
        else:
            nodes.append(_node(proto, number, opsets))
    if len(nodes) > MAX_NODES:
        raise InvalidInput(f"{path} has {len(nodes):,} nodes; at most {MAX_NODES:,} are read")
    return nodes, literals


def _check_names(graph: Any, path: Path) -> None:
    """Raises where a name is no text: protocol buffers then hand out bytes."""
    names = [graph.name]
    names += (tensor.name for tensor in graph.initializer)
    for entry in (*graph.input, *graph.output):
        names.append(entry.name)
        names += (dim.dim_param for dim in entry.type.tensor_type.shape.dim)
    for node in graph.node:
        names += (node.name, node.op_type, node.domain, *node.input, *node.output)
        names += (entry.name for entry in node.attribute)
    for name in names:
        if not isinstance(name, str):
            raise InvalidInput(f"{path}: the name {bytes(name[:40])!r} is not UTF-8 text")


def _node(proto: Any, number: int, opsets: Mapping[str, int]) -> Node:
    domain = "" if proto.domain in OWN_DOMAINS else proto.domain
    op = f"{domain}.{proto.op_type}" if domain else proto.op_type
    return Node(
        op=op,
        label=f"node {proto.name or number!r} ({op})",
        where=_where(proto),
        inputs=tuple(proto.input),
        outputs=tuple(proto.output),
        attributes={entry.name: _attribute(entry) for entry in proto.attribute},
        proto=proto,
        opset=opsets.get(domain, 1),
    )


def _attribute(entry: Any) -> Any:
    if entry.type == _INT:
        return entry.i
    if entry.type == _FLOAT:
        return entry.f
    if entry.type == _STRING:
        return entry.s.decode("utf-8", "replace")
    if entry.type == _INTS:
        return tuple(entry.ints)
    if entry.type == _FLOATS:
        return tuple(entry.floats)
    return entry


def _where(proto: Any) -> str:
    """The module a node came from, as PyTorch's exporters write it: in a path for a name, or in the metadata."""
    for entry in proto.metadata_props:
        if isinstance(entry.value, str) and isinstance(entry.key, str) and entry.key.endswith("name_scopes"):
            scopes = [scope.strip(" '\"") for scope in entry.value.strip("[]").split(",")]
            return next((scope for scope in reversed(scopes[:-1]) if scope), "")
    parts = [part for part in proto.name.split("/") if part]
    return ".".join(parts[:-1]) if proto.name.startswith("/") else ""


def _input(entry: Any, path: Path) -> Input:
    kind = entry.type.WhichOneof("value")
    if kind != "tensor_type":
        raise NotModelled(
            f"{path}: the input {entry.name!r} is a {(kind or 'value of no type').replace('_', ' ')}; "
            "only tensors are modelled"
        )
    tensor = entry.type.tensor_type
    if not tensor.HasField("shape"):
        raise InvalidInput(f"{path}: the input {entry.name!r} has no shape; give it one, of words where sizes are free")
    dims: list[int | str] = []
    for place, dim in enumerate(tensor.shape.dim):
        if dim.WhichOneof("value") == "dim_value":
            if dim.dim_value < 1:
                raise InvalidInput(
                    f"{path}: dim {place} of the input {entry.name!r} must be at least 1; got {dim.dim_value}"
                )
            dims.append(dim.dim_value)
        else:
            dims.append(dim.dim_param or f"{entry.name}[{place}]")
    return Input(name=entry.name, elem_type=tensor.elem_type, dims=tuple(dims))


def _needed(nodes: list[Node], outputs: Iterable[str], known: set[str], path: Path) -> list[Node]:
    """The nodes that some output of the graph needs, in the file's order."""
    made_by: dict[str, int] = {}
    for number, node in enumerate(nodes):
        for name in filter(None, node.outputs):
            if name in made_by or name in known:
                raise InvalidInput(f"{path}: two things are named {name!r}, the second an output of {node.label}")
            made_by[name] = number
    wanted = [name for name in outputs if name]
    for name in wanted:
        if name not in made_by and name not in known:
            raise InvalidInput(f"{path}: nothing makes the graph's output {name!r}")
    reached: set[int] = set()
    while wanted:
        number = made_by.get(wanted.pop(), -1)
        if number >= 0 and number not in reached:
            reached.add(number)
            wanted += filter(None, nodes[number].inputs)
    return [nodes[number] for number in sorted(reached)]


def _in_order(nodes: list[Node], known: set[str], path: Path) -> tuple[Node, ...]:
    """The nodes sorted so that each comes after what it reads; files should be, and some are not."""
    waits: list[int] = []
    readers: dict[str, list[int]] = {}
    made = {name for node in nodes for name in node.outputs}
    for number, node in enumerate(nodes):
        missing = {name for name in node.inputs if name and name not in known}
        for name in missing:
            if name not in made:
                raise InvalidInput(
                    f"{path}: {node.label} reads {name!r}, which is no input, weight or output of a node"
                )
            readers.setdefault(name, []).append(number)
        waits.append(len(missing))
    ready = [number for number, count in enumerate(waits) if not count]
    ordered: list[Node] = []
    while ready:
        node = nodes[heapq.heappop(ready)]
        ordered.append(node)
        for name in node.outputs:
            for reader in readers.get(name, ()):
                waits[reader] -= 1
                if not waits[reader]:
                    heapq.heappush(ready, reader)
    if len(ordered) < len(nodes):
        stuck = next(node for node, count in zip(nodes, waits, strict=True) if count)
        raise InvalidInput(f"{path}: the graph runs in a circle through {stuck.label}; it must have none")
    return tuple(ordered)
