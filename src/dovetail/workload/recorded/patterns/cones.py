"""Element-wise steps that all come from one value and end in one: an activation, a rotation of positions, a scale.

Written out, GELU by tanh is eight steps and a rotary embedding seven; a kernel reads its input once and writes its
output once all the same.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from dovetail.workload.recorded.flow import Flow, Node, is_thin
from dovetail.workload.recorded.words import ELEMENT_WISE

_ONE_WORD = ("relu", "tanh", "sigmoid", "hardswish", "hardsigmoid", "gelu", "silu", "softplus")
_LINEAR = frozenset(("mul", "div", "add", "sub", "neg"))
_TURNS = frozenset(("neg", "concat", "sub", "binary"))


def take_cones(flow: Flow) -> None:
    groups: dict[int, list[Node]] = defaultdict(list)
    comes_from: dict[int, int] = {}
    for node in flow.main():
        source = _one_source(flow, node, comes_from)
        if source is not None:
            groups[source].append(node)
            comes_from.update(dict.fromkeys(node.outputs, source))
    for source, nodes in groups.items():
        for part in _connected(flow, nodes):
            _take(flow, source, part)


def _one_source(flow: Flow, node: Node, comes_from: dict[int, int]) -> int | None:
    if node.word == "dropout" or not (node.word in ELEMENT_WISE or node.word == "concat" or is_thin(node)):
        return None
    if is_thin(node) and flow.distinct(node.output) < flow.num_recorded(node.output):
        return None  # keys repeated for their heads: what is behind it reads each of them once
    trained = [value for value in node.inputs if flow.is_trained(value)]
    if any(flow.parameter_of(value) is not None for value in trained):
        return None
    sources = {comes_from.get(flow.root(value), flow.root(value)) for value in trained}
    return sources.pop() if len(sources) == 1 else None


def _connected(flow: Flow, nodes: list[Node]) -> list[list[Node]]:
    """`nodes` in groups of which each reads only itself and the source."""
    leader: dict[int, int] = {id(node): id(node) for node in nodes}

    def top(key: int) -> int:
        while leader[key] != key:
            key = leader[key]
        return key

    for node in nodes:
        for value in node.inputs:
            maker = flow.maker.get(flow.root(value))
            if maker is not None and id(maker) in leader:
                leader[top(id(node))] = top(id(maker))
    groups: dict[int, list[Node]] = defaultdict(list)
    for node in nodes:
        groups[top(id(node))].append(node)
    return list(groups.values())


def _take(flow: Flow, source: int, nodes: list[Node]) -> None:
    nodes = _without_tail(flow, nodes)
    ends = _ends(flow, nodes)
    if len(ends) != 1 or all(is_thin(node) for node in nodes):
        return
    end = ends[0]
    operator, touched = operator_of(flow, source, nodes, end)
    if operator == "concat" and len(nodes) == 1:
        return
    made = Node(
        word="cone",
        inputs=[source],
        outputs=[end.output],
        where=end.where,
        attributes={"operator": operator, "touched": touched},
    )
    flow.take(nodes, made)


def _ends(flow: Flow, nodes: list[Node]) -> list[Node]:
    """Those that another node reads, or none does."""
    inside = {id(node) for node in nodes}
    return [
        node
        for node in nodes
        if not flow.readers[node.output] or any(id(reader) not in inside for reader in flow.readers[node.output])
    ]


def _without_tail(flow: Flow, nodes: list[Node]) -> list[Node]:
    """Copies and casts behind it are not its own: one may repeat what it gives, as keys for every head."""
    while len(ends := _ends(flow, nodes)) == 1 and is_thin(ends[0]) and len(nodes) > 1:
        nodes = [node for node in nodes if node is not ends[0]]
    return nodes


def operator_of(flow: Flow, source: int, nodes: list[Node], end: Node) -> tuple[str, int]:
    """The operator that `nodes` amount to, and which value has as many elements as it touches."""
    words = Counter(node.word for node in nodes if not is_thin(node))
    turned = [node for node in nodes if node.word == "mul" and _has_table(flow, node)]
    if turned and _TURNS & words.keys():
        return "rope", _rotated(flow, nodes, turned, end)
    operator = _activation(words)
    if operator in ("silu", "gelu") and 2 * flow.num_recorded(end.output) == flow.num_recorded(source):
        return f"{operator}_mul", end.output
    return operator, end.output


def _rotated(flow: Flow, nodes: list[Node], turned: list[Node], end: Node) -> int:
    """The widest value that is rotated: all of a head, or the part of it that turns, before it stands beside the rest.

    Tables may hold one half of the angles; then two halves are turned and put side by side.
    """
    wide = max((node.output for node in turned), key=flow.num_recorded)
    joined = [
        node.output
        for node in nodes
        if node.word in ("concat", "copy", "binary")
        and node is not end
        and flow.num_recorded(node.output) <= flow.num_recorded(end.output)
    ]
    return max([wide, *joined], key=flow.num_recorded)


def _has_table(flow: Flow, node: Node) -> bool:
    return any(not flow.is_trained(value) and flow.num_recorded(value) > 1 for value in node.inputs)


def _activation(words: Counter[str]) -> str:
    if "gelu" in words or "erf" in words or ("tanh" in words and "pow" in words):
        return "gelu"
    if "silu" in words or (words["sigmoid"] and words["mul"] and len(words) == 2):  # x times its sigmoid
        return "silu"
    if len(words) == 1:
        (word,) = words
        if word in _ONE_WORD:
            return word
    if words.keys() == {"concat"}:
        return "concat"
    if words.keys() <= _LINEAR:
        return "scale"
    if words.keys() == {"where"}:
        return "where"
    return "elementwise"
