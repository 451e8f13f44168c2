"""Nodes between given values and one output, if no other node reads what is made on the way."""

from __future__ import annotations

from collections.abc import Iterable

from dovetail.workload.recorded.flow import Flow, Node


def closed_cone(flow: Flow, out: Node, ends: Iterable[int]) -> list[Node]:
    """All nodes that have a part in `out` from `ends` on; none where a value on the way is read elsewhere too.

    A cast of an end that others read as well stays where it is.
    """
    ends = list(ends)
    cone = {id(node): node for node in flow.before(out.output, stop=ends) if not flow.aside(node)}
    cone.setdefault(id(out), out)
    while True:
        open_nodes = [
            node
            for node in cone.values()
            if node is not out
            and any(id(reader) not in cone for value in node.outputs for reader in flow.readers[value])
        ]
        if not open_nodes:
            return list(cone.values())
        for node in open_nodes:
            if any(flow.root(value) in ends or flow.parameter_of(value) is not None for value in node.inputs):
                del cone[id(node)]
            else:
                return []
