"""What is read of an ONNX model besides its file: numbers in files beside it, where exporters put large tensors."""

from __future__ import annotations

import hashlib
import mmap
from pathlib import Path

from dovetail.importers.onnx_graph import onnx_graph
from dovetail.importers.onnx_roles import trained
from dovetail.importers.onnx_shared import shared_weights

PLACE_KEY = b"location"  # of TensorProto.external_data in onnx.proto: no tensor lies beside a file without the word


def digest_beside(path: Path) -> str:
    """A hash of all numbers that a capture reads from files beside `path`; empty where nothing lies there.

    Those are of small tensors, from which shapes may follow, and a few of weights, which tell those that are shared:
    what these say goes into the hash, so that gigabytes of weights need not.
    """
    if not _has_word(path):
        return ""
    graph = onnx_graph(path)
    digest = hashlib.sha256()
    for name, literal in sorted(graph.literals.items()):
        known = literal.known[0] if literal.known else None
        digest.update(f"{name}\0{literal.shape}\0{literal.elem_type}\0".encode("utf-8", "surrogatepass"))
        digest.update(b"" if known is None else f"{known.dtype}\0".encode() + known.tobytes())
    digest.update(repr(sorted(shared_weights(graph, trained(graph)).items())).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _has_word(path: Path) -> bool:
    with path.open("rb") as file:
        if not file.read(1):
            return False
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(PLACE_KEY) >= 0
