"""Masks of attention: whether a query sees only keys before it, and how many of those."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dovetail.workload.recorded.flow import Flow, Node
from dovetail.workload.recorded.record import Source


def is_causal_mask(flow: Flow, mask: int) -> bool:
    """Whether a triangle, or a comparison of positions, has a part in it, or it is a square that stands."""
    root = flow.root(mask)
    tensor = flow.tensors[root]
    if tensor.source is Source.CONSTANT:
        square = tensor.shape[-2:]
        return len(square) == 2 and square[0] == square[1] > 1  # queries by keys
    for node in flow.before(root):
        if node.word == "triangle":
            return True
        if node.word == "compare" and len(node.inputs) > 1:
            wide = flow.num_recorded(node.output)
            if all(flow.num_recorded(flow.root(value)) < wide for value in node.inputs):
                return True
        if any(_is_square_constant(flow, value) for value in node.inputs):
            return True
    return False


def _is_square_constant(flow: Flow, value: int) -> bool:
    tensor = flow.tensors[flow.root(value)]
    square = tensor.shape[-2:]
    return tensor.source is Source.CONSTANT and len(square) == 2 and square[0] == square[1] > 1


def window_of(flow: Flow, masks: Iterable[int]) -> int:
    """Keys that a query sees at the most under `masks`, 0 for all; to either side where distances have no sign.

    A position that is compared with another one less `w` sees `w` keys, and so does one whose distance is. Within
    chunks of `c` positions it sees half of them on average. Keys that are chosen for each query are so many.
    """
    found = [width for mask in masks for node in flow.before(mask) for width in _widths(flow, node)]
    return min(found, default=0)


def _widths(flow: Flow, node: Node) -> Iterator[int]:
    if node.word == "topk" and len(flow.tensors[node.output].shape) > 1:
        yield flow.tensors[node.output].shape[-1]
    if node.word != "compare":
        return
    makers = [flow.thin_maker(value) for value in node.inputs]
    if len(makers) == 1:
        inner = makers[0]
        if inner is not None and inner.word == "abs":
            inner = flow.thin_maker(inner.inputs[0])
        if inner is not None and inner.word == "sub" and len(inner.inputs) == 2:
            yield from _above_one(node)
        return
    for maker in makers:
        if maker is not None and maker.word in ("add", "sub") and len(maker.inputs) == 1:
            yield from _above_one(maker)
    chunks = [list(_above_one(maker)) for maker in makers if maker is not None and maker.op == "aten::floor_divide"]
    if len(chunks) == len(makers) and chunks[0] == chunks[1]:
        yield from (-(-size // 2) for size in chunks[0])


def _above_one(node: Node) -> Iterator[int]:
    """The number that a step has beside its tensors, where it is the width of something."""
    number = node.attributes.get("number", 0)
    if isinstance(number, int) and abs(number) > 1:
        yield abs(number)
