"""Copies into parts of one tensor: side by side they make a whole, as a concatenation does."""

from __future__ import annotations

from dovetail.workload.recorded.flow import Flow, Node


def take_written(flow: Flow) -> None:
    """An empty tensor that is filled slice by slice is its slices side by side."""
    for node in flow.standing():
        if not _writes(node) or any(_writes(reader) for reader in flow.readers[node.output]):
            continue
        taken, sources = [node], [node.inputs[1]]
        before = flow.maker.get(flow.root(node.inputs[0]))
        while before is not None and _writes(before):
            taken.append(before)
            sources.append(before.inputs[1])
            before = flow.maker.get(flow.root(before.inputs[0]))
        if before is not None and before.word == "constant":
            flow.take(taken, Node(word="concat", inputs=sources[::-1], outputs=[node.output], where=node.where))


def _writes(node: Node) -> bool:
    return node.word == "copy" and bool(node.attributes.get("write", False)) and len(node.inputs) > 1
