"""The fewest devices a pipeline needs at a given pace: the recurrence in full, for chains where reaching is not exact.

    fewest[start][s] = min over end of fewest[end][s - 1] + devices of the stage [start, end), where it runs

That is the recurrence dp[layers][devices][stages] of PHAZE turned about: it keeps devices and not the pace, so that no
axis is as long as the cluster is large.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dovetail.search.planners.placement.chain import Bools, Chain, Ints

NONE = np.iinfo(np.int64).max // 4  # more devices than any cluster has; four of them still add up


class Fewest:
    """A chain as matrices over all stages [start, end), rows by start."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self._start, self._end = np.indices((chain.num_layers, chain.num_layers + 1))
        self._is_stage = self._start < self._end
        self._devices = np.where(self._is_stage, chain.stage_devices(self._start, self._end), NONE)

    def stages(self, pace_s: float, position: int) -> Bools:
        """Which stages run at this pace in this place, counted from the end."""
        at = np.full((), position)
        return self._is_stage & self.chain.runs(self._start, self._end, at, np.full((), pace_s))

    def by_first_end(self, pace_s: float, max_stages: int) -> Iterator[tuple[int, Ints]]:
        """For 1, 2, ... stages: the fewest devices in all, by where the first stage ends."""
        behind = np.full(self.chain.num_layers + 1, NONE)
        behind[-1] = 0
        for position in range(1, max_stages + 1):
            needed = np.where(self.stages(pace_s, position), self._devices + behind, NONE)
            yield position, needed[0]
            behind = np.append(needed.min(axis=1), NONE)
            if behind.min() >= NONE:
                return

    def ends(self, pace_s: float, num_stages: int, first_end: int) -> list[int]:
        """The ends of stages, first to last, of the pipeline with the fewest devices whose first ends there."""
        rows = [np.full(self.chain.num_layers + 1, NONE)]
        rows[0][-1] = 0
        for position in range(1, num_stages):
            needed = np.where(self.stages(pace_s, position), self._devices + rows[-1], NONE)
            rows.append(np.append(needed.min(axis=1), NONE))
        found = [first_end]
        for position in range(num_stages - 1, 0, -1):
            needed = np.where(self.stages(pace_s, position), self._devices + rows[position - 1], NONE)
            found.append(int(np.argmin(needed[found[-1]])))
        return found
