"""A model as the catalogue knows it: how to build its graph, and what was published about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dovetail.workload.graph import Graph
from dovetail.workload.layers import Sample


class Architecture(Protocol):
    """Anything that can lay out its forward graph."""

    @property
    def name(self) -> str: ...

    def forward(self, sample: Sample) -> Graph: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A catalogue entry.

    `published_parameters` is the count its authors or its released weights give, 0 where none was published;
    `is_exact` says that the count is to the last parameter, otherwise it is rounded. `sample` says what one sample
    is: tokens or images or rows. `notes` say what was assumed or left out, one line each, for readers of an answer.
    """

    architecture: Architecture
    family: str
    seq: int  # positions of one sample unless the user sets it; 1 where a sample has no positions
    sample: str
    published_parameters: float
    source: str
    is_exact: bool = False
    batch: int = 1024  # samples of one step unless the user sets it: a round default, not a published one
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        assert self.published_parameters > 0 or not self.is_exact, f"{self.name}: an exact count of nothing"

    @property
    def name(self) -> str:
        return self.architecture.name

    def forward(self, sample: Sample) -> Graph:
        return self.architecture.forward(sample)
