"""More of a resource never slows a step, by any pipeline schedule."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.bar import Bar
from benchmarks.monotonicity import NUM_PLANS, violations

ISSUE = 26


def bars() -> Iterator[Bar]:
    found = [one for one in violations(NUM_PLANS) if one is not None]
    worst = max(found, key=lambda one: one.slower_frac, default=None)
    yield Bar(
        name="monotonicity",
        issue=ISSUE,
        bar=f"0 violations of {NUM_PLANS:,} random plans",
        measured=f"{len(found)}",
        holds=not found,
        note=f"worst +{worst.slower_frac:.2%}: {worst.schedule}, {worst.resource}" if worst else "",
    )
