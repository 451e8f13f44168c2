"""Casts and copies that kernels do on the way: those beside attention, norms and element-wise operators."""

from __future__ import annotations

from dovetail.workload.recorded.flow import Flow, Node, is_thin
from dovetail.workload.recorded.words import PRODUCTS

_READ_ANY_LAYOUT = ("attention", "permute", "unpermute", "router", "grouped_linear", "concat")


def take_thin(flow: Flow) -> None:
    """Makes views of them. A copy between two products, or a cast, is a kernel of its own and stays."""
    unread = [node for node in flow.nodes if is_thin(node) and not flow.readers[node.output]]
    dropped = {id(node) for node in unread}
    flow.nodes = [node for node in flow.nodes if id(node) not in dropped]
    flow.index()
    for node in flow.standing():
        if is_thin(node) and (flow.aside(node) or flow.parameter_of(node.output) is not None or _is_taken(flow, node)):
            if flow.aside(node):
                continue
            flow.shown_by[node.output] = node.inputs[0]
            dropped.add(id(node))
    flow.nodes = [node for node in flow.nodes if id(node) not in dropped]


def _is_taken(flow: Flow, node: Node) -> bool:
    maker = flow.thin_maker(node.inputs[0])
    readers = _readers(flow, node)
    if node.word == "cast":
        free = [other for other in (maker, *readers) if other is None or other.word not in PRODUCTS]
        return (maker in free) or (bool(readers) and all(reader in free for reader in readers))
    beside = [other for other in (maker, *readers) if other is not None]
    return any(other.word in _READ_ANY_LAYOUT for other in beside)


def _readers(flow: Flow, node: Node) -> list[Node]:
    found: list[Node] = []
    for reader in flow.readers[node.output]:
        found.extend(_readers(flow, reader) if is_thin(reader) else [reader])
    return found
