"""An operator while it is being placed: as `Part`, but it names values and not yet the parts of a block."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from dovetail.errors import NotModelled
from dovetail.workload.recorded.flow import Flow, Node
from dovetail.workload.recorded.sizes import ONE, Sides, Size, product

LEAD, ROWS, COLS, INNER, FIFTH = range(5)


@dataclass(slots=True, eq=False, kw_only=True)
class Draft:
    """One operator: which values it reads and makes, its extents, and its parameters by number of their tensor."""

    kind: str
    name: str
    reads: list[int]
    makes: int
    sizes: list[Size]  # batch, rows, columns, contraction, fifth
    operator: str = ""
    where: str = ""
    axes: list[int] = field(default_factory=lambda: [0] * 5)
    weight: int = 0
    weight_axes: int = 0
    bias: int = 0
    frozen: int = 0  # of the weight, elements that are not trained
    frozen_bias: int = 0
    is_tied: bool = False
    output_frac: float = 1.0
    shared_frac: float = 1.0
    stride: int = 1
    num_heads: int = 0
    num_kv_heads: int = 0
    is_causal: bool = False
    window: int = 0  # keys that a query sees, 0 for all
    has_dropout: bool = False
    score_kinds: tuple[str, ...] = ()
    num_copies: int = 1
    is_core: bool = False  # over pairs of positions: what selective recompute runs again
    is_whole: bool = False  # attention that the tensor axis does not divide
    is_inside: bool = False  # inside a region whatever it is made of: a sum of two results that wait to be reduced
    is_early: bool = False  # needs nothing but tables and data, and stands before all else
    owns: list[tuple[int, int]] = field(default_factory=list)  # (parameter, how many of its elements)

    @property
    def elements(self) -> Size:
        return product(self.sizes[:3])


@dataclass(slots=True)
class Drafting:
    """What drafts are made from, and values that no recording has: they count down from -1."""

    flow: Flow
    drafts: list[Draft] = field(default_factory=list)
    num_made: int = 0

    def new_value(self) -> int:
        self.num_made += 1
        return -self.num_made

    def draw(self, node: Node, kind: str, sizes: list[Size], *, otherwise: str) -> Draft:
        """Adds the operator `kind` for `node`, called as its module is or `otherwise`; parameters are to be set."""
        draft = Draft(
            kind=kind,
            name=short_name(node.where, otherwise),
            operator=kind,
            where=node.where,
            reads=self.activations(node),
            makes=node.output,
            sizes=sizes,
        )
        self.drafts.append(draft)
        return draft

    def parameters(self, values: Iterable[int]) -> list[tuple[int, int]]:
        """Those of `values` that are parameters, each with as many elements as are seen of it."""
        found = []
        for value in values:
            parameter = self.flow.parameter_of(value)
            if parameter is not None:
                found.append((parameter, min(self.flow.distinct(value), self.flow.num_recorded(parameter))))
        return found

    def check_weight(self, node: Node, weight: int) -> None:
        """Refuses a convolution with what is no parameter: a buffer, or what data say."""
        flow = self.flow
        if not flow.is_weight(weight):
            name = flow.tensors[flow.root(weight)].name or "its weight"
            message = f"{name} of {node.where or flow.name} is no parameter"
            raise NotModelled(f"{message}, and convolutions with anything else are not modelled; make it one")

    def activations(self, node: Node) -> list[int]:
        """What `node` reads, but for parameters and what has no gradient."""
        flow = self.flow
        read = (value for value in node.inputs if flow.is_trained(value) and flow.parameter_of(value) is None)
        return list(dict.fromkeys(flow.root(value) for value in read))


Draw = Callable[[Drafting, Node], None]


def short_name(where: str, otherwise: str) -> str:
    """The last word of a module's path, with the number behind it where there is one."""
    words = [word for word in where.replace("/", ".").split(".") if word]
    if words and words[-1].isdigit():
        return ".".join(words[-2:])
    return words[-1] if words else otherwise


def rows_and_columns(sides: Sides) -> tuple[Size, Size]:
    """A tensor as rows by columns: what grows with batch or length, by the rest.

    Where nothing grows with the length, images have their channels second and all others have them last.
    """
    if not sides:
        return ONE, ONE
    if any(size.num_seq for size in sides):
        return product(s for s in sides if not s.is_fixed), product(s for s in sides if s.is_fixed)
    if len(sides) == 1:
        return (sides[0], ONE) if sides[0].num_batch else (ONE, sides[0])
    column = 1 if len(sides) >= 4 else len(sides) - 1  # batch, channels, height, width
    return product(s for i, s in enumerate(sides) if i != column), sides[column]


def vector(
    drafting: Drafting,
    node: Node,
    operator: str,
    shape_of: int,
    *,
    name: str = "",
    output_frac: float = 1.0,
    sizes: tuple[Size, Size] | None = None,
    owns: list[tuple[int, int]] | None = None,
    kind: str = "vector",
) -> Draft:
    """Adds an operator on the vector units over rows by columns of the value `shape_of`."""
    rows, cols = sizes or rows_and_columns(drafting.flow.sides[shape_of])
    owned = owns or []
    draft = Draft(
        kind=kind,
        name=name or operator,
        operator=operator,
        where=node.where,
        reads=drafting.activations(node),
        makes=node.output,
        sizes=[ONE, rows, cols, ONE, ONE],
        output_frac=output_frac,
        owns=owned,
        weight=sum(count for _, count in owned),
    )
    drafting.drafts.append(draft)
    return draft
