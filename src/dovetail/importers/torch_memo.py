"""What an operator makes of tensors without numbers follows from their shapes: PyTorch computes it once.

Layers repeat, and PyTorch works out every result on meta in Python. Operators that write, give views or hand an operand
on are run each time, as is all that is not plain tensors and numbers.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch

from dovetail.importers.torch_tape import tensors_of

PLAIN = (torch.Tensor, torch.nn.Parameter)
SIMPLE = (bool, int, float, str, type(None), torch.dtype, torch.layout, torch.device, torch.memory_format)

_Made = tuple[tuple[int, ...], tuple[int, ...], torch.dtype]  # shape, strides and dtype of a new tensor


class NotKept(Exception):
    """An argument by which no result is kept."""


class MetaResults:
    """Results of operators on meta, by the operator and the shapes and values that it was given."""

    def __init__(self) -> None:
        self._are_new: dict[Any, bool] = {}
        self._made: dict[Hashable, tuple[bool, tuple[_Made | None, ...]]] = {}

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """What `func` makes of the arguments, all of whose tensors are on meta."""
        are_new = self._are_new.get(func)
        if are_new is None:
            are_new = self._are_new[func] = _makes_new_tensors(func._schema)
        if not are_new:
            return func(*args, **kwargs)
        try:
            key = (func, _key(args), _key(tuple(kwargs.items())) if kwargs else ())
        except NotKept:
            return func(*args, **kwargs)
        found = self._made.get(key)
        if found is not None:
            is_one, outputs = found
            made = [None if each is None else _empty(each) for each in outputs]
            return made[0] if is_one else tuple(made)
        result = func(*args, **kwargs)
        kept = _kept(result, args, kwargs)
        if kept is not None:
            self._made[key] = kept
        return result


def _makes_new_tensors(schema: Any) -> bool:
    """Whether it takes tensors, writes to none, and returns tensors that are no views of them."""
    return (
        all(argument.alias_info is None for argument in (*schema.arguments, *schema.returns))
        and any("Tensor" in str(argument.type) for argument in schema.arguments)
        and bool(schema.returns)
        and all(str(value.type) == "Tensor" for value in schema.returns)
    )


def _key(values: Any) -> Hashable:
    found: list[Hashable] = []
    for value in values:
        kind = type(value)
        if kind in PLAIN:
            if value.layout is not torch.strided or value.dtype.is_complex:
                raise NotKept
            found.append((value.shape, value.stride(), value.dtype))
        elif kind in SIMPLE:
            found.append((kind, value))  # 1, 1.0 and true are equal, and make different results
        elif kind in (list, tuple):
            found.append((kind, _key(value)))
        else:
            raise NotKept
    return tuple(found)


def _empty(made: _Made) -> torch.Tensor:
    shape, strides, dtype = made
    return torch.empty_strided(shape, strides, dtype=dtype, device="meta")


def _kept(result: Any, args: Any, kwargs: Any) -> tuple[bool, tuple[_Made | None, ...]] | None:
    """How to make `result` again; none where it has memory of an operand, or is more than plain tensors."""
    is_one = isinstance(result, torch.Tensor)
    outputs = (result,) if is_one else result
    if not isinstance(outputs, tuple):
        return None
    tensors = [each for each in outputs if each is not None]
    if not all(type(each) is torch.Tensor and each.is_meta and _is_whole(each) for each in tensors):
        return None
    own = {_storage_id(each) for each in tensors}
    if len(own) < len(tensors) or not own.isdisjoint(map(_storage_id, tensors_of((*args, *kwargs.values())))):
        return None
    made = [None if each is None else (tuple(each.shape), each.stride(), each.dtype) for each in outputs]
    return is_one, tuple(made)


def _is_whole(tensor: torch.Tensor) -> bool:
    """Whether its memory is as large as `empty_strided` would make it."""
    if tensor.layout is not torch.strided or tensor.dtype.is_complex or tensor.storage_offset():
        return False
    shape, strides = tensor.shape, tensor.stride()
    last = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    num_elements = 0 if 0 in shape else last + 1
    return bool(tensor.untyped_storage().nbytes() == num_elements * tensor.element_size())


def _storage_id(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
