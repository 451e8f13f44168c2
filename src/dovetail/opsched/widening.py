"""Parts of a graph by layers of states, forwards and backwards in time, in rounds of ever wider layers."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from dovetail.opsched.frontier import Explored, Layout, can_explore, explored, layout_of, merged
from dovetail.opsched.problem import CoreSchedule

WIDTHS = (64, 512, 4096, 16_384, 65_536, 262_144)  # states in a layer
LEAST_WIDER = 1.5  # times the last width, that a round must afford


@dataclass(slots=True)
class Purse:
    """States that may still be looked at, one way; two workers look both ways at once."""

    num_left: int
    num_workers: int


def is_close(found: Sequence[CoreSchedule], gap_frac: float) -> bool:
    """Whether all parts together are within the gap."""
    total = sum(part.makespan_beats for part in found)
    return total - sum(part.bound_beats for part in found) <= gap_frac * total


def widened(first: Sequence[CoreSchedule], gap_frac: float, purse: Purse) -> list[CoreSchedule]:
    """Every part's schedule, or a shorter one, and better bounds, until the gap or the end of the purse.

    Round by round, the parts with most to gain first. What is looked at is counted, so that answers repeat.
    """
    found = list(first)
    parts = [SubgraphSearch(part) for part in found]
    for width in WIDTHS:
        open_beats = [part.makespan_beats - part.bound_beats for part in found]
        for index in sorted(range(len(found)), key=lambda index: -open_beats[index]):
            if purse.num_left <= 0 or is_close(found, gap_frac):
                return found
            if found[index].gap_frac > gap_frac and can_explore(found[index].problem):
                found[index] = parts[index].improved(found[index], gap_frac, width, purse)
    return found


class SubgraphSearch:
    """One part: its tables both ways, made when first needed, and what the last round cost."""

    def __init__(self, part: CoreSchedule) -> None:
        self.problem = part.problem
        self.layouts: list[Layout] = []
        self.width = self.num_looked = 0

    def improved(self, best: CoreSchedule, gap_frac: float, width: int, purse: Purse) -> CoreSchedule:
        """`best` or better after layers of `width`, or of as much as the purse is likely to allow."""
        if not self.layouts:
            self.layouts = [layout_of(self.problem, is_back) for is_back in (False, True)]
        if self.num_looked * width > purse.num_left * self.width:  # at the last round's cost
            width = self.width * purse.num_left // self.num_looked
            if width < LEAST_WIDER * self.width:
                return best
        limit = best.makespan_beats - int(gap_frac * best.makespan_beats)
        most = purse.num_left

        def look(layout: Layout) -> Explored:
            return explored(layout, limit, width, most)

        if purse.num_workers > 1:
            with ThreadPoolExecutor(len(self.layouts)) as pool:
                answers = list(pool.map(look, self.layouts))
            self.num_looked = max(answer.num_looked for answer in answers)
        else:
            answers = [look(layout) for layout in self.layouts]
            self.num_looked = sum(answer.num_looked for answer in answers)
        self.width = width
        purse.num_left -= self.num_looked
        for answer in answers:
            best = merged(best, answer)
        return best
