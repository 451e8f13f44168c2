"""Gated feed-forward layers: one projection through an activation, times the other."""

from __future__ import annotations

from dovetail.workload.recorded.flow import Flow, Node


def take_gates(flow: Flow) -> None:
    for node in flow.standing():
        if node.word != "mul" or flow.aside(node):
            continue
        operands = [value for value in node.inputs if flow.is_activation(value)]
        if len(operands) != 2:  # gate and what it gates
            continue
        for gate, other in (operands, operands[::-1]):
            maker = flow.thin_maker(gate)
            operator = str(maker.attributes.get("operator", "")) if maker is not None and maker.word == "cone" else ""
            if maker is None or operator not in ("silu", "gelu") or flow.only_thin_reader(maker.output) is not node:
                continue
            if flow.num_recorded(flow.thin(gate)) != flow.num_recorded(flow.root(node.output)):
                continue
            made = Node(
                word="cone",
                inputs=[maker.inputs[0], other],
                outputs=[node.output],
                where=node.where,
                attributes={"operator": f"{operator}_mul", "touched": node.output},
            )
            flow.take([maker, node], made)
            break
