"""An ONNX file as its graph: nodes in the order in which they can run, and no weight read."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

from dovetail.errors import InvalidInput, NotModelled
from dovetail.files.protobuf import WireError
from dovetail.importers.onnx_package import onnx_package
from dovetail.importers.onnx_slim import slim
from dovetail.units import MEBI

OLDEST_OPSET = 11  # before, operators took as attributes what they now take as inputs
MAX_NODES = 500_000  # the largest files in use have some 50,000: a transformer of 96 layers, every shape computed
MAX_GRAPH_BYTES = 256 * int(MEBI)  # without weights; a node takes some 200 bytes
_ARCHIVES = {b"PK": "a zip archive", b"\x1f\x8b": "a gzip archive", b"BZh": "a bzip2 archive"}


def onnx_model(path: Path) -> tuple[Any, dict[str, int]]:
    """The ModelProto of `path` without the numbers of large tensors, functions written out, and where those begin."""
    onnx = onnx_package()
    model = onnx.ModelProto()
    try:
        slimmed, starts = _slim_bytes(path)
        model.ParseFromString(slimmed)
    except WireError as error:
        raise InvalidInput(f"{path} is no ONNX file, or was cut off: {error}") from None
    except Exception as error:  # protobuf's own DecodeError, whose module differs between its implementations
        if type(error).__name__ != "DecodeError":
            raise
        raise InvalidInput(f"{path} is no ONNX file, or was cut off: its bytes are no ModelProto") from None
    if not model.HasField("graph") or not model.graph.node:
        raise InvalidInput(f"{path} holds no graph of operators, so it is no ONNX model")
    _check_opsets(model, path)
    return (_inlined(model, path) if model.functions else model), starts


def _slim_bytes(path: Path) -> tuple[bytes, dict[str, int]]:
    try:
        with path.open("rb") as file:
            head = file.read(4)
            if not head:
                raise InvalidInput(f"{path} is empty; an ONNX file was expected")
            for magic, what in _ARCHIVES.items():
                if head.startswith(magic):
                    raise InvalidInput(f"{path} is {what}, not an ONNX file; unpack it first")
            # Not closed by hand: an error in it still holds views of the bytes.
            slimmed, starts = slim(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)))
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}") from None
    if len(slimmed) > MAX_GRAPH_BYTES:
        raise InvalidInput(
            f"{path} holds {len(slimmed) // int(MEBI):,} MiB besides its weights; the most that is read is "
            f"{MAX_GRAPH_BYTES // int(MEBI)} MiB"
        )
    return slimmed, starts


def _check_opsets(model: Any, path: Path) -> None:
    newest = onnx_package("onnx.defs").onnx_opset_version()
    if not all(isinstance(entry.domain, str) for entry in model.opset_import):
        raise InvalidInput(f"{path}: the name of a set of operators is not UTF-8 text")
    versions = {entry.domain: entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")}
    if not versions:
        raise InvalidInput(f"{path} names no opset of ONNX's own operators, so what they mean is not known")
    version = min(versions.values())
    if version < OLDEST_OPSET:
        raise NotModelled(
            f"{path} is of opset {version}, and {OLDEST_OPSET} is the oldest that is read; "
            "raise it with onnx.version_converter.convert_version"
        )
    if max(versions.values()) > newest:
        raise InvalidInput(
            f"{path} is of opset {max(versions.values())}, and the installed onnx knows up to {newest}; "
            "install a newer onnx, or export with a lower opset_version"
        )


def _inlined(model: Any, path: Path) -> Any:
    """The model with the functions it defines written out at their calls."""
    calls = {
        (function.domain, function.name): [(node.domain, node.op_type) for node in function.node]
        for function in model.functions
    }
    counts: dict[tuple[str, str], int] = {}
    num_nodes = sum(
        _num_written_out(key, calls, counts, path) for key in ((n.domain, n.op_type) for n in model.graph.node)
    )
    if num_nodes > MAX_NODES:
        raise InvalidInput(f"{path} has {num_nodes:,} nodes with its functions written out; at most {MAX_NODES:,}")
    try:
        return onnx_package("onnx.inliner").inline_local_functions(model)
    except Exception as error:  # onnx raises several kinds from C++ without a common base
        raise InvalidInput(f"the functions of {path} cannot be written out: {one_line(error)}") from None


def _num_written_out(
    key: tuple[str, str], calls: dict[tuple[str, str], list[tuple[str, str]]], counts: dict[tuple[str, str], int],
    path: Path,
) -> int:  # fmt: skip
    """How many nodes a call of `key` comes to; a loop rather than recursion, since files may nest as they like."""
    stack = [key]
    open_keys: set[tuple[str, str]] = set()
    while stack:
        here = stack[-1]
        if here in counts or here not in calls:
            counts.setdefault(here, 1)
            stack.pop()
            continue
        missing = [inner for inner in calls[here] if inner not in counts]
        if not missing:
            counts[here] = min(sum(counts[inner] for inner in calls[here]), 10 * MAX_NODES)
            open_keys.discard(here)
            stack.pop()
        elif here in open_keys and any(inner in open_keys for inner in missing):
            raise InvalidInput(f"{path}: the function {here[1]} calls itself")
        else:
            open_keys.add(here)
            stack += dict.fromkeys(missing)
    return counts[key]


def one_line(error: Exception) -> str:
    """The first line of another tool's message, without the tag in brackets that onnx puts before it."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].rpartition("] ")[2][:200]
