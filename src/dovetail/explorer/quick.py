"""Figures while a hand is on a slider: what is read once is kept, and what limits comes after what takes no time."""

from __future__ import annotations

from dataclasses import replace

from dovetail.errors import DovetailError
from dovetail.explorer.answers import Prepared, prepared, result_of, unchanged
from dovetail.explorer.figures import LIMIT, Measure, Measures, measures_of
from dovetail.explorer.state import DEVICES, State, query_of

MOST_READ = 8  # plans on so many numbers of devices
WORKING = "working out what limits it now"


def whole_measures(state: State) -> Measures:
    """All figures of a state, what limits it among them: some ten evaluations, so not for the page's own process."""
    return measures_of(result_of(prepared(state), state))


class Quick:
    """What one page knows of the plan it shows, on its hardware as it is and as it was turned."""

    def __init__(self) -> None:
        self._read: dict[str, Prepared] = {}
        self._own: tuple[State, Measures] | None = None
        self._limit: tuple[Measure, ...] = ()

    def figures(self, state: State) -> tuple[Measures, Measures]:
        """Figures of the hardware as it was turned and as it is: none of the latter where it was not.

        What limits is as it was last known, and says that it is.
        """
        now = self._measured(state)
        old = tuple(replace(one, note=WORKING) for one in self._limit)
        return (*now, *old) if len(now) > 1 else now, self.before(state)

    def keep(self, state: State, measures: Measures) -> None:
        """Takes `whole_measures` of a state, to be compared with and shown until there are newer."""
        self._limit = tuple(one for one in measures if one.key == LIMIT)
        if not state.factors:
            self._own = state, measures

    def before(self, state: State) -> Measures:
        """Figures of the plan on the hardware as it is; none where the state is that, or the plan is none for it."""
        own = unchanged(state)
        if own == state:
            return ()
        if self._own is None or self._own[0] != own:
            try:
                found = self._measured(own)
            except DovetailError:  # a plan for hardware that was turned need not be one for its own
                found = ()
            self._own = own, found
        return self._own[1]

    def _measured(self, state: State) -> Measures:
        return measures_of(result_of(self._prepared(state), state, has_changes=False))

    def _prepared(self, state: State) -> Prepared:
        """Read once for however often figures are turned; the number of devices is part of what is read."""
        sized = replace(state, factors={name: times for name, times in state.factors.items() if name == DEVICES})
        key = query_of(sized)
        if key not in self._read:
            if len(self._read) >= MOST_READ:
                self._read.clear()
            self._read[key] = prepared(sized)
        return self._read[key]
