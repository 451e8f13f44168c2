"""A study: one question put to one version of the model, and how far its answer is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dovetail.errors import InvalidInput
from dovetail.search.space import Point

HIDDEN_PREFIX = "_"  # begins the name of a figure that is kept to go on from, and not shown


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyRecord:
    """A study as a list shows it. `inputs` are all facts its numbers follow from, values by knob under "space"."""

    key: str
    kind: str
    model_version: str
    is_current: bool  # of the version that reads it: others are shown and never mixed with
    inputs: dict[str, Any]
    figure_names: tuple[str, ...]
    started: str
    written: str
    num_rows: int

    @property
    def knobs(self) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = self.inputs.get("space", {})
        return found

    @property
    def shown_figures(self) -> tuple[tuple[int, str], ...]:
        """(place, name) of the figures that are shown."""
        figures = enumerate(self.figure_names)
        return tuple((place, name) for place, name in figures if not name.startswith(HIDDEN_PREFIX))

    @property
    def num_points(self) -> int:
        return math.prod(len(values) for values in self.knobs.values())

    @property
    def job_names(self) -> tuple[str, ...]:
        """Models that are trained, where the study says."""
        return tuple(str(job["name"]) for job in self.jobs)

    @property
    def jobs(self) -> tuple[dict[str, Any], ...]:
        """The facts of each model that is trained."""
        return tuple(job for key in ("jobs", "cases") for job in self.inputs.get(key, ()))

    @property
    def limits(self) -> dict[str, float]:
        """What a design may take at the most, by name with its unit; those that are none left out."""
        stated = {**self.inputs.get("limits", {}), **self.inputs.get("budget", {})}
        return {name: limit for name, limit in stated.items() if limit < math.inf}

    def check(self, point: Point) -> None:
        """Raises where a row's point is none of this study's space: another program wrote it."""
        sizes = [len(values) for values in self.knobs.values()]
        if len(point) != len(sizes) or any(index >= size for index, size in zip(point, sizes, strict=True)):
            message = f"a row of study {self.key} is at a point that its space of {len(sizes)} knobs does not have"
            raise InvalidInput(f"{message}; put back a copy of the store, or start again with another file", "store")

    def values(self, point: Point) -> dict[str, Any]:
        """What each knob is set to."""
        self.check(point)
        return {name: values[index] for (name, values), index in zip(self.knobs.items(), point, strict=True)}
