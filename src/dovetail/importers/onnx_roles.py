"""Which tensors of an ONNX file are trained: a file does not say, and how they are used does.

Trained is a tensor of floats that is, itself or turned, cut, cast and reshaped,
- the weight of a product with activations, of a convolution, a recurrent layer or a fused attention;
- the scale or bias of a norm (running statistics are not), or the slope of a PRelu;
- the table of a lookup, unless all that is looked up multiplies what products made: that is a table of rotations;
- added to activations, unless a softmax follows at once and it has two dims or more: that is a mask;
- a vector that multiplies activations: the scale of a norm written out, or of a layer;
- put beside activations: a class token.
Single numbers without a dim, and everything else, are constants. So are floats that meet no activation, such as the
frequencies of rotations. Activations come from inputs of floats and from lookups.
"""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.importers.onnx_graph import Node, OnnxGraph
from dovetail.importers.onnx_literals import FLOATS, Written

_SEEN_THROUGH = frozenset((
    "Transpose", "Reshape", "Cast", "CastLike", "Identity", "Unsqueeze", "Squeeze", "Slice", "Split", "Flatten",
    "Expand",
))  # fmt: skip
_PRODUCTS = {
    "MatMul": (0, 1), "Gemm": (0, 1, 2), "Conv": (1, 2), "ConvTranspose": (1, 2), "Einsum": (0, 1, 2),
    "LSTM": (1, 2, 3), "com.microsoft.FusedMatMul": (0, 1),
    "com.microsoft.Attention": (1, 2), "com.microsoft.MultiHeadAttention": (3,),
    "LayerNormalization": (1, 2), "RMSNormalization": (1,), "SimplifiedLayerNormalization": (1,),
    "BatchNormalization": (1, 2), "GroupNormalization": (1, 2), "InstanceNormalization": (1, 2), "PRelu": (1,),
    "com.microsoft.SkipLayerNormalization": (2, 3, 4), "com.microsoft.SkipSimplifiedLayerNormalization": (2, 3),
    "com.microsoft.SimplifiedLayerNormalization": (1,), "com.microsoft.BiasGelu": (1,), "com.microsoft.FastGelu": (1,),
    "com.microsoft.GroupNorm": (1, 2),
    "com.microsoft.EmbedLayerNormalization": (2, 3, 4, 5, 6),
}  # fmt: skip
_ALWAYS = frozenset(_PRODUCTS) - {"MatMul", "Einsum", "Gemm"}  # no activation need be shown: nothing else has these
_SIZES = ("Shape", "Size")


def trained(graph: OnnxGraph) -> frozenset[str]:
    """The names of the tensors of the file that are trained."""
    return frozenset(_Roles(graph).names())


class _Roles:
    def __init__(self, graph: OnnxGraph) -> None:
        self.graph = graph
        self.readers: dict[str, list[tuple[Node, int]]] = {}
        for node in graph.nodes:
            for place, name in enumerate(node.inputs):
                self.readers.setdefault(name, []).append((node, place))
        self.products = {name for node in graph.nodes if node.op in ("MatMul", "Einsum") for name in node.outputs}
        self.of_products = self._of_products()
        self.activations = self._activations()

    def names(self) -> Iterator[str]:
        for name, literal in self.graph.literals.items():
            if literal.is_float and literal.shape and literal.num_elements and self._is_trained(name, literal):
                yield name

    def _is_trained(self, name: str, literal: Written) -> bool:
        return any(self._use_is_trained(node, place, literal) for node, place in self._uses(name))

    def _use_is_trained(self, node: Node, place: int, literal: Written) -> bool:
        op = node.op
        if op in _PRODUCTS:
            return place in _PRODUCTS[op] and (op in _ALWAYS or self._meets_activation(node, place))
        if op == "Gather":
            return place == 0 and self._is_table(node, literal)
        if not self._meets_activation(node, place):
            return False
        if op in ("Add", "Sum"):
            is_number = literal.num_elements == 1 and not self._follows_product(node, place)
            return not is_number and (_is_vector(literal) or not self._softmax_follows(node))
        if op == "Mul":
            return _is_vector(literal) and literal.num_elements > 1
        return op == "Concat"

    def _uses(self, name: str) -> Iterator[tuple[Node, int]]:
        """Where a tensor is read, views of it included."""
        pending, seen = [name], {name}
        while pending:
            for node, place in self.readers.get(pending.pop(), ()):
                if node.op in _SEEN_THROUGH and place == 0:
                    fresh = [made for made in node.outputs if made not in seen]
                    seen.update(fresh)
                    pending += fresh
                else:
                    yield node, place

    def _of_products(self) -> set[str]:
        """What some product has a part in."""
        found: set[str] = set()
        for node in self.graph.nodes:
            is_fed = node.op not in _SIZES and any(name in found for name in node.inputs)
            if is_fed or node.op in _PRODUCTS:
                found.update(node.outputs)
        return found

    def _activations(self) -> set[str]:
        """What training sends gradients through, at least if something before it is trained."""
        found = {entry.name for entry in self.graph.inputs if entry.elem_type in FLOATS}
        for node in self.graph.nodes:
            is_fed = node.op not in _SIZES and any(name in found for name in node.inputs)
            if is_fed or self._is_lookup(node):
                found.update(node.outputs)
        return found

    def _is_lookup(self, node: Node) -> bool:
        if node.op == "com.microsoft.EmbedLayerNormalization":
            return True
        table = self.graph.literals.get(node.inputs[0]) if node.op == "Gather" and node.inputs else None
        return table is not None and self._is_table(node, table)

    def _is_table(self, node: Node, literal: Written) -> bool:
        is_lookup = len(node.inputs) > 1 and node.attributes.get("axis", 0) == 0
        if not is_lookup or not literal.is_float or len(literal.shape) < 2:
            return False
        indices = self.graph.literals.get(node.inputs[1])
        if indices is not None and not indices.shape:
            return False  # one row, cut out
        uses = [use for name in node.outputs for use in self._uses(name)]
        return not uses or not all(
            reader.op == "Mul" and self._is_of_product_beside(reader, place) for reader, place in uses
        )

    def _is_of_product_beside(self, node: Node, place: int) -> bool:
        return any(name in self.of_products for other, name in enumerate(node.inputs) if other != place)

    def _meets_activation(self, node: Node, place: int) -> bool:
        return any(name in self.activations for other, name in enumerate(node.inputs) if other != place)

    def _follows_product(self, node: Node, place: int) -> bool:
        return any(name in self.products for other, name in enumerate(node.inputs) if other != place)

    def _softmax_follows(self, node: Node) -> bool:
        return any(reader.op == "Softmax" for name in node.outputs for reader, _ in self._uses(name))


def _is_vector(literal: Written) -> bool:
    return sum(size > 1 for size in literal.shape) <= 1
