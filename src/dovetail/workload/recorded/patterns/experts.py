"""Mixtures of experts: a choice for each row, rows in the order of experts, products by group, and the way back."""

from __future__ import annotations

from dovetail.workload.recorded.flow import Flow, Node, is_thin
from dovetail.workload.recorded.record import Attribute

_ON_THE_WAY_BACK = ("mul", "gather", "sum", "scatter", "add", "where", "div")


def take_rows_of_no_expert(flow: Flow) -> None:
    """Looks through what blanks rows behind the last group, those of experts that other devices hold.

    Products by group compute no such row, and where each device has its own experts none is sent to it. The truth
    values compare the sorted numbers of experts that the ends of groups are counted from.
    """
    sorts = {
        id(node)
        for product in flow.nodes
        if product.word == "grouped_linear"
        for end in product.inputs[2:]
        for node in flow.before(end)
        if node.word == "sort"
    }
    for node in flow.standing():
        if node.word != "where" or not flow.is_activation(node.inputs[0]):
            continue
        if len(node.inputs) == 2 and _compares_any(flow, node.inputs[1], sorts):
            flow.look_through(node)


def _compares_any(flow: Flow, truth: int, sorts: set[int]) -> bool:
    """Whether truth values compare what one of `sorts` gives."""
    node = flow.thin_maker(truth)
    makers = [flow.thin_maker(value) for value in node.inputs] if node is not None and node.word == "compare" else []
    return any(maker is not None and id(maker) in sorts for maker in makers)


def take_experts(flow: Flow) -> None:
    """Router, permutation and its inverse, each one node; products of experts stay as they are."""
    for node in flow.standing():
        if node.word != "grouped_linear":
            continue
        sorted_rows = flow.thin_maker(node.inputs[0])
        if sorted_rows is not None and sorted_rows.word == "gather":
            sorted_rows.word = "permute"
    for node in flow.standing():
        if node.word == "grouped_linear" and not _feeds_another(flow, node):
            _take_way_back(flow, node)
    for node in flow.standing():
        if node.word == "gather" and node.op == "aten::repeat":
            _take_all_by_all(flow, node)


def _feeds_another(flow: Flow, node: Node) -> bool:
    """Whether its output goes through activations into further products of experts."""
    todo, seen = [node.output], set()
    while todo:
        value = todo.pop()
        for reader in flow.readers[value]:
            if id(reader) in seen:
                continue
            seen.add(id(reader))
            if reader.word == "grouped_linear":
                return True
            if reader.word in ("cone", "mul", "dropout") or is_thin(reader):
                todo.append(reader.output)
    return False


def _take_way_back(flow: Flow, down: Node) -> None:
    """From the last product of experts to rows as they were, and the router that gives their weights."""
    arrived = _arrived(flow, down)
    if arrived is None:
        return
    num_wanted = flow.num_recorded(flow.root(arrived))
    taken: list[Node] = []
    weights: list[int] = []
    value = down.output
    while True:
        readers = [reader for reader in flow.readers[value] if not flow.aside(reader)]
        if len(readers) != 1:
            return
        reader = readers[0]
        if not (is_thin(reader) or reader.word in _ON_THE_WAY_BACK or reader.word == "cone"):
            return
        taken.append(reader)
        weights.extend(other for other in reader.inputs if flow.is_activation(other) and flow.root(other) != value)
        value = reader.output
        if flow.num_recorded(value) == num_wanted and reader.word in ("sum", "scatter"):
            break
    weights = [weight for weight in weights if flow.num_recorded(weight) < num_wanted]
    router = _taken_router(flow, weights)
    made = Node(word="unpermute", inputs=[down.output, *router], outputs=[value], where=down.where)
    flow.take(taken, made)


def _arrived(flow: Flow, down: Node) -> int | None:
    """The rows that were permuted for these experts."""
    for node in flow.before(down.inputs[0]):
        if node.word == "permute":
            return node.inputs[0]
    return None


def _take_all_by_all(flow: Flow, repeat: Node) -> None:
    """All rows once for each expert, times a score that is zero but for those that a row has chosen (Llama 4).

    A row that is zero comes out as zero, so what has to be computed is the rows that were chosen.
    """
    scaled = flow.only_thin_reader(repeat.output)
    rows = flow.root(repeat.inputs[0])
    if scaled is None or scaled.word != "mul" or len(scaled.inputs) != 2:
        return
    score = next((value for value in scaled.inputs if flow.thin(value) != repeat.output), None)
    num_times, left = divmod(flow.num_recorded(repeat.output), max(1, flow.num_recorded(rows)))
    chosen = [node for node in flow.before(score) if node.word == "topk"] if score is not None else []
    products = _products_of(flow, scaled, num_times)
    if left or num_times < 2 or not chosen or not products:
        return
    down = products[-1]
    back = [reader for reader in flow.readers[down.output] if reader.word == "sum"]
    if len(back) != 1 or flow.num_recorded(back[0].output) != flow.num_recorded(rows):
        return
    share: dict[str, Attribute] = {"chosen": flow.tensors[chosen[0].output].shape[-1], "experts": num_times}
    assert score is not None
    router = _taken_router(flow, [score])
    permute = Node(word="permute", inputs=[rows], outputs=[scaled.output], where=scaled.where, attributes=dict(share))
    flow.take([repeat, scaled], permute)
    for product in products:
        product.word = "grouped_linear"
        product.attributes |= share
    made = Node(word="unpermute", inputs=[down.output, *router], outputs=[back[0].output], where=down.where)
    flow.take(back, made)


def _products_of(flow: Flow, scaled: Node, num_experts: int) -> list[Node]:
    """Products with one weight an expert, from the first that reads what is scaled to the last behind activations."""
    found: list[Node] = []
    value = scaled.output
    while (reader := flow.only_thin_reader(value)) is not None:
        if reader.word == "matmul":
            weight = flow.parameter_of(reader.inputs[1])
            if weight is None or flow.tensors[weight].shape[0] != num_experts or len(flow.tensors[weight].shape) != 3:
                return found
            found.append(reader)
        elif reader.word not in ("cone", "mul", "silu", "gelu"):
            return found
        value = reader.output
    return found


def _taken_router(flow: Flow, weights: list[int]) -> list[int]:
    """Takes all between the gate's product and the weights of the chosen as one node; what it gives."""
    found: list[Node] = []
    todo = [flow.root(weight) for weight in weights]
    gates: list[int] = []
    seen: set[int] = set()
    while todo:
        value = todo.pop()
        node = flow.maker.get(value)
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if node.word in ("linear", "matmul"):
            gates.append(value)
            continue
        found.append(node)
        todo.extend(flow.root(other) for other in node.inputs if flow.is_trained(other) or node.word == "topk")
    main = [node for node in found if not flow.aside(node)]
    if not main or not gates:
        return []
    last = max(main, key=lambda node: node.place)
    parameters = [value for node in main for value in node.inputs if flow.is_parameter(value)]
    made = Node(word="router", inputs=[*dict.fromkeys(gates), *parameters], outputs=[last.output], where=last.where)
    flow.take(main, made)
    return [last.output]
