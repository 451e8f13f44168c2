"""What tests of ONNX files ask of a recording."""

from __future__ import annotations

from collections import Counter
from math import prod
from pathlib import Path

import pytest

pytest.importorskip("onnx")


from dovetail.importers.onnx_model import recorded_onnx
from dovetail.workload.recorded.record import Recorded, Recording, Source
from dovetail.workload.recorded.words import DTYPES, LABELS
from tests.capture.onnx_files import File


def words(recording: Recording) -> Counter[str]:
    return Counter(step.word for step in recording.steps)


def num_parameters(recording: Recording) -> int:
    return sum(tensor.num_elements for tensor in recording.tensors if tensor.source is Source.PARAMETER)


def parameters(recording: Recording) -> dict[str, tuple[int, ...]]:
    return {tensor.name: tensor.shape for tensor in recording.tensors if tensor.source is Source.PARAMETER}


def product_flop(recording: Recording) -> int:
    """Twice the multiplications of every product, from shapes alone."""
    total = 0
    for step in recording.steps:
        if step.word in ("linear", "matmul"):
            left, out = (recording.tensors[number].shape for number in (step.inputs[0], step.outputs[0]))
            total += 2 * prod(out) * left[-1]
        if step.word == "convolution":
            weight, out = (recording.tensors[number].shape for number in (step.inputs[1], step.outputs[0]))
            total += 2 * prod(out) * prod(weight[1:])
    return total


def assert_well_formed(recorded: Recorded) -> None:
    """What a reader may count on: the same steps at all sizes, words and dtypes that exist, values made before use."""
    base = recorded.base
    for other in (recorded.other_batch, recorded.other_seq):
        assert [(step.word, step.inputs, step.outputs) for step in other.steps] == [
            (step.word, step.inputs, step.outputs) for step in base.steps
        ]
        assert num_parameters(other) == num_parameters(base)
    made: set[int] = set()
    for step in base.steps:
        assert step.word in LABELS
        assert all(base.tensors[number].source is not Source.STEP or number in made for number in step.inputs), step
        assert not made & set(step.outputs)
        made.update(step.outputs)
    assert {tensor.dtype for tensor in base.tensors} <= set(DTYPES)
    for step in base.steps:
        if step.word == "view" and len(step.outputs) == 1 and step.op in ("Reshape", "Transpose", "Flatten"):
            before, after = (base.tensors[number].num_elements for number in (step.inputs[0], step.outputs[0]))
            assert before == after


def recorded_file(file: File, path: Path, *outputs: str, seq: int = 0) -> Recorded:
    recorded = recorded_onnx(file.save(path, *outputs), seq=seq)
    assert_well_formed(recorded)
    return recorded
