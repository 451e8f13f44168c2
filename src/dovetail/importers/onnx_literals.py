"""Tensors that an ONNX file writes down: their shapes, and their values where shapes may follow from them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from dovetail.errors import InvalidInput, NotModelled
from dovetail.importers.onnx_package import onnx_package

Array = np.ndarray[Any, np.dtype[Any]]

MAX_KNOWN = 65_536  # elements of a value that is kept: shapes have ten, positions and masks of use thousands
MAX_ELEMENTS = 2**53  # of one tensor: beyond, a float no longer counts them one by one
_MAX_DIGITS = 19  # of an offset: no file is longer
_EXTERNAL = 1  # TensorProto.DataLocation of onnx.proto

# TensorProto.DataType of onnx.proto, in the words of recorded/words.py.
DTYPE_OF = {
    1: "fp32", 10: "fp16", 16: "bf16", 17: "fp8", 18: "fp8", 19: "fp8", 20: "fp8",
    2: "int", 3: "int", 4: "int", 5: "int", 6: "int", 7: "int", 12: "int", 13: "int", 9: "bool",
}  # fmt: skip
_NAMES = {8: "string", 11: "double", 14: "complex64", 15: "complex128", 21: "uint4", 22: "int4", 23: "float4e2m1"}
FLOAT16, DOUBLE, BFLOAT16 = 10, 11, 16
FLOATS = frozenset((1, 10, 11, 16, 17, 18, 19, 20))
BOOL = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A tensor of the file. `known` is empty where its value is not kept.

    Its numbers begin `start_bytes` into the file `stored_in`, which need not exist; empty where that is not known.
    """

    shape: tuple[int, ...]
    elem_type: int
    known: tuple[Array, ...] = ()
    stored_in: str = ""
    start_bytes: int = 0

    @property
    def num_elements(self) -> int:
        return prod(self.shape)

    @property
    def is_float(self) -> bool:
        return self.elem_type in FLOATS


def dtype_word(elem_type: int, label: str) -> str:
    """The word for a type of elements; raises for those that no chip's rate is known of."""
    if elem_type not in DTYPE_OF:
        name = _NAMES.get(elem_type, f"type {elem_type}")
        raise NotModelled(f"{label} has elements of {name}, which is not modelled; export it in float32 or bfloat16")
    return DTYPE_OF[elem_type]


def checked_shape(shape: tuple[int, ...], label: str) -> tuple[int, ...]:
    if any(size < 0 for size in shape):
        raise InvalidInput(f"{label} has the shape {list(shape)}; sizes must not be negative")
    if prod(shape) > MAX_ELEMENTS:
        raise InvalidInput(f"{label} has the shape {list(shape)}, more than 2^53 elements")
    return shape


def tensor_literal(tensor: Any, path: Path, start_bytes: int = 0) -> Written:
    """A tensor as it stands in the file from `start_bytes` on, or beside it."""
    label = f"{path}: the tensor {tensor.name!r}"
    shape = checked_shape(tuple(tensor.dims), label)
    if prod(shape) > MAX_KNOWN:
        return _stored(tensor, shape, path, start_bytes)
    if tensor.data_location == _EXTERNAL:
        tensor = _fetched(tensor, path)
        if tensor.data_location == _EXTERNAL:
            return _stored(tensor, shape, path, 0)
    if tensor.data_type not in DTYPE_OF and tensor.data_type != DOUBLE:
        return Written(shape=shape, elem_type=tensor.data_type)
    return Written(shape=shape, elem_type=tensor.data_type, known=_numbers(tensor, shape, label))


def _stored(tensor: Any, shape: tuple[int, ...], path: Path, start_bytes: int) -> Written:
    """A tensor whose numbers are left where they are."""
    stored_in = str(path) if start_bytes else ""
    if tensor.data_location == _EXTERNAL:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        beside = (path.parent / str(entries.get("location", ""))).resolve()
        start = str(entries.get("offset", "0"))
        if beside.parent == path.parent.resolve() and start.isdecimal() and len(start) < _MAX_DIGITS:
            stored_in, start_bytes = str(beside), int(start)
    return Written(shape=shape, elem_type=tensor.data_type, stored_in=stored_in, start_bytes=start_bytes)


def _numbers(tensor: Any, shape: tuple[int, ...], label: str) -> tuple[Array, ...]:
    try:
        return (onnx_package("onnx.numpy_helper").to_array(tensor).reshape(shape),)
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        if not _has_data(tensor) and 0 not in shape:
            return ()  # its numbers were left out: a shape is all that most need
        line = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidInput(f"{label} of shape {list(shape)} holds numbers that do not fill it: {line[:120]}") from None


def _has_data(tensor: Any) -> bool:
    return any(
        len(getattr(tensor, field))
        for field in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data")
    )


def _fetched(tensor: Any, path: Path) -> Any:
    """A small tensor with what lies beside the file, or as it is where nothing does: weights need not be there."""
    if tensor.data_type in FLOATS and len(tensor.dims):
        return tensor
    whole = type(tensor)()
    whole.CopyFrom(tensor)
    try:
        onnx_package("onnx.external_data_helper").load_external_data_for_tensor(whole, str(path.parent))
    except (OSError, ValueError, RuntimeError, onnx_package("onnx.checker").ValidationError):
        return tensor
    whole.data_location = 0
    return whole


def constant_literal(proto: Any, path: Path) -> Written:
    """What a Constant node writes down, in whichever of its attributes."""
    given = {entry.name: entry for entry in proto.attribute}
    label = f"{path}: the constant {proto.output[0]!r}"
    if "value" in given:
        return tensor_literal(given["value"].t, path)
    for name, field, elem_type, kind in (
        ("value_int", "i", 7, np.int64), ("value_ints", "ints", 7, np.int64),
        ("value_float", "f", 1, np.float32), ("value_floats", "floats", 1, np.float32),
    ):  # fmt: skip
        if name in given:
            value = getattr(given[name], field)
            array = np.array(list(value) if field.endswith("s") else value, dtype=kind)
            known = (array,) if array.size <= MAX_KNOWN else ()
            return Written(shape=array.shape, elem_type=elem_type, known=known)
    if not given:
        raise InvalidInput(f"{label} has no value")
    raise NotModelled(f"{label} is given by {', '.join(sorted(given))}, which is not modelled; only numbers are")
