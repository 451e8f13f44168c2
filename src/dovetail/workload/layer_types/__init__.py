"""Types of layers that one transformer can mix, by the names that Hugging Face's `layer_types` has.

A type says what a layer of it has, as a change to the transformer's own shape; save a file here and it is found. Which
layers are of which type is the transformer's layer pattern: run lengths that start again until all layers have a type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, cycle, islice, repeat
from typing import TYPE_CHECKING, Any

from dovetail.errors import InvalidInput, did_you_mean
from dovetail.registry import Registry
from dovetail.workload.graph import run_lengths

if TYPE_CHECKING:
    from dovetail.workload.transformer import Transformer

Pattern = tuple[tuple[str, int], ...]  # layer types and how many layers of each follow each other
FIELDS = ("layer_types", "mlp_layer_types")  # fields of a transformer that are patterns: of attention, of the rest


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerType:
    """What a layer of this type has: fields of the transformer that it replaces.

    `field` is the pattern it may stand in; `needs` are fields that the transformer must give.
    """

    field: str
    replaces: dict[str, Any]
    needs: tuple[str, ...] = ()


layer_types: Registry[Callable[[], LayerType]] = Registry("layer type", __name__)


def layers_of(shape: Transformer) -> list[tuple[str, ...]]:
    """The types of each layer in order, one of every pattern that the transformer has."""
    num_dense = shape.num_dense_layers
    dense_first: Pattern = (("dense", num_dense), ("sparse", shape.num_layers - num_dense)) if num_dense else ()
    patterns = [pattern for pattern in (shape.layer_types, shape.mlp_layer_types or dense_first) if pattern]
    each = [chain.from_iterable(repeat(*run) for run in cycle(pattern)) for pattern in patterns]
    return list(islice(zip(*each, strict=True), shape.num_layers)) if each else [()] * shape.num_layers


def shape_of_layer(shape: Transformer, types: Sequence[str]) -> Transformer:
    """The transformer all of whose layers are of these types."""
    changes: dict[str, Any] = dict.fromkeys(FIELDS, ()) | {"num_dense_layers": 0}
    for name in types:
        changes |= layer_types[name]().replaces
    return replace(shape, **changes)


def shortest_pattern(names: Sequence[str]) -> Pattern:
    """The types of all layers, given one by one, as run lengths of the shortest piece that comes twice or more."""
    lengths = (*range(1, len(names) // 2 + 1), len(names))
    length = next(n for n in lengths if tuple(names) == tuple(islice(cycle(names[:n]), len(names))))
    return run_lengths(names[:length])


def check_pattern(shape: Transformer, field: str) -> None:
    """Raises `InvalidInput` for types that are not known, of another field, or lack what they need."""
    for name, count in getattr(shape, field):
        known = [other for other in layer_types.names() if layer_types[other]().field == field]
        if name not in known:
            raise InvalidInput(f"{field}: no layer type is named {name!r}{did_you_mean(name, known)}", field)
        if count < 1:
            raise InvalidInput(f"{field}: {name} needs a count of at least 1; got {count}", field)
        for needed in layer_types[name]().needs:
            if not getattr(shape, needed):
                raise InvalidInput(f"{field}: {name} needs {needed}; give it, or take {name} out", field)
