"""Which phases of which chunks decided when a collective ended."""

from __future__ import annotations

from dovetail.comm.events.engine import Timeline, Visit


def critical_visits(timeline: Timeline) -> tuple[Visit, ...]:
    """From the first phase to the last: each began when the one before it ended.

    That is the chunk's phase before, or the chunk whose place in the queue it took, whichever ended later.
    """
    spans_s, took = timeline.visits_s, dict(timeline.visits)
    if not spans_s:
        return ()
    current: Visit | None = max(spans_s, key=lambda visit: (spans_s[visit][1], visit))
    path: list[Visit] = []
    while current is not None:
        path.append(current)
        task, chunk, number = current
        before = [
            visit for visit in (took[current], (task, chunk, number - 1)) if visit is not None and visit in spans_s
        ]
        current = max(before, key=lambda visit: spans_s[visit][1], default=None)
    return tuple(reversed(path))


def visit_label(timeline: Timeline, visit: Visit) -> str:
    """A phase as people write it: chunk 2, reduce-scatter in x."""
    task, chunk, number = visit
    phase = timeline.phases[task][chunk][number]
    return f"chunk {chunk}, {phase.collective} in {phase.dimension}"
