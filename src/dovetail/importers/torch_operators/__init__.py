"""What each operator of PyTorch is called in the neutral words of a recording: a table, and readers, one by one.

Most take one line of `plain.py`. One whose operands or numbers matter has a reader of its own in `products.py`. A
plugin adds an operator the same way, with `torch_operators.register("library::name")`. Nothing here imports PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dovetail.errors import InvalidInput
from dovetail.registry import Registry, functions
from dovetail.workload.recorded.record import Attribute
from dovetail.workload.recorded.words import LABELS


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One operator as it ran: `arguments` by the names of its schema, `inputs` its tensors by number, in order.

    `number` gives the number of one tensor among the arguments. `weight` gives that of the parameter which a tensor
    is, or is the transpose of, and whether it is turned; a number below zero where it is neither.
    """

    name: str
    arguments: Mapping[str, Any]
    inputs: tuple[int, ...]
    number: Callable[[Any], int]
    weight: Callable[[Any], tuple[int, bool]]

    def numbers(self, *names: str) -> tuple[int, ...]:
        """Of the named arguments that are there."""
        return tuple(self.number(self.arguments[name]) for name in names if self.arguments.get(name) is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a call amounts to: one step, and `added` where its result is added to one tensor more.

    `is_column`: the second operand of a product is a vector, which stands for a matrix of one column.
    """

    word: str
    inputs: tuple[int, ...]
    attributes: tuple[tuple[str, Attribute], ...] = ()
    added: int = -1
    is_column: bool = False

    def __post_init__(self) -> None:
        if self.word not in LABELS:
            raise InvalidInput(f"no word of a recording is {self.word!r}; known: {', '.join(sorted(LABELS))}")


Reader = Callable[[Call], Reading]


torch_operators: Registry[Reader] = Registry("PyTorch operator", __name__, check=functions("PyTorch operator"))


def as_word(word: str, **attributes: Attribute) -> Reader:
    """A reader for an operator that is simply `word` of its tensors."""
    given = tuple(sorted(attributes.items()))

    def reading(call: Call) -> Reading:
        return Reading(word=word, inputs=call.inputs, attributes=given)

    return reading


def as_numbered(word: str) -> Reader:
    """The same of two operands, of which the second may be a whole number: how far apart positions are, say."""

    def reading(call: Call) -> Reading:
        other = call.arguments.get("other")
        if isinstance(other, int) and not isinstance(other, bool):
            return Reading(word=word, inputs=call.inputs, attributes=(("number", other),))
        return Reading(word=word, inputs=call.inputs)

    return reading


def reader_of(name: str) -> Reader | None:
    """That of `aten::relu_` is that of `aten::relu`: whether it writes in place is another matter. None: unknown."""
    for known in (name, name.removesuffix("_")):
        if known in torch_operators:
            return torch_operators[known]
    return None


# Their results, or the shape of their results, depend on numbers that a model without weights does not have.
_DATA_DEPENDENT = """_local_scalar_dense item nonzero nonzero_numpy argwhere nonzero_static masked_select _unique
    _unique2 unique_dim unique_consecutive unique_dim_consecutive bincount equal is_nonzero allclose multinomial"""
DATA_DEPENDENT = frozenset(f"aten::{name}" for name in _DATA_DEPENDENT.split())
# They change no tensor and take no time worth counting.
_SILENT = """_assert_async _assert_scalar _functional_assert_async sym_size sym_stride sym_numel sym_storage_offset
    record_stream _assert_tensor_metadata resize_"""
SILENT = frozenset(f"aten::{name}" for name in _SILENT.split())
