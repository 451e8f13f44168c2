"""A PyTorch module as a recording: run on meta tensors, at a few sizes, with no weights and no device."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dovetail.errors import DovetailError, InvalidInput, NotModelled
from dovetail.importers.torch_library import torch_library
from dovetail.workload.recorded.record import Recorded, Recording

if TYPE_CHECKING:
    from dovetail.importers.torch_inputs import Inputs
    from dovetail.importers.torch_run import TorchRecording

BATCHES = (2, 3)  # one would hide what is broadcast; these two are rarely sizes of anything else


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchCapture:
    """A recorded module, and what was noticed.

    `results` are the tensors of the base recording whose sum training reduces. `batch` and `seq` are those of the
    example; `seq` is 1 where samples have no positions, or cannot have others. The flop are those of all products in
    one pass over the base recording's batch, as PyTorch ran them.
    """

    recorded: Recorded
    results: tuple[int, ...]
    notes: tuple[str, ...]
    batch: int
    seq: int
    forward_flop: int
    backward_flop: int


def recorded_module(model: Any, example_inputs: Any, *, name: str = "", seq_dim: int | None = None) -> Recorded:
    """What `captured_module` records, without its notes."""
    return captured_module(model, example_inputs, name=name, seq_dim=seq_dim).recorded


def captured_module(model: Any, example_inputs: Any, *, name: str = "", seq_dim: int | None = None) -> TorchCapture:
    """`model` recorded with two batches, and with two lengths of its samples where those have positions.

    Positions are dim 1 of all integer inputs, or `seq_dim`. The module is copied without its numbers and never run
    itself.
    """
    return begun_module(model, example_inputs, name=name, seq_dim=seq_dim).finished()


def begun_module(
    model: Any,
    example_inputs: Any,
    *,
    name: str = "",
    seq_dim: int | None = None,
    known: frozenset[str] = frozenset(),
    fixed: frozenset[str] = frozenset(),
) -> Begun:
    """`model` after its first recording; what it is kept under follows from that, and the others can be spared.

    `known` names inputs whose numbers decide what runs, `fixed` those whose sides do not follow the length.
    """
    runs, notes = _prepared(model, example_inputs, name, seq_dim, known, fixed)
    return Begun(runs, runs.base(), notes)


@dataclass(frozen=True, slots=True)
class Begun:
    """A module that was recorded once; its recordings at other sizes are still to come."""

    runs: _Runs
    base: TorchRecording
    notes: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Of all that the first recording shows: what ran, on which shapes, in which module, and what was noticed."""
        inputs, base = self.runs.inputs, self.base
        seen = (base.recording, base.results, base.notes, base.backward_flop, self.notes, inputs.batch, inputs.seq)
        return hashlib.sha256(repr(seen).encode("utf-8", "surrogatepass")).hexdigest()

    def finished(self) -> TorchCapture:
        runs, base, inputs = self.runs, self.base, self.runs.inputs
        other_seq, length, note = runs.other_seq(base)
        if not length:
            runs, base, (other_seq, length, note) = runs.shorter(base, note)
        recorded = Recorded(
            base=base.recording,
            other_batch=runs.other_batch(base),
            other_seq=other_seq,
            batch=BATCHES[0],
            second_batch=BATCHES[1],
            seq=runs.seq if length else 1,
            second_seq=length or 1,
            tool=f"torch {torch_library().__version__.partition('+')[0]}",
        )
        return TorchCapture(
            recorded=recorded,
            seq=inputs.seq if length else 1,
            results=base.results,
            notes=(*self.notes, *base.notes, *((note,) if note else ())),
            batch=inputs.batch,
            forward_flop=base.forward_flop,
            backward_flop=base.backward_flop,
        )


