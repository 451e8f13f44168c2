"""Recurrent layers: products with the inputs of all steps at once, then one product a step with the state."""

from __future__ import annotations

from dovetail.workload.recorded.drafted import INNER, Draft, Drafting, short_name
from dovetail.workload.recorded.flow import Node
from dovetail.workload.recorded.sizes import ONE, Size

NUM_GATES = 4  # of an LSTM: input, forget, cell and output


def draw_lstm(drafting: Drafting, node: Node) -> None:
    """Each layer and direction: a product with its inputs, the recurrent products, and the cell."""
    flow = drafting.flow
    sides = flow.sides[node.inputs[0]]
    batch, steps = (sides[0], sides[1]) if node.attributes.get("batch_first", False) else (sides[1], sides[0])
    hidden = Size(node.number("hidden", 0))
    num_directions = node.number("directions", 1)
    num_layers = node.number("layers", 1)
    owned = drafting.parameters(node.inputs[1:])
    matrices = [entry for entry in owned if len(flow.tensors[entry[0]].shape) > 1]
    biases = [entry for entry in owned if entry not in matrices]
    x, width = drafting.activations(node)[:1], sides[2]
    name = short_name(node.where, "lstm")
    for layer in range(num_layers):
        ends = []
        for direction in range(num_directions):
            first = 2 * (layer * num_directions + direction)  # weights of inputs and of states, and a bias for each
            held = matrices[first : first + 2], biases[first : first + 2]
            tail = f"_{layer}" * (num_layers > 1) + "_back" * direction
            ends.append(_one(drafting, node, f"{name}{tail}", x, (batch, steps, width, hidden), held))
        is_last = layer == num_layers - 1
        x, width = _joined(drafting, node, name, ends, (batch, steps, hidden), is_last=is_last)


def _one(
    drafting: Drafting,
    node: Node,
    name: str,
    x: list[int],
    shape: tuple[Size, Size, Size, Size],
    held: tuple[list[tuple[int, int]], list[tuple[int, int]]],
) -> int:
    """One layer in one direction; the output holds hidden and cell states, both needed by the backward pass."""
    batch, steps, width, hidden = shape
    gates, rows = Size(NUM_GATES) * hidden, batch * steps
    weights, biases = held
    came = _product(drafting, node, "linear", f"{name}_input", x, [ONE, rows, gates, width, ONE])
    came.owns = weights[:1] + biases[:1]
    kept = _product(
        drafting, node, "recurrent_linear", f"{name}_recurrent", [came.makes], [steps, batch, gates, hidden, ONE]
    )
    kept.owns = weights[1:2] + biases[1:2]
    for draft in (came, kept):
        draft.weight = (draft.sizes[INNER] * gates).count
        draft.bias = gates.count if biases else 0
    cell = _product(drafting, node, "vector", f"{name}_cell", [kept.makes], [ONE, rows, hidden, ONE, ONE])
    cell.operator, cell.output_frac = "lstm_cell", 2.0
    return cell.makes


def _product(drafting: Drafting, node: Node, kind: str, name: str, reads: list[int], sizes: list[Size]) -> Draft:
    made = drafting.new_value()
    draft = Draft(kind=kind, name=name, operator=kind, where=node.where, reads=reads, makes=made, sizes=sizes)
    drafting.drafts.append(draft)
    return draft


def _joined(
    drafting: Drafting, node: Node, name: str, ends: list[int], shape: tuple[Size, Size, Size], *, is_last: bool
) -> tuple[list[int], Size]:
    """What the layer gives: its only direction, or both side by side."""
    batch, steps, hidden = shape
    if len(ends) == 1:
        if is_last:
            drafting.drafts[-1].makes = node.output
        return ends, hidden
    out = node.output if is_last else drafting.new_value()
    width = Size(len(ends)) * hidden
    drafting.drafts.append(
        Draft(
            kind="vector",
            name=f"{name}_concat",
            operator="concat",
            where=node.where,
            reads=ends,
            makes=out,
            sizes=[ONE, batch * steps, width, ONE, ONE],
        )
    )
    return [out], width
