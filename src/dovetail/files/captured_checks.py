"""What holds of every part of a captured model, so that one from a file can do no more than be refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dovetail.errors import InvalidInput, did_you_mean
from dovetail.files.value_json import MAX_NUMBER
from dovetail.parallel.check import RULED
from dovetail.workload.graph import NUM_EXTENTS, Axis
from dovetail.workload.operators import code_of
from dovetail.workload.recorded.captured import KINDS, BlockOperator, Captured, Limit, Stretch
from dovetail.workload.recorded.sizes import MAX_POWER, Size
from dovetail.workload.shape_rules import MAX_LAYERS

MAX_COUNT = 10**15  # style: more parameters than any model has, and a product with a batch stays countable
MAX_POWERS = 2 * MAX_POWER  # of a product of two sides
BY_OPERATOR = ("vector", "activation", "exchange")  # kinds of part that stand for whichever operator they name
ALL_AXES = sum(Axis)


def _within(label: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise InvalidInput(f"must be from {least:,} to {most:,}; got {value:,}", label)


def _axes(label: str, values: Iterable[int]) -> None:
    for value in values:
        if value & ~ALL_AXES or value < 0:
            raise InvalidInput(f"there are no such axes: {value}", label)


def _size(size: Size) -> None:
    _within("count", size.count, 0, MAX_NUMBER)
    _within("per", size.per, 1, MAX_NUMBER)
    _within("num_batch", size.num_batch, -MAX_POWERS, MAX_POWERS)
    _within("num_seq", size.num_seq, -MAX_POWERS, MAX_POWERS)


def _part(part: BlockOperator) -> None:
    if part.kind not in KINDS:
        raise InvalidInput(f"there is no such kind of part{did_you_mean(part.kind[:100], KINDS)}", "kind")
    if part.kind in BY_OPERATOR:
        code_of(part.operator[:100])
    for kind in part.score_kinds:
        code_of(kind[:100])
    if len(part.extents) != NUM_EXTENTS:
        raise InvalidInput(f"a part has {NUM_EXTENTS} extents; got {len(part.extents)}", "extents")
    for size, _ in part.extents:
        _within("extents", size.count, 1, MAX_NUMBER)
    _axes("extents", (axes for _, axes in part.extents))
    _axes("weight_axes", (part.weight_axes,))
    for label in ("weight", "bias", "num_heads", "num_kv_heads", "window"):
        _within(label, getattr(part, label), 0, MAX_COUNT)
    _within("frozen", part.frozen, 0, part.weight)
    _within("frozen_bias", part.frozen_bias, 0, part.bias)
    for label in ("stride", "num_copies"):
        _within(label, getattr(part, label), 1, MAX_COUNT)
    for label in ("output_frac", "shared_frac"):
        _within(label, getattr(part, label), 0, MAX_COUNT)


def _stretch(stretch: Stretch) -> None:
    _within("repeat", stretch.repeat, 1, MAX_LAYERS)
    _axes("input_rows", (stretch.input_rows[1],))
    _axes("input_cols", (stretch.input_cols[1],))
    for place, part in enumerate(stretch.parts):
        if any(not 0 <= number <= place for number in part.inputs):
            raise InvalidInput("a part reads what comes before it", f"parts[{place}].inputs")


def _limit(limit: Limit) -> None:
    _within("size", limit.size.count, 1, MAX_NUMBER)
    _axes("axis", (limit.axis,))
    known = sorted(int(axis) for axis in RULED)
    if limit.axis not in known:
        raise InvalidInput(f"a limit is of one of the axes {', '.join(map(str, known))}; got {limit.axis}", "axis")


def _captured(captured: Captured) -> None:
    if not captured.name:
        raise InvalidInput("a model has a name", "name")
    if not captured.stretches:
        raise InvalidInput("a model has a stretch at least", "stretches")
    for label in ("batch", "seq", "num_kv_heads", "num_steps"):
        _within(label, getattr(captured, label), 1, MAX_COUNT)


CHECKS: dict[type, Callable[[Any], None]] = {
    Size: _size,
    BlockOperator: _part,
    Stretch: _stretch,
    Limit: _limit,
    Captured: _captured,
}
