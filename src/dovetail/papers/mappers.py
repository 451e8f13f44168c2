"""Two ways to map products onto arrays: the one that WHAM and PHAZE likely had, and ours.

Neither paper says what its latencies assume of an array. Weights held still and a fill and drain that shows in every
pass is what SCALE-Sim's closed form counts, and the least that a simulator of arrays does; so both papers are judged by
it. Ours is what the catalogue's arrays do: weights or inputs held, whichever is faster, the next tile loaded meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dovetail.hardware.chip import Chip


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapper:
    """Which operands an array may hold still, and how often its fill and drain shows (`hardware.chip.Tiling`)."""

    name: str
    stationary: tuple[str, ...]
    fill: str

    def on(self, chip: Chip) -> Chip:
        """`chip` with its products mapped so; its silicon is the same."""
        tiling = replace(chip.tensor.tiling, stationary=self.stationary, fill=self.fill)
        return replace(chip, tensor=replace(chip.tensor, tiling=tiling))


PAPERS = Mapper(name="paper", stationary=("weight",), fill="whole")
OURS = Mapper(name="ours", stationary=("weight", "input"), fill="hidden")
