"""An operation made ready to be timed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Run = Callable[[], float]  # does the work once, and gives how many things that was


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation: `made` builds all but the work itself, warms it up, and gives it as a function.

    Of `item` a run does many; with none it does the whole operation. `needs` names a library of an extra.
    """

    name: str
    what: str
    made: Callable[[], Run]
    item: str = ""
    num_runs: int = 5
    needs: str = ""


def warm(run: Run) -> Run:
    """`run`, once it has run: caches are filled and loops compiled."""
    run()
    return run