def _prepared(
    model: Any,
    example_inputs: Any,
    name: str,
    seq_dim: int | None,
    known: frozenset[str],
    fixed: frozenset[str],
) -> tuple[_Runs, tuple[str, ...]]:
    """A copy of the module to run, and notes on it."""
    torch = torch_library()
    from dovetail.importers.torch_copy import meta_copy, parameter_notes, settle, unwrapped, window_notes
    from dovetail.importers.torch_inputs import read_inputs
    from dovetail.importers.torch_run import quiet

    if not isinstance(model, torch.nn.Module):
        raise InvalidInput(f"a PyTorch module is an instance of torch.nn.Module; got {type(model).__name__}")
    model = unwrapped(model)
    called = name or type(model).__name__
    inputs = read_inputs(model, example_inputs, seq_dim, known=known, fixed=fixed)
    with quiet():
        copied = meta_copy(model)
    if not any(parameter.requires_grad for parameter in copied.parameters()):
        raise InvalidInput(f"{called} has no parameter that is trained, so there is no training to predict")
    masks = tuple(f"{mask} has no numbers and is taken to be of ones" for mask in inputs.assumed_masks())
    notes = parameter_notes(copied) + settle(copied) + masks + window_notes(copied, inputs.seq)
    return _Runs(copied, inputs, called, inputs.seq), notes


@dataclass(frozen=True, slots=True)
class _Runs:
    """The runs of one module."""

    model: Any
    inputs: Inputs
    name: str
    seq: int  # of the base recording

    def base(self) -> TorchRecording:
        batch = BATCHES[0]
        try:
            return self._run(batch=batch, seq=self.seq, backward=True)
        except NotModelled:
            raise
        except InvalidInput as error:
            if self.inputs.batch != batch:
                self._run(batch=self.inputs.batch, seq=self.seq, backward=True)  # or raises what is always wrong
                raise self._fixed_batch(self.inputs.batch, batch, error) from error
            raise

    def other_batch(self, base: TorchRecording) -> Recording:
        batch, second_batch = BATCHES
        try:
            other = self._run(batch=second_batch, seq=self.seq).recording
        except InvalidInput as error:
            raise self._fixed_batch(batch, second_batch, error) from error
        if difference := _difference(base.recording, other):
            raise InvalidInput(
                f"{self.name} runs other operators with a batch of {second_batch} than of {batch}: {difference}; "
                "a forward pass must not depend on the size of its input"
            )
        return other

    def other_seq(self, base: TorchRecording) -> tuple[Recording, int, str]:
        """At another length, that length and a note; the base recording and 0 where there is none."""
        from dovetail.importers.torch_inputs import other_lengths

        problem = ""
        for length in other_lengths(self.inputs, self.seq):
            try:
                other = self._run(batch=BATCHES[0], seq=length).recording
            except DovetailError as error:
                found = str(error)
            else:
                found = _difference(base.recording, other)
                if not found:
                    return other, length, ""
            problem = problem or f"at {length} positions: {found}"
        if self.inputs.seq == 1:
            return base.recording, 0, ""
        return base.recording, 0, f"samples stay at {self.inputs.seq} positions; {problem or 'too few to take fewer'}"

    def shorter(self, base: TorchRecording, note: str) -> tuple[_Runs, TorchRecording, tuple[Recording, int, str]]:
        """The same at about half of the length and less; as it was where that does not help.

        At its full length a mask is taken whole, and a slice of all of it is no operator; shorter ones are slices.
        """
        from dovetail.importers.torch_inputs import other_lengths

        for length in other_lengths(self.inputs, self.seq)[:1]:
            runs = replace(self, seq=length)
            try:
                found = runs.base()
            except DovetailError:
                continue
            other = runs.other_seq(found)
            if other[1]:
                return runs, found, other
        return self, base, (base.recording, 0, note)

    def _run(self, *, batch: int, seq: int, backward: bool = False) -> TorchRecording:
        from dovetail.importers.torch_run import run

        self.model.zero_grad(set_to_none=True)
        return run(self.model, self.inputs, self.name, batch=batch, seq=seq, backward=backward)

    def _fixed_batch(self, batch: int, other: int, error: InvalidInput) -> InvalidInput:
        return InvalidInput(
            f"{self.name} runs with a batch of {batch} but not of {other}: {error}; let the forward pass take its "
            "batch from its inputs"
        )


def _difference(base: Recording, other: Recording) -> str:
    """The first step in which two recordings differ, in words; nothing where they run the same operators."""
    for first, second in zip(base.steps, other.steps, strict=False):
        if first.word != second.word:
            return f"{first.op} becomes {second.op} in {first.where or 'the outermost module'}"
    if len(base.steps) != len(other.steps):
        return f"{len(base.steps)} operators become {len(other.steps)}"
    return ""
