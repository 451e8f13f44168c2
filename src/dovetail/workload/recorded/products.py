"""Products as operators of ours: with a weight, with one weight a group, of two activations, and attention."""

from __future__ import annotations

from dovetail.workload.recorded.drafted import Draft, Drafting
from dovetail.workload.recorded.flow import Node
from dovetail.workload.recorded.sizes import ONE, Size, product


def draw_linear(drafting: Drafting, node: Node) -> None:
    flow = drafting.flow
    x, weight, out = (flow.sides[value] for value in (node.inputs[0], node.inputs[1], node.output))
    if not flow.is_weight(node.inputs[1]) and len(x) == 1:  # a vector of weights, and rows
        _add_linear(drafting, node, product(out), ONE, x[0])
    elif not flow.is_weight(node.inputs[1]):
        draw_matmul(drafting, node)
    elif len(weight) == 1:
        _add_linear(drafting, node, product(out), ONE, weight[0])
    else:
        _add_linear(drafting, node, product(out[:-1]), out[-1], x[-1])


def _add_linear(drafting: Drafting, node: Node, rows: Size, cols: Size, inner: Size) -> None:
    owned = drafting.parameters(node.inputs)
    weight = [entry for entry in owned if entry[1] == (cols * inner).count][:1] or owned[:1]
    bias = [entry for entry in owned if entry not in weight]
    draft = drafting.draw(node, "linear", [ONE, rows, cols, inner, ONE], otherwise="linear")
    draft.reads = [value for value in draft.reads if drafting.flow.is_from_data(value)]
    draft.weight = (cols * inner).count if weight else 0  # one made of parameters belongs to what makes it
    draft.bias = sum(count for _, count in bias)
    draft.owns = weight + bias


def draw_matmul(drafting: Drafting, node: Node) -> None:
    """A product of two activations, or with a weight: one for all rows, or one for each of a batch."""
    flow = drafting.flow
    a, b, out = (flow.sides[value] for value in (node.inputs[0], node.inputs[1], node.output))
    weights = [index for index, value in enumerate(node.inputs[:2]) if flow.is_weight(value)]
    inner = a[-1]
    if not weights:
        _of_activations(drafting, node)
    elif len(b) == 1 and weights[0] == 1:
        _add_linear(drafting, node, product(out), ONE, inner)
    else:
        cols = b[-1] if weights[0] == 1 else a[-2]
        num_groups = max(1, flow.distinct(node.inputs[weights[0]]) // (cols * inner).count)
        rows = product(out).over(cols)
        if num_groups > 1 and not drafting.parameters(node.inputs):  # made of parameters, as a query that is learnt
            _of_activations(drafting, node)
        elif num_groups > 1:
            _grouped(drafting, node, num_groups, rows, cols, inner)
        else:
            _add_linear(drafting, node, rows, cols, inner)


def _of_activations(drafting: Drafting, node: Node) -> None:
    flow = drafting.flow
    a, out = flow.sides[node.inputs[0]], flow.sides[node.output]
    inner = a[-1] * Size(1, per=2) if node.attributes.get("triangular", False) else a[-1]
    sizes = [product(out[:-2]), out[-2] if len(out) > 1 else ONE, out[-1], inner, ONE]
    draft = drafting.draw(node, "matmul", sizes, otherwise="matmul")
    draft.shared_frac = flow.distinct(node.inputs[1]) / flow.num_recorded(node.inputs[1])


def draw_grouped_linear(drafting: Drafting, node: Node) -> None:
    flow = drafting.flow
    weight, out = flow.sides[node.inputs[1]], flow.sides[node.output]
    rows = product(out[:-1]) * chosen_frac(node)
    _grouped(drafting, node, weight[0].count, rows, weight[-1], weight[-2])


def chosen_frac(node: Node) -> Size:
    """Of the rows of a mixture that runs all of them by every expert, those that were chosen."""
    return Size(node.number("chosen", 1), per=node.number("experts", 1)) * ONE


def _grouped(drafting: Drafting, node: Node, num_groups: int, rows: Size, cols: Size, inner: Size) -> None:
    """One product a group, each over its own rows."""
    groups = Size(num_groups)
    sizes = [groups, rows.over(groups), cols, inner, ONE]
    draft = drafting.draw(node, "expert_linear", sizes, otherwise="experts")
    draft.weight = (groups * cols * inner).count
    draft.owns = drafting.parameters(node.inputs[:2])


def draw_attention(drafting: Drafting, node: Node) -> None:
    flow = drafting.flow
    q, k, v = (flow.sides[value] for value in node.inputs[:3])
    keys = k[_key_side(node)]
    num_heads = q[1].count if len(q) > 3 else max(1, q[0].count // q[0].per)  # batch, heads, queries, width
    owned = drafting.parameters(node.inputs[3:])
    drafting.drafts.append(
        Draft(
            kind="attention",
            name="attention",
            operator="attention",
            where=node.where,
            reads=[flow.thin(value) for value in node.inputs[:3]],
            makes=node.output,
            sizes=[product(q[:-2]), q[-2], keys, q[-1], v[-1]],
            num_heads=num_heads,
            num_kv_heads=_num_kv_heads(drafting, node, num_heads),
            is_causal=bool(node.attributes.get("is_causal", False)),
            window=node.number("window", 0),
            has_dropout=bool(node.attributes.get("dropout", 0.0)),
            score_kinds=tuple(str(node.attributes.get("score_kinds", "")).split()),
            owns=owned,
            weight=sum(count for _, count in owned),
        )
    )


def _key_side(node: Node) -> int:
    return -1 if node.attributes.get("is_turned", False) else -2


def _num_kv_heads(drafting: Drafting, node: Node, num_heads: int) -> int:
    """Heads of the keys, of which those that an expansion repeats are one; as many as queries have where none fit."""
    flow = drafting.flow
    shape = flow.tensors[node.inputs[0]].shape
    num_batch = flow.num_recorded(node.inputs[0]) // (num_heads or 1) // (shape[-1] * shape[-2])
    num_keys = flow.tensors[node.inputs[1]].shape[_key_side(node)]
    found = max(1, flow.distinct(node.inputs[1]) // max(1, num_batch * num_keys * shape[-1]))
    return found if num_heads % found == 0 else num_heads
