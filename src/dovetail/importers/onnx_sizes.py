"""Which dims of an ONNX file's inputs are the batch and which are positions, and the same file at other sizes.

A dim given by a word is free. The word that says "batch", or else the one of the first dim, is the batch; other words
of inputs of up to three dims are positions; words of larger inputs are sides of pictures and stay as requested.
A file without words is frozen at the sizes of its export: its first dims are the batch, the second ones of inputs of
whole numbers positions, and Reshape and Expand nodes hold both as constants, which are replaced where they must be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from dovetail.errors import InvalidInput
from dovetail.importers.onnx_graph import Input, OnnxGraph
from dovetail.importers.onnx_literals import FLOATS, checked_shape

DEFAULT_BATCH = 2  # of a file that leaves it open: what is learnt of a model does not depend on it
_BATCH_WORDS = ("n", "b", "bs")
_SIDES_RANK = 4  # inputs with as many dims are pictures
_INTEGERS_RANK = 2

Place = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """Where batch and positions stand: (input, dim). `batch` and `seq` are what the file was frozen at, or 0."""

    batch_at: frozenset[Place]
    seq_at: frozenset[Place]
    sides_at: frozenset[Place]
    batch: int
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """A size that the file holds as a constant, and the requested one."""

    written: int
    requested: int
    is_batch: bool


def axes_of(graph: OnnxGraph) -> Axes:
    words = {(entry.name, place): dim for entry in graph.inputs for place, dim in _words(entry)}
    _refuse_caches(graph, words)
    batch_word = _batch_word(graph, words)
    sides = {(entry.name, place) for entry in graph.inputs for place, _ in _words(entry) if _is_picture(entry)}
    batch_at = {place for place, word in words.items() if word == batch_word}
    seq_at = {place for place in words if place not in batch_at and place not in sides}
    batch = seq = 0
    if not batch_word:
        batch, batch_at = _frozen_batch(graph)
    if not seq_at:
        seq, seq_at = _frozen_seq(graph)
    return Axes(
        batch_at=frozenset(batch_at), seq_at=frozenset(seq_at), sides_at=frozenset(sides - batch_at),
        batch=batch, seq=seq,
    )  # fmt: skip


def input_shapes(graph: OnnxGraph, axes: Axes, batch: int, seq: int) -> Mapping[str, tuple[int, ...]]:
    """The shape of every input at `batch` samples of `seq` positions."""
    shapes = {}
    for entry in graph.inputs:
        shape = []
        for place, dim in enumerate(entry.dims):
            at = (entry.name, place)
            if at in axes.batch_at:
                shape.append(batch)
            elif at in axes.seq_at or at in axes.sides_at:
                shape.append(seq)
            else:
                assert isinstance(dim, int), (entry, place)
                shape.append(dim)
        shapes[entry.name] = checked_shape(tuple(shape), f"{graph.path}: the input {entry.name!r}")
    return shapes


def requested_batch_and_seq(graph: OnnxGraph, axes: Axes, batch: int, seq: int) -> tuple[int, int]:
    """(batch, seq) of the recording, with what was not requested filled in."""
    for name, requested in (("batch", batch), ("seq", seq)):
        if requested < 0:
            raise InvalidInput(f"{name} must be at least 1; got {requested}")
    open_at = sorted(axes.seq_at | axes.sides_at)
    if open_at and not axes.seq and not seq:
        name, place = open_at[0]
        word = next(entry.dims[place] for entry in graph.inputs if entry.name == name)
        raise InvalidInput(
            f"{graph.path} leaves dim {place} of its input {name!r} open ({word}); set its size with seq"
        )
    if seq and not open_at:
        raise InvalidInput(f"{graph.path} has no positions whose number could be set; leave seq={seq} out")
    return batch or axes.batch or DEFAULT_BATCH, seq or axes.seq or 1


def frozen_sizes(axes: Axes, batch: int, seq: int) -> tuple[Frozen, ...]:
    """The constants that stand in the way of these sizes."""
    found = []
    if axes.batch and axes.batch != batch:
        found.append(Frozen(written=axes.batch, requested=batch, is_batch=True))
    if axes.seq and axes.seq != seq:
        found.append(Frozen(written=axes.seq, requested=seq, is_batch=False))
    return tuple(found)


def refitted(target: tuple[int, ...], given: tuple[int, ...], frozen: tuple[Frozen, ...]) -> tuple[int, ...]:
    """The target of a Reshape of `given` with frozen sizes replaced where it does not fit otherwise.

    A target with a free entry always fits; if it begins with the frozen batch, the batch is what stands there.
    """
    if 0 in target or (-1 not in target and prod(target) == prod(given)):
        return target
    for size in frozen:
        for candidate in _candidates(target, size):
            fixed = prod(entry for entry in candidate if entry != -1)
            if fixed == prod(given) or (-1 in target and fixed and prod(given) % fixed == 0):
                return candidate
    return target


def _candidates(target: tuple[int, ...], size: Frozen) -> list[tuple[int, ...]]:
    """The target with the size where it may stand: by itself first, then as a factor."""

    def at(place: int) -> tuple[int, ...]:
        return (*target[:place], target[place] // size.written * size.requested, *target[place + 1 :])

    alone = [place for place, entry in enumerate(target) if entry == size.written]
    if -1 in target:
        return [at(place) for place in alone if place == 0 or not size.is_batch]
    everywhere = tuple(size.requested if entry == size.written else entry for entry in target)
    factors = [place for place, entry in enumerate(target) if entry % size.written == 0]
    single = [at(place) for place in (*alone, *factors)]
    return [*single, everywhere] if size.is_batch else [everywhere, *single]


def _words(entry: Input) -> list[tuple[int, str]]:
    return [(place, dim) for place, dim in enumerate(entry.dims) if isinstance(dim, str)]


def _is_picture(entry: Input) -> bool:
    return len(entry.dims) >= _SIDES_RANK


def _refuse_caches(graph: OnnxGraph, words: Mapping[Place, str]) -> None:
    for (name, _), word in words.items():
        if "past" in word.casefold():
            raise InvalidInput(
                f"{graph.path}: the input {name!r} holds earlier positions ({word}), which training has none of; "
                "export the model without a cache"
            )


def _batch_word(graph: OnnxGraph, words: Mapping[Place, str]) -> str:
    for word in words.values():
        if "batch" in word.casefold() or word.casefold() in _BATCH_WORDS:
            return word
    return next((words[entry.name, 0] for entry in graph.inputs if (entry.name, 0) in words), "")


def _frozen_batch(graph: OnnxGraph) -> tuple[int, set[Place]]:
    for entry in graph.inputs:
        if entry.dims and isinstance(entry.dims[0], int):
            size = entry.dims[0]
            return size, {(other.name, 0) for other in graph.inputs if other.dims and other.dims[0] == size}
    raise InvalidInput(f"{graph.path} has no input with a dim, so it has no batch that a step could be made of")


def _frozen_seq(graph: OnnxGraph) -> tuple[int, set[Place]]:
    indices = [
        entry for entry in graph.inputs if len(entry.dims) == _INTEGERS_RANK and entry.elem_type not in FLOATS
    ]  # fmt: skip
    if not indices or not isinstance(indices[0].dims[1], int):
        return 0, set()
    size = indices[0].dims[1]
    return size, {(entry.name, 1) for entry in indices if entry.dims[1] == size}
