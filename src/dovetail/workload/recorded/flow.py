"""The steps of a recording as nodes that patterns take together, with views looked through.

A value is a tensor by number. A view is no node: a step that reads it reads what it shows (`root`). `thin` also looks
through casts and copies, which kernels do on the way. Nodes that no parameter has a part in (masks, positions, what
is done to data before the first layer) and those that give whole numbers stand aside: they have no gradient.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from dovetail.workload.recorded.record import Attribute, Recorded, Source, Tensor
from dovetail.workload.recorded.sizes import Size, product, tensor_sides
from dovetail.workload.recorded.words import FLOATS, FREE

PARAMETERS = (Source.PARAMETER, Source.FROZEN)


@dataclass(slots=True, eq=False)
class Node:
    """One step, or several that were found to be one thing; `word` is then a word of the pattern that found it."""

    word: str
    inputs: list[int]
    outputs: list[int]
    op: str = ""
    where: str = ""
    attributes: dict[str, Attribute] = field(default_factory=dict)
    place: int = 0  # where it stands in the recording

    @property
    def output(self) -> int:
        return self.outputs[0]

    def number(self, name: str, otherwise: int) -> int:
        """An attribute that is a whole number."""
        found = self.attributes.get(name, otherwise)
        assert isinstance(found, int | float), f"{name} of {self.word} is {found!r}"
        return int(found)


class Flow:
    """All nodes of a recording in order, and who makes and who reads each value."""

    def __init__(self, recorded: Recorded) -> None:
        base = recorded.base
        self.name = base.name
        self.tensors: list[Tensor] = list(base.tensors)
        self.sides, self.odd = tensor_sides(recorded)
        self.shown_by: dict[int, int] = {}
        self.nodes: list[Node] = []
        for place, step in enumerate(base.steps):
            if step.word in FREE:
                self.shown_by.update(dict.fromkeys(step.outputs, step.inputs[0]))
                continue
            self.nodes.append(
                Node(
                    word=step.word,
                    inputs=list(step.inputs),
                    outputs=list(step.outputs),
                    op=step.op,
                    where=step.where,
                    attributes=dict(step.attributes),
                    place=place,
                )
            )
        self.index()

    def index(self) -> None:
        """Makes up again who makes and who reads each value; to be called once nodes have changed."""
        self._gone: dict[int, Node] = {}  # taken by patterns; held, so that no other node gets the identity of one
        self._replaced: dict[int, Node] = {}
        self.maker: dict[int, Node] = {output: node for node in self.nodes for output in node.outputs}
        self.readers: dict[int, list[Node]] = defaultdict(list)
        for node in self.nodes:
            for value in dict.fromkeys(self.root(value) for value in node.inputs):
                self.readers[value].append(node)
        self._trained: dict[int, bool] = {}
        self._from_data: dict[int, bool] = {}
        for node in self.nodes:
            has_part = any(self.is_trained(value) for value in node.inputs)
            is_data = any(self.is_from_data(value) for value in node.inputs)
            for output in node.outputs:
                self._trained[output] = has_part and self.tensors[output].dtype in FLOATS
                self._from_data[output] = is_data

    def new_number(self) -> int:
        """A value that no step made: one number, such as a loss."""
        self.tensors.append(Tensor(shape=(), dtype="fp32"))
        self.sides = (*self.sides, ())
        return len(self.tensors) - 1

    def root(self, value: int) -> int:
        """What `value` shows: itself, or the value it is a view of."""
        while value in self.shown_by:
            value = self.shown_by[value]
        return value

    def thin(self, value: int) -> int:
        """As `root`, looking through casts and copies too."""
        value = self.root(value)
        while (node := self.maker.get(value)) is not None and is_thin(node):
            value = self.root(node.inputs[0])
        return value

    def thin_maker(self, value: int) -> Node | None:
        return self.maker.get(self.thin(value))

    def source(self, value: int) -> Source:
        return self.tensors[self.root(value)].source

    def is_parameter(self, value: int) -> bool:
        return self.source(value) in PARAMETERS

    def is_trained(self, value: int) -> bool:
        """Whether a parameter has a part in it, so that it is of the model; frozen ones count too."""
        root = self.root(value)
        return self.tensors[root].source in PARAMETERS or self._trained.get(root, False)

    def is_from_data(self, value: int) -> bool:
        root = self.root(value)
        return self.tensors[root].source is Source.INPUT or self._from_data.get(root, False)

    def is_activation(self, value: int) -> bool:
        """Whether it has a gradient and depends on data: on more than parameters."""
        return self.is_trained(value) and self.is_from_data(value)

    def is_weight(self, value: int) -> bool:
        """Whether it is made of parameters and of no data."""
        return self.is_trained(value) and not self.is_from_data(value)

    def parameter_of(self, value: int) -> int | None:
        """The parameter that `value` is, but for numbers added or multiplied, casts and copies; None if it is none."""
        value = self.thin(value)
        if self.tensors[value].source in PARAMETERS:
            return value
        node = self.maker.get(value)
        if node is None or node.word not in ("add", "mul", "sub", "div", "neg", "exp", "where"):
            return None
        trained = [other for other in node.inputs if self.is_trained(other)]
        return self.parameter_of(trained[0]) if len(trained) == 1 else None

    def elements(self, value: int) -> Size:
        return product(self.sides[value])

    def num_recorded(self, value: int) -> int:
        return self.tensors[value].num_elements

    def distinct(self, value: int) -> int:
        """Elements of `value` as recorded, without those that an expansion on the way repeats."""
        fewest = self.num_recorded(value)
        while True:
            if value in self.shown_by:
                value = self.shown_by[value]
            elif (node := self.maker.get(value)) is not None and is_thin(node):
                value = node.inputs[0]
            else:
                return fewest
            fewest = min(fewest, self.num_recorded(value))

    def aside(self, node: Node) -> bool:
        return not any(self._trained.get(output, False) for output in node.outputs)

    def main(self) -> Iterator[Node]:
        """Nodes with a gradient, in order."""
        return (node for node in self.nodes if not self.aside(node))

    def standing(self) -> Iterator[Node]:
        """All nodes in order, but those that have been taken by the time their turn comes."""
        return (node for node in self.nodes if id(node) not in self._gone)

    def before(self, value: int, stop: Iterable[int] = ()) -> Iterator[Node]:
        """Every node that has a part in `value`, nearest first, not looking beyond `stop`."""
        ends, seen, todo = set(stop), set(), [self.root(value)]
        while todo:
            here = todo.pop()
            node = self.maker.get(here)
            if here in ends or node is None or id(node) in seen:
                continue
            seen.add(id(node))
            yield node
            todo.extend(self.root(other) for other in node.inputs)

    @property
    def scales(self) -> bool:
        """Whether what is left to compute follows other batches and lengths than the recorded ones."""
        values = (value for node in self.main() for value in (*node.inputs, *node.outputs[:1]))
        return not any(value in self.odd for value in values)

    def only_reader(self, value: int) -> Node | None:
        readers = self.readers[self.root(value)]
        return readers[0] if len(readers) == 1 else None

    def only_thin_reader(self, value: int) -> Node | None:
        """The one node that reads it, behind casts and copies that only hand it on; None if there are several."""
        node = self.only_reader(value)
        while node is not None and is_thin(node):
            node = self.only_reader(node.output)
        return node

    def take(self, nodes: Iterable[Node], made: Node) -> None:
        """Puts `made` in place of `nodes`, at the last of them."""
        gone = {id(node): node for node in nodes}
        last = max(gone.values(), key=lambda node: node.place)
        made.place = last.place
        made.where, made.op = made.where or last.where, made.op or last.op
        for node in gone.values():
            for value in node.inputs:
                self._forget(self.root(value), gone)
        for value in made.outputs:
            self.maker[value] = made
        for value in dict.fromkeys(self.root(value) for value in made.inputs):
            self.readers[value].append(made)
        self._replaced[id(last)] = made
        self._gone.update(gone)

    def look_through(self, node: Node) -> None:
        """Takes a node of one output out: its readers read what it is made of."""
        source = self.root(node.inputs[0])
        readers = self.readers[node.output]
        self._gone[id(node)] = node
        self._forget(source, {id(node): node})
        self.shown_by[node.output] = node.inputs[0]
        self.readers[source].extend(reader for reader in readers if reader not in self.readers[source])

    def _forget(self, value: int, gone: dict[int, Node]) -> None:
        self.readers[value] = [reader for reader in self.readers[value] if id(reader) not in gone]

    def settle(self) -> None:
        """Brings the list of nodes up to date with what was taken; to be called once a pattern is through."""
        self.nodes = [
            self._now(node) for node in self.nodes if id(node) not in self._gone or id(node) in self._replaced
        ]
        self.nodes = [node for node in self.nodes if id(node) not in self._gone]
        self.index()

    def _now(self, node: Node) -> Node:
        while id(node) in self._replaced:
            node = self._replaced[id(node)]
        return node


def is_thin(node: Node) -> bool:
    """A cast or copy that hands on what it reads; one that writes into something else is not."""
    return node.word in ("cast", "copy") and not node.attributes.get("write", False)
