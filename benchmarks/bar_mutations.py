"""Mutation of the physics: which share of a fixed sample of mutants tests kill, as recorded, and of which code.

`python -m benchmarks.mutations` measures it; the survivors stand in benchmarks/results/mutations.json.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.bar import Bar
from benchmarks.mutants import physics_sources
from benchmarks.mutation_records import LEAST_KILLED_FRAC, digest, recorded
from benchmarks.mutations import PINNED

ISSUE = 10


def bars() -> Iterator[Bar]:
    yield from recorded_bars(recorded(), digest(physics_sources()))


def recorded_bars(results: dict[str, Any], sources: str) -> Iterator[Bar]:
    """The bars of a record, for physics whose digest is `sources`."""
    low, high = results["killed_frac_interval"]
    num_alike = sum(bool(one["alike"]) for one in results["survivors"])
    sample, population = results["sample"]["mutants"], results["population"]["mutants"]
    when = f"recorded {results['date']} at {results['commit']}"
    age = (
        "of today's code"
        if results["sources"] == sources
        else "of older code: run python -m benchmarks.mutations --keep"
    )
    yield Bar(
        name=f"mutants of the physics killed, {sample} of {population} tried",
        issue=ISSUE,
        bar=f">= {LEAST_KILLED_FRAC:.0%}",
        measured=f"{results['killed_frac']:.1%} ({results['killed']} of {sample}; {low:.1%} to {high:.1%} of all)",
        holds=results["killed_frac"] >= LEAST_KILLED_FRAC,
        note=f"{when}, {age}; {len(results['survivors'])} survive, {num_alike} of them no test could kill",
    )
    if checked := results.get("checked"):
        yield Bar(
            name=f"mutants killed of another sample ({checked['seed']!r}), for which no test was written",
            issue=ISSUE,
            bar=f">= {LEAST_KILLED_FRAC:.0%}",
            measured=f"{checked['killed'] / checked['tried']:.1%} ({checked['killed']} of {checked['tried']})",
            holds=checked["killed"] >= LEAST_KILLED_FRAC * checked["tried"],
            note=f"recorded at {checked['commit']}",
        )
    pinned = results["pinned"]
    yield Bar(
        name="formulas picked by hand, broken and noticed",
        issue=ISSUE,
        bar="every one",
        measured=f"{pinned['killed']} of {pinned['tried']}",
        holds=pinned["killed"] == pinned["tried"] if pinned["tried"] == len(PINNED) else None,
        note=f"recorded at {pinned['commit']}, {len(PINNED)} stand today; python -m benchmarks.mutations --pinned",
    )
