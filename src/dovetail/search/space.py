"""The space that a search walks: knobs with values in order, and points that take one of each."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import numpy as np

from dovetail.errors import InvalidInput
from dovetail.workload.graph import FloatArray

Point = tuple[int, ...]  # of each knob, which of its values


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """Something to choose, and what it may be, from small to large and not below `least`."""

    name: str
    values: tuple[float, ...]
    least: float = 1.0

    def __post_init__(self) -> None:
        if not self.values:
            raise InvalidInput(f"{self.name} needs at least one value to choose from; got none", self.name)
        if min(self.values) < self.least or list(self.values) != sorted(set(self.values)):
            got = ", ".join(map(str, self.values))
            message = f"values of {self.name} must rise from at least {self.least:g}, each once"
            raise InvalidInput(f"{message}; got {got}", self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """All combinations of the values of some knobs."""

    knobs: tuple[Knob, ...]

    @property
    def num_points(self) -> int:
        return math.prod(len(knob.values) for knob in self.knobs)

    def points(self) -> Iterator[Point]:
        """Every one of them, the last knob turning fastest."""
        return itertools.product(*(range(len(knob.values)) for knob in self.knobs))

    def values(self, point: Point) -> tuple[float, ...]:
        return tuple(knob.values[index] for knob, index in zip(self.knobs, point, strict=True))

    def sample(self, rng: Random) -> Point:
        return tuple(rng.randrange(len(knob.values)) for knob in self.knobs)

    def near(self, point: Point, rng: Random) -> Point:
        """A neighbour: one knob, of those that can be turned, a step up or down."""
        turnable = [place for place, knob in enumerate(self.knobs) if len(knob.values) > 1]
        if not turnable:
            return point
        place = rng.choice(turnable)
        last = len(self.knobs[place].values) - 1
        step = rng.choice((-1, 1))
        turned = point[place] + (step if 0 <= point[place] + step <= last else -step)
        return (*point[:place], turned, *point[place + 1 :])

    def features(self, points: list[Point]) -> FloatArray:
        """Points by knobs as numbers from 0 to 1: how far up its values each is, in octaves above 1."""
        columns = []
        for place, knob in enumerate(self.knobs):
            octaves = np.log2(np.maximum(1.0, np.array(knob.values, dtype=np.float64)))
            span = octaves[-1] - octaves[0]
            scale = (octaves - octaves[0]) / span if span else octaves * 0.0
            columns.append(scale[[point[place] for point in points]])
        return np.stack(columns, axis=1)
