"""Placement on NEST's system: what our plans gain over its manual placements, for its five models."""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks.bar import Bar
from dovetail.papers.nest import nest_study
from dovetail.search.codesign.phaze_space import phaze_chips, raw_chips

ISSUE = 7
NUM_RAW, NUM_KEPT = 75_712, 29_360  # PHAZE, released code (MIT, commit fed7cde)


def bars() -> Iterator[Bar]:
    began_s = time.process_time()
    rows = list(nest_study())
    took_s = time.process_time() - began_s
    named = [f"{row.case.name} {row.gain:.2f} (NEST {row.published_gain:.2f})" for row in rows]
    even = [f"{row.case.name} {row.ours.sequences_per_s / row.even.sequences_per_s:.2f}" for row in rows]
    yield Bar(
        name="throughput over NEST's manual placement, its system, 1,024 devices, microbatch 1",
        issue=ISSUE,
        bar=">= NEST's own gain, five models",
        measured=f"{', '.join(named)}; {took_s:.0f} CPU-s",
        holds=all(row.check.holds for row in rows),
        note=f"over the same degrees in equal stages: {', '.join(even)}",
    )
    worst = max(row.ours.gap_frac for row in rows)
    yield Bar(
        name="proven gap of those plans to the best of their space",
        issue=ISSUE,
        bar="<= 1 %",
        measured=f"{worst:.2%} at most",
        holds=worst <= 0.01,
    )
    counts = len(raw_chips()), len(phaze_chips())
    yield Bar(
        name="chips of PHAZE's space, before and after its area rule",
        issue=ISSUE,
        bar=f"{NUM_RAW:,} and {NUM_KEPT:,}",
        measured=f"{counts[0]:,} and {counts[1]:,}",
        holds=counts == (NUM_RAW, NUM_KEPT),
    )
