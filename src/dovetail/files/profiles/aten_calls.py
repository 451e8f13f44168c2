"""A call of an operator of PyTorch as traces have it, and the row of a graph that it may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from dovetail.hardware.measured import WHOLE

MAX_ELEMENTS = 2**48  # of a tensor: half a petabyte in bf16
NO_SHAPES = "no shapes were recorded; profile with record_shapes=True"
# How traces spell dtypes, as C++ does.
_DTYPES = {
    "float": "fp32", "c10::bfloat16": "bf16", "c10::half": "fp16", "c10::float8_e4m3fn": "fp8",
    "c10::float8_e5m2": "fp8", "signed char": "int8",
}  # fmt: skip
Dims = tuple[int, ...]


class NotOurs(Exception):
    """Why an operator of a trace is none of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """An operator as a trace has it: the shape, the type and, where it is recorded, the value of each argument."""

    name: str
    dims: tuple[Any, ...]
    types: tuple[str, ...]
    values: tuple[str, ...] = ()
    is_backward: bool = False  # run by autograd on its way back

    def shape(self, index: int, rank: int = 0) -> Dims:
        """The shape of a tensor, of `rank` dims where that is given."""
        if not self.dims:
            raise NotOurs(NO_SHAPES)
        dims = self.dims[index] if index < len(self.dims) else ()
        is_shape = isinstance(dims, list | tuple) and all(type(size) is int and size > 0 for size in dims)
        if not is_shape or not dims or (rank and len(dims) != rank):
            raise NotOurs(f"argument {index} is no tensor that we expect")
        if prod(dims) > MAX_ELEMENTS:
            raise NotOurs(f"argument {index} has more elements than any device holds")
        return tuple(dims)

    def dtype(self, index: int) -> str:
        word = self.types[index].lower() if index < len(self.types) else ""
        word = word.removeprefix("tensor(").removesuffix(")")
        if word not in _DTYPES:
            raise NotOurs(f"no dtype of ours is {word or 'not given'}")
        return _DTYPES[word]

    def flag(self, index: int, what: str) -> bool:
        word = self.values[index] if index < len(self.values) else ""
        if word not in ("True", "False"):
            raise NotOurs(f"the trace does not state {what}")
        return word == "True"

    def wholes(self, index: int) -> Dims:
        """A list of numbers among the values, such as a convolution's stride."""
        word = self.values[index] if index < len(self.values) else ""
        try:
            return tuple(int(part) for part in word.strip("[]").split(","))
        except ValueError:
            raise NotOurs("the trace does not state its stride, padding and groups") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What an operator is to a graph; as `hardware.measured.MeasuredOp` has it."""

    kind: str
    phase: str
    dtype: str
    extents: Dims
    work_frac: float = 1.0
    stride: int = 1
    distinct_frac: tuple[float, float, float] = WHOLE


def call_of(name: str, dims: object, types: object, values: object, *, is_backward: bool) -> Call:
    """A call of whatever a trace says of its arguments, which may be nothing."""
    return Call(
        name=name,
        dims=tuple(dims) if isinstance(dims, list) else (),
        types=tuple(str(word) for word in _listed(types)),
        values=tuple(str(word) for word in _listed(values)),
        is_backward=is_backward,
    )


def _listed(words: object) -> Sequence[object]:
    return words if isinstance(words, list) else ()
