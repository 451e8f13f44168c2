"""A step of computes and collectives, as every rank has it -> the trace of one rank."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.comm.astra.steps import ComputeNode, Node
from dovetail.comm.astra.system import TICK_S
from dovetail.comm.trace.nodes import Rank, TraceNode


def trace_of(nodes: Sequence[Node]) -> Rank:
    """The same nodes with ids 0, 1, ..."""
    made = []
    for number, node in enumerate(nodes):
        if isinstance(node, ComputeNode):
            one = TraceNode(id=number, name="compute", after=node.after, duration_s=node.run_ticks * TICK_S)
        else:
            one = TraceNode(
                id=number,
                name=node.collective.replace("_", "-"),
                kind="collective",
                after=node.after,
                collective=node.collective.replace("_", "-"),
                size_bytes=node.size_bytes,
                involved=node.involved,
            )
        made.append(one)
    return tuple(made)
