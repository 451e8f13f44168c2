"""Weights that a model shares and its file does not: exporters store the table of words again, turned, for the head.

Two matrices are taken for one where numbers at the same places agree. Some places are looked at, not all: those of a
trained model that agree at so many agree everywhere. Where the numbers are not there, the two stay two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

from dovetail.importers.onnx_graph import Node, OnnxGraph
from dovetail.importers.onnx_literals import Written

NUM_PLACES = 64
_SEED = 0  # which places is no matter; the same each time is
_NUM_BYTES = {1: 4, 10: 2, 16: 2}  # float32, float16, bfloat16, by TensorProto.DataType of onnx.proto


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedTensor:
    """The tensor that another is a copy of, as it stands or turned."""

    name: str
    is_turned: bool


def shared_weights(graph: OnnxGraph, trained: frozenset[str]) -> Mapping[str, SharedTensor]:
    """Matrices of products that are copies of tables of lookups, by name."""
    readers: dict[str, list[tuple[Node, int]]] = {}
    for node in graph.nodes:
        for place, name in enumerate(node.inputs):
            if name in trained and len(graph.literals[name].shape) == 2:
                readers.setdefault(name, []).append((node, place))
    tables = [name for name, uses in readers.items() if any(node.op == "Gather" for node, _ in uses)]
    found: dict[str, SharedTensor] = {}
    for name, uses in readers.items():
        if name in tables or not all((node.op, place) == ("MatMul", 1) for node, place in uses):
            continue
        for table in tables:
            if _is_turned_copy(graph.literals[table], graph.literals[name]):
                found[name] = SharedTensor(name=table, is_turned=True)
    return found


def _is_turned_copy(table: Written, head: Written) -> bool:
    if table.shape != head.shape[::-1] or table.elem_type != head.elem_type or table.elem_type not in _NUM_BYTES:
        return False
    rows, columns = table.shape
    rng = Random(_SEED)
    places = [(rng.randrange(rows), rng.randrange(columns)) for _ in range(NUM_PLACES)]
    of_table = _numbers(table, [row * columns + column for row, column in places])
    of_head = _numbers(head, [column * rows + row for row, column in places])
    return of_table == of_head and len(set(of_table)) > 1


def _numbers(written: Written, places: list[int]) -> list[bytes]:
    """The bytes of these elements; none where they are not there."""
    if written.known:
        flat = written.known[0].ravel()
        return [flat[place].tobytes() for place in places]
    if not written.stored_in:
        return []
    width = _NUM_BYTES[written.elem_type]
    found = []
    try:
        with Path(written.stored_in).open("rb") as file:
            for place in places:
                file.seek(written.start_bytes + place * width)
                found.append(file.read(width))
    except OSError:
        return []
    return found if all(len(number) == width for number in found) else []
