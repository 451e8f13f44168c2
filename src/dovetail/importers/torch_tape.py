"""The record being made: which tensor of PyTorch is which value, and the steps between the values.

PyTorch writes in place; a recording does not. A tensor that is written to stands for a new value from then on, and so
do all others of the same memory: they are seen again as views of it when they are next read.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import torch

from dovetail.importers.torch_failures import foreign_parameter, unknown_dtype
from dovetail.importers.torch_operators import Reading
from dovetail.workload.recorded.record import Attribute, Source, Step, Tensor

DTYPES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16", torch.bool: "bool"} | {
    getattr(torch, name): "int"
    for name in ("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64")
    if hasattr(torch, name)
}
COMPLEX = torch.complex64  # as two floats side by side, in a dim of its own after the last
TRANSPOSES = ("aten::t", "aten::transpose")


@dataclass(slots=True)
class _Memory:
    """One storage: the value of all of it, and how often it was written to."""

    root: int
    num_elements: int
    version: int = 0


class Tape:
    """Tensors and steps so far. All tensors met are kept until the end, so that no identity is used twice."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self.steps: list[Step] = []
        self.in_place: Counter[str] = Counter()
        self.moves: Counter[str] = Counter()  # between devices
        self.where = ""
        self._objects: list[torch.Tensor | None] = []  # of each value, where PyTorch has one
        self._values: dict[int, tuple[int, int]] = {}
        self._storages: dict[int, _Memory] = {}
        self._turned: dict[int, int] = {}  # the transpose of a parameter -> the parameter
        self._detached: dict[int, tuple[torch.Tensor, int, str]] = {}  # not yet read
        self._twins: dict[int, torch.Tensor] = {}  # a tensor with numbers -> the same on meta
        self._kept: list[torch.Tensor] = []  # those with numbers

    def name_tensor(self, tensor: torch.Tensor, source: Source, name: str) -> None:
        """Takes in a tensor that no step makes."""
        self._bind(tensor, self._new(tensor, source, name))

    def number(self, tensor: torch.Tensor) -> int:
        """The value that a tensor stands for now."""
        if not tensor.is_meta:
            tensor = self._on_meta(tensor)
        if id(tensor) in self._detached:
            self._write_detached(tensor)
        entry = self._values.get(id(tensor))
        if entry is None:
            return self._stranger(tensor)
        value, version = entry
        memory = self._storages[_storage(tensor)]
        if version == memory.version:
            return value
        seen = self._new(tensor, Source.STEP, "")
        self._step("view", (memory.root,), (seen,), "aten::view", ())
        self._values[id(tensor)] = (seen, memory.version)
        return seen

    def has(self, tensor: torch.Tensor) -> bool:
        return id(tensor) in self._values

    def weight(self, tensor: torch.Tensor) -> tuple[int, bool]:
        """The parameter that a tensor is or is the transpose of, and whether it is turned; -1 for neither."""
        number = self.number(tensor)
        if self._is_weight(number):
            return number, False
        return self._turned.get(number, -1), True

    def write_step(self, reading: Reading, outputs: list[torch.Tensor], op: str) -> None:
        """A step whose outputs are new tensors, or views of old ones.

        Autograd detaches much that is never read, so such a step is written when its result is read.
        """
        if op == "aten::detach":
            [tensor] = outputs
            self._detached[id(tensor)] = (tensor, reading.inputs[0], self.where)
            return
        numbers = tuple(self._new(tensor, Source.STEP, "", op) for tensor in outputs)
        self._write(reading, numbers, op)
        for tensor, number in zip(outputs, numbers, strict=True):
            self._bind(tensor, number)
        if op in TRANSPOSES and len(outputs[0].shape) == 2 and self._is_weight(reading.inputs[0]):
            self._turned[numbers[0]] = reading.inputs[0]

    def write_over(self, reading: Reading, target: torch.Tensor, op: str) -> None:
        """A step that PyTorch lets write into `target`: a new value for it and for all of its memory."""
        self.number(target)
        memory = self._storages[_storage(target)]
        if reading.word == "view":  # squeeze_ and its like change how a tensor is seen, not its memory
            self.write_step(reading, [target], op)
            return
        if self.tensors[memory.root].dtype != "int":  # a counter of batches is nothing to speak of
            self.in_place[op.removeprefix("aten::")] += 1
        number = self._new(target, Source.STEP, "")
        if target.numel() == memory.num_elements:
            self._write(reading, (number,), op)
            memory.root = number
        elif op == "aten::copy_":
            memory.root = self._written_into(memory.root, reading.inputs[-1], op)
            self._step("view", (memory.root,), (number,), "aten::view", ())
        else:
            self._write(reading, (number,), op)
            memory.root = self._written_into(memory.root, number, op)
        memory.version += 1
        self._values[id(target)] = (number, memory.version)

    def made_of_nothing(self, tensor: torch.Tensor, op: str) -> None:
        """Takes in what the host handed over."""
        self.write_step(Reading(word="constant", inputs=()), [tensor], op)

    def all_on_meta(self, arguments: Any) -> Any:
        """The same arguments, with every tensor that has numbers replaced by one that has none."""
        if isinstance(arguments, torch.Tensor):
            return arguments if arguments.is_meta else self._on_meta(arguments)
        if isinstance(arguments, dict):
            return {name: self.all_on_meta(value) for name, value in arguments.items()}
        if isinstance(arguments, list | tuple):
            return type(arguments)([self.all_on_meta(value) for value in arguments])
        return arguments

    def finish(self) -> None:
        """Marks the steps that gradients do not pass: an input has one, and no output does."""
        graded: list[bool] = [held is not None and held.requires_grad for held in self._objects]
        for place, step in enumerate(self.steps):
            has_gradient = any(graded[number] for number in step.inputs)
            for number in step.outputs:
                if self._objects[number] is None:
                    graded[number] = has_gradient
            if has_gradient and not any(graded[number] for number in step.outputs):
                self.steps[place] = replace(step, attributes=(*step.attributes, ("no_grad", True)))

    def _write(self, reading: Reading, outputs: tuple[int, ...], op: str) -> None:
        if reading.is_column:
            left, right = reading.inputs
            column, between = (
                self._between(number, (*self.tensors[number].shape, 1)) for number in (right, outputs[0])
            )
            self._step("view", (right,), (column,), op, ())
            self._step(reading.word, (left, column), (between,), op, reading.attributes)
            self._step("view", (between,), outputs, op, ())
            return
        if reading.added < 0:
            self._step(reading.word, reading.inputs, outputs, op, reading.attributes)
            return
        between = self._between(outputs[0])
        self._step(reading.word, reading.inputs, (between,), op, reading.attributes)
        self._step("add", (reading.added, between), outputs, op, ())

    def _written_into(self, whole: int, part: int, op: str) -> int:
        made = self._between(whole)
        self._step("copy", (whole, part), (made,), op, (("write", True),))
        return made

    def _between(self, like: int, shape: tuple[int, ...] | None = None) -> int:
        """A value for which PyTorch has no tensor."""
        found = self.tensors[like]
        self.tensors.append(Tensor(shape=found.shape if shape is None else shape, dtype=found.dtype))
        self._objects.append(None)
        return len(self.tensors) - 1

    def _step(
        self,
        word: str,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
        op: str,
        attributes: tuple[tuple[str, Attribute], ...],
    ) -> None:
        self.steps.append(
            Step(word=word, inputs=inputs, outputs=outputs, op=op, where=self.where, attributes=attributes)
        )

    def _new(self, tensor: torch.Tensor, source: Source, name: str, op: str = "") -> int:
        dtype, shape = DTYPES.get(tensor.dtype), tuple(tensor.shape)
        if tensor.dtype == COMPLEX and source not in (Source.PARAMETER, Source.FROZEN):
            dtype, shape = "fp32", (*shape, 2)
        if dtype is None:
            raise unknown_dtype(tensor, name or f"what {op or 'the module'} makes", self.where)
        self.tensors.append(Tensor(shape=shape, dtype=dtype, source=source, name=name))
        self._objects.append(tensor)
        return len(self.tensors) - 1

    def _bind(self, tensor: torch.Tensor, number: int) -> None:
        memory = self._storages.setdefault(_storage(tensor), _Memory(number, tensor.numel()))
        self._values[id(tensor)] = (number, memory.version)

    def _write_detached(self, tensor: torch.Tensor) -> None:
        """Of what its memory holds now, which is what a reader of it sees."""
        _tensor, source, where = self._detached.pop(id(tensor))
        memory = self._storages[_storage(tensor)]
        current = source if memory.version == 0 else memory.root
        number = self._new(tensor, Source.STEP, "")
        self.steps.append(Step(word="view", inputs=(current,), outputs=(number,), op="aten::detach", where=where))
        self._bind(tensor, number)

    def _is_weight(self, number: int) -> bool:
        """Trained or frozen."""
        tensor = self.tensors[number]
        return tensor.source in (Source.PARAMETER, Source.FROZEN, Source.CONSTANT) and bool(tensor.name)

    def _stranger(self, tensor: torch.Tensor) -> int:
        """The value of a tensor that was made before the forward pass ran, and is held by something else."""
        number = self._new(tensor, Source.CONSTANT, "")
        self._bind(tensor, number)
        return number

    def _on_meta(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.requires_grad:
            raise foreign_parameter(tensor, self.where)
        if id(tensor) not in self._twins:
            twin = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
            self._twins[id(tensor)] = twin
            self._stranger(twin)
            self._kept.append(tensor)
        return self._twins[id(tensor)]


def tensors_of(values: Any) -> list[torch.Tensor]:
    """The tensors among some arguments or results, and in lists among those."""
    found: list[torch.Tensor] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += tensors_of(value)
    return found


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
