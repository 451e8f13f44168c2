"""How much the event engine takes on: no answer is better than one that takes too long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dovetail.comm.events.phases import Phase
from dovetail.comm.events.program import Collective, Task
from dovetail.errors import InvalidInput

MOST_CHUNKS = 100_000  # of one collective: half a minute where one rank stands for all
MOST_STEPS = 3_000_000  # of one rank and one collective, of all its chunks: a minute
MOST_STEPS_OF_ALL = 600_000  # where every rank is followed: a minute
MOST_TIMES = 10  # as much for all collectives of a program together
MOST_ONE_BY_ONE = 5_000_000  # messages, each with a place in a heap: a minute and some gigabytes


def check_chunks(tasks: Sequence[Task]) -> None:
    """Raises where collectives are cut so fine that making their chunks would take minutes."""
    counts = [task.num_chunks for task in tasks if isinstance(task, Collective) and task.num_chunks > 1]
    _check(counts, MOST_CHUNKS, "chunks")


def check_steps(phases: Mapping[str, Sequence[tuple[Phase, ...]]], *, is_one: bool) -> None:
    """Raises where the steps of all chunks would take minutes; what is not cut is run, however long it is."""
    known: dict[int, int] = {}
    counts = []
    for chunks in phases.values():
        for chunk in chunks:
            if id(chunk) not in known:
                known[id(chunk)] = sum(level.repeat for phase in chunk for lane in phase.schedule for level in lane)
        counts += [sum(known[id(chunk)] for chunk in chunks)] if len(chunks) > 1 else []
    _check(counts, MOST_STEPS if is_one else MOST_STEPS_OF_ALL, "steps of chunks")


def _check(counts: Sequence[int], most: int, what: str) -> None:
    """Raises where one collective, or all of them, have more than they may."""
    for count, limit, whose in (
        (max(counts, default=0), most, "one collective"),
        (sum(counts), MOST_TIMES * most, "all"),
    ):
        if count > limit:
            rule = f"at most {limit:,} {what} of {whose} are simulated here"
            raise InvalidInput(f"{rule}; got {count:,}; use fewer chunks")


def check_one_by_one(num_messages: int) -> None:
    """Raises where messages would have to be followed one by one for minutes."""
    if num_messages > MOST_ONE_BY_ONE:
        limit = f"at most {MOST_ONE_BY_ONE:,} messages are followed one by one, as must be where ranks differ in order"
        raise InvalidInput(f"{limit}; got {num_messages:,}; use fewer devices or chunks")
