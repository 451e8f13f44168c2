"""Traces as PyTorch's profiler and Chakra's converter write them, of few events, for tests."""

from __future__ import annotations

import json
from typing import Any

from dovetail.files.protobuf import bytes_field, delimited, number_field

BF16 = "c10::BFloat16"


def op(
    name: str, begin: float, took: float, number: int, *dims: list[int], tid: int = 1, **more: Any
) -> dict[str, Any]:
    """A call of an operator, in microseconds; its tensors are of bf16."""
    args: dict[str, Any] = {"External id": number}
    if dims:
        args |= {"Input Dims": [list(one) for one in dims], "Input type": [BF16] * len(dims)}
    args |= {key.replace("_", " "): value for key, value in more.items()}
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 9, "tid": tid, "ts": begin, "dur": took, "args": args}


def kernel(name: str, took: float, number: int, begin: float = 0.0, cat: str = "kernel", **more: Any) -> dict[str, Any]:
    args = {"External id": number, "device": 0, "stream": 7, "correlation": 1000 + number}
    args |= {key.replace("_", " "): value for key, value in more.items()}
    return {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": 7, "ts": begin, "dur": took, "args": args}


def trace(*events: dict[str, Any], device: str = "NVIDIA H200", **members: Any) -> str:
    properties = [{"id": 0, "name": device}] if device else []
    whole = {"schemaVersion": 1, "deviceProperties": properties, **members, "traceEvents": list(events)}
    return json.dumps(whole)


def backward(begin: float, took: float, number: int, of: str = "MmBackward0") -> dict[str, Any]:
    """What autograd runs on its way back."""
    name = f"autograd::engine::evaluate_function: {of}"
    return op(name, begin, took, number, Sequence_number=5, Fwd_thread_id=1)


def chakra_node(
    number: int, name: str, *, caller: int = -1, took: int = 0, is_cpu: bool = True, kind: int = 4, shapes: str = "",
    types: str = "", attributes: bytes = b"",
) -> bytes:  # fmt: skip
    """A node of a .et file; `kind` 4 computes and 7 is a collective."""
    body = number_field(1, number) + bytes_field(2, name.encode()) + number_field(3, kind)
    if caller >= 0:
        body += number_field(4, caller)
    if took:
        body += number_field(7, took)
    if shapes:
        body += bytes_field(8, bytes_field(2, shapes.encode()) + bytes_field(3, types.encode()))
    on_host = bytes_field(1, b"is_cpu_op") + number_field(27, int(is_cpu))
    return delimited(body + bytes_field(10, on_host) + attributes)


def chakra(*nodes: bytes) -> bytes:
    return delimited(bytes_field(1, b"0.0.4")) + b"".join(nodes)
