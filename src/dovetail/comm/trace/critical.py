"""The chain of tasks that decided when a program ended."""

from __future__ import annotations

from bisect import bisect_left

from dovetail.comm.events.engine import Timeline
from dovetail.comm.events.program import Program, waits
from dovetail.comm.trace.outcome import Critical

TOLERANCE_FRAC = 1e-9  # style: a tolerance; two ends that are one


def critical_path(program: Program, timeline: Timeline) -> tuple[Critical, ...]:
    """From the first task to the last: each began when the one before it ended.

    That is a task waited for, or where a task waited longer for its stream or its links, one that ended just then.
    """
    spans_s, tolerance_s = timeline.spans_s, TOLERANCE_FRAC * timeline.end_s
    waited = {task.name: waits(task) for task in program.tasks}
    by_end = sorted((end_s, name) for name, (_, end_s) in spans_s.items())
    if not by_end:
        return ()
    path, current = [], by_end[-1][1]
    seen: set[str] = set()
    while current and current not in seen:
        seen.add(current)
        begin_s, end_s = spans_s[current]
        path.append(Critical(task=current, begin_s=begin_s, end_s=end_s))
        before = max(waited[current], key=lambda name: spans_s[name][1], default="")
        if not before or spans_s[before][1] < begin_s - tolerance_s:
            place = bisect_left(by_end, (begin_s - tolerance_s, ""))
            just_then = by_end[place : place + 1]
            if just_then and just_then[0][0] <= begin_s + tolerance_s and just_then[0][1] not in seen:
                before = just_then[0][1]
        current = before
    return tuple(reversed(path))
