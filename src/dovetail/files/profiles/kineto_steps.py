"""Whole steps of a trace: the spans that torch.profiler marks, and what ran on the device within each.

A step lasts until the next one begins; the last one until the host and its last kernel are through. Kernels are
counted by the clock, so where the host runs ahead, a step has the kernels that ran in its time.
"""

from __future__ import annotations

import numpy as np

from dovetail.files.profiles.kineto import Events
from dovetail.hardware.measured import ProfiledStep
from dovetail.workload.graph import BoolArray, FloatArray

_COLLECTIVES = ("nccl", "rccl", "ncclDevKernel")
MAX_STEPS = 10_000  # style: a bound


def profiled_steps(events: Events) -> tuple[ProfiledStep, ...]:
    """The steps that the trace marks, by their begin; none where it has no kernels or no clock."""
    if not events.steps or not len(events.kernel_begin_s) or len(events.steps) > MAX_STEPS:
        return ()
    begin_s = np.array(events.kernel_begin_s)
    end_s = begin_s + np.array(events.kernel_s)
    is_collective = _are_collectives(events)
    spans = sorted((begin, end, name) for name, (begin, end) in events.steps.items())
    found = []
    for place, (begin, end, name) in enumerate(spans):
        until = spans[place + 1][0] if place + 1 < len(spans) else max(end, float(end_s.max()))
        is_inside = (end_s > begin) & (begin_s < until)
        starts, ends = begin_s[is_inside].clip(begin, until), end_s[is_inside].clip(begin, until)
        inside = is_collective[is_inside]
        compute_s = _covered_s(starts[~inside], ends[~inside])
        if until <= begin:
            continue
        found.append(
            ProfiledStep(
                number=_number(name),
                step_s=until - begin,
                compute_s=compute_s,
                collective_s=_covered_s(starts[inside], ends[inside]),
                exposed_s=max(0.0, _covered_s(starts, ends) - compute_s),
            )
        )
    return tuple(found)


def _are_collectives(events: Events) -> BoolArray:
    named = np.array([kernel.name.startswith(_COLLECTIVES) for kernel in events.kernels], dtype=np.bool_)
    return np.asarray(named[np.array(events.kernel, dtype=np.int64)], dtype=np.bool_)


def _covered_s(begin_s: FloatArray, end_s: FloatArray) -> float:
    """Seconds that intervals cover, those that overlap counted once."""
    if not len(begin_s):
        return 0.0
    order = np.argsort(begin_s, kind="stable")
    begins, ends = begin_s[order], np.maximum.accumulate(end_s[order])
    before = np.concatenate(([begins[0]], ends[:-1]))
    return float(np.maximum(0.0, ends - np.maximum(begins, before)).sum())


def _number(name: str) -> int:
    digits = name.rpartition("#")[2]
    return int(digits) if digits.isdigit() and len(digits) < 12 else 0
