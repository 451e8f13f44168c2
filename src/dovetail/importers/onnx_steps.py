"""The steps that ONNX operators come to, and the registry of the operators: one function for each.

A function reads a `Call`, one node with the shapes of what it reads and makes, and writes steps in the words of
`workload/recorded/words.py`. ONNX's own operators know the shapes of their outputs; for any other a second function
says them (`onnx_shapes`). A plugin file adds an operator as the files of `onnx_words/` do:

    @onnx_shapes.register("my.domain.Scale")
    def scale_shapes(call): return [(call[0].shape, call[0].elem_type)]

    @onnx_operators.register("my.domain.Scale")
    def scale(call, steps): steps.write("mul", call.inputs, call.outputs)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from dovetail.errors import InvalidInput, did_you_mean
from dovetail.importers.onnx_literals import Array, dtype_word
from dovetail.registry import Registry, functions
from dovetail.workload.recorded.record import Attribute, Source, Step, Tensor
from dovetail.workload.recorded.words import LABELS

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One tensor of the file at the requested sizes. `known` is empty unless its value follows from shapes alone."""

    name: str  # empty where an input was left out
    shape: Shape
    elem_type: int
    source: Source = Source.STEP
    is_constant: bool = False  # the same for every batch of this size
    known: tuple[Array, ...] = ()
    is_turned: bool = False  # a weight seen the other way round than it is recorded

    @property
    def num_elements(self) -> int:
        return prod(self.shape)

    @property
    def is_number(self) -> bool:
        return self.is_constant and self.num_elements == 1

    @property
    def is_vector(self) -> bool:
        """Whether at most one dim is longer than one: biases, scales, slopes."""
        return sum(size > 1 for size in self.shape) <= 1


LEFT_OUT = Value(name="", shape=(), elem_type=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One node and what it reads and makes."""

    op: str
    label: str
    where: str
    opset: int
    attributes: Mapping[str, Any]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...] = ()

    def __getitem__(self, place: int) -> Value:
        if not self.has(place):
            raise InvalidInput(f"{self.label} needs at least {place + 1} inputs; got {len(self.given)}")
        return self.inputs[place]

    def has(self, place: int) -> bool:
        return place < len(self.inputs) and bool(self.inputs[place].name)

    @property
    def given(self) -> tuple[Value, ...]:
        return tuple(value for value in self.inputs if value.name)

    def integer(self, name: str, default: int) -> int:
        value = self.attributes.get(name, default)
        if not isinstance(value, int):
            raise InvalidInput(f"{self.label}: the attribute {name} must be a whole number")
        return value

    def integers(self, name: str, default: Sequence[int] = ()) -> tuple[int, ...]:
        value = self.attributes.get(name, tuple(default))
        if not isinstance(value, tuple) or not all(isinstance(size, int) for size in value):
            raise InvalidInput(f"{self.label}: the attribute {name} must be whole numbers")
        return value

    def dims(self, place: int, rank: int) -> Shape:
        """The shape of an input that must have `rank` dims."""
        shape = self[place].shape
        if len(shape) != rank:
            raise InvalidInput(f"{self.label}: its input {place} must have {rank} dims; got {list(shape)}")
        return shape

    def word(self, name: str, default: str) -> str:
        return str(self.attributes.get(name, default))

    def numbers(self, place: int) -> tuple[int, ...]:
        """The value of an input that must be known, as whole numbers."""
        if not self.has(place) or not self.inputs[place].known:
            raise InvalidInput(f"{self.label}: its input {place} must be a constant")
        return tuple(int(number) for number in self.inputs[place].known[0].ravel())


Shapes = Callable[[Call], Sequence[tuple[Shape, int]]]
Operator = Callable[[Call, "Steps"], None]

onnx_operators: Registry[Operator] = Registry(
    "ONNX operator", "dovetail.importers.onnx_operators", check=functions("ONNX operator")
)
onnx_shapes: Registry[Shapes] = Registry(
    "ONNX shape function", "dovetail.importers.onnx_operators", check=functions("ONNX shape function")
)


@dataclass(slots=True)
class Steps:
    """A recording in the making."""

    tensors: list[Tensor] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    op: str = ""  # of the call that is being written
    where: str = ""
    label: str = ""
    call_number: int = 0
    _numbers: dict[tuple[str, int], int] = field(default_factory=dict)
    _uses: dict[str, int] = field(default_factory=dict)
    _num_made: int = 0

    def begin(self, call: Call) -> None:
        self.op, self.where, self.label = call.op, call.where, call.label
        self.call_number += 1

    def made(self, shape: Shape, elem_type: int) -> Value:
        """A tensor between two steps of one call."""
        self._num_made += 1
        return Value(name=f"{self.label} {self._num_made}", shape=shape, elem_type=elem_type)

    def write(
        self, word: str, inputs: Sequence[Value], outputs: Sequence[Value], **attributes: Attribute
    ) -> None:  # fmt: skip
        if word not in LABELS:  # a plugin's
            raise InvalidInput(f"no step is called {word!r}{did_you_mean(word, LABELS)}", self.label)
        numbers = [self._number(value if word == "linear" else self._upright(value)) for value in inputs if value.name]
        self.steps.append(
            Step(
                word=word,
                inputs=tuple(numbers),
                outputs=tuple(self._number(value) for value in outputs if value.name),
                op=self.op,
                where=self.where,
                attributes=tuple(sorted(attributes.items())),
            )
        )

    def part(self, value: Value, name: str, shape: Shape) -> Value:
        """A piece of a weight that is stored with others, as a parameter of its own."""
        return replace(value, name=f"{value.name}.{name}", shape=shape)

    def view(self, value: Value, shape: Shape) -> Value:
        """The same elements in another shape."""
        if value.shape == shape:
            return value
        assert prod(shape) == value.num_elements, (self.label, value.shape, shape)
        seen = self.made(shape, value.elem_type)
        self.write("view", [value], [seen])
        return seen

    def _upright(self, value: Value) -> Value:
        """A weight as it is seen: only linear layers read it either way round."""
        if not value.is_turned:
            return value
        stored = replace(value, shape=value.shape[::-1], is_turned=False)
        seen = self.made(value.shape, value.elem_type)
        self.write("view", [stored], [seen])
        return seen

    def _number(self, value: Value) -> int:
        # Exporters store equal tensors once, and the vectors of a fresh model are all ones or zeros. So every use of
        # a vector counts as a parameter of its own; a matrix that is used twice is shared.
        is_own = value.source is Source.PARAMETER and value.is_vector
        key = (value.name, self.call_number if is_own else 0)
        if key not in self._numbers:
            self._numbers[key] = len(self.tensors)
            self.tensors.append(self._tensor(value, is_own))
        return self._numbers[key]

    def _tensor(self, value: Value, is_own: bool) -> Tensor:
        name = "" if value.source is Source.STEP else value.name
        if is_own:
            self._uses[name] = self._uses.get(name, 0) + 1
            name = name if self._uses[name] == 1 else f"{name}#{self._uses[name]}"
        dtype = dtype_word(value.elem_type, f"{value.name!r} of {self.label}")
        shape = value.shape[::-1] if value.is_turned else value.shape
        return Tensor(shape=shape, dtype=dtype, source=value.source, name=name)
