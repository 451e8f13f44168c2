"""What is fuzzed: a file here for each kind of input, with the valid ones to begin from; saving one is all it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.fuzz.case import Seed
from dovetail.registry import Registry

Seeds = Callable[[Path], tuple[Seed, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A kind of input. `seeds` makes valid ones, in a folder of its own where it needs one; `needs` are modules that
    commands import late, and that are not worth importing for every case.
    """

    name: str
    reads: str
    seeds: Seeds
    needs: tuple[str, ...] = ()


inputs: Registry[Input] = Registry("input to fuzz", __name__)


def add(name: str, reads: str, needs: tuple[str, ...] = ()) -> Callable[[Seeds], Seeds]:
    """Registers seeds as an input."""

    def remember(seeds: Seeds) -> Seeds:
        inputs.register(name)(Input(name=name, reads=reads, seeds=seeds, needs=needs))
        return seeds

    return remember
