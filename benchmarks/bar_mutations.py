"""Mutation of the physics: which share of a fixed sample of mutants tests kill, as recorded, and of which code.

`python -m benchmarks.mutations` measures it; the survivors stand in benchmarks/results/mutations.json.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.bar import Bar
from benchmarks.mutants import physics_sources
from benchmarks.mutation_records import LEAST_KILLED_FRAC, digest, recorded

ISSUE = 10


def bars() -> Iterator[Bar]:
    yield from recorded_bars(recorded(), digest(physics_sources()))


def recorded_bars(results: dict[str, Any], sources: str) -> Iterator[Bar]:
    """The bars of a record, for physics whose digest is `sources`."""
    low, high = results["killed_frac_interval"]
    sample, population = results["sample"]["mutants"], results["population"]["mutants"]
    when = f"recorded {results['date']} at {results['commit']}"
    is_of_now = results["sources"] == sources
    age = "of today's code" if is_of_now else "of older code: run python -m benchmarks.mutations"
    if num_kept := results.get("kept", 0):
        age += f", {num_kept} kept from earlier records"
    yield Bar(
        name=f"mutants of the physics killed, {sample} of {population} tried",
        issue=ISSUE,
        bar=f">= {LEAST_KILLED_FRAC:.0%}",
        measured=f"{results['killed_frac']:.1%} ({results['killed']} of {sample}; {low:.1%} to {high:.1%} of all)",
        holds=results["killed_frac"] >= LEAST_KILLED_FRAC if is_of_now else None,
        note=f"{when}, {age}; {len(results['survivors'])} survive",
    )
    yield _other_sample(results.get("checked", {}))


def _other_sample(checked: dict[str, Any]) -> Bar:
    """Tests may be made for one sample; of another, with fewer mutants, the share is known less well."""
    num_tried, num_killed = checked.get("tried", 0), checked.get("killed", 0)
    return Bar(
        name="mutants killed of another sample, for which no test was written",
        issue=ISSUE,
        bar=f">= {LEAST_KILLED_FRAC:.0%}",
        measured=f"{num_killed / num_tried:.1%} ({num_killed} of {num_tried})" if num_tried else "-",
        holds=num_killed >= LEAST_KILLED_FRAC * num_tried if num_tried else None,
        note=f"seed {checked['seed']!r}, recorded at {checked['commit']}{told_direct(checked)}"
        if num_tried
        else "never tried: python -m benchmarks.mutations --seed again",
    )


def told_direct(sample: Mapping[str, Any]) -> str:
    """Of a sample that was tried on some tests alone."""
    return ", by unit, conformance and golden tests alone: others may kill more" if sample.get("is_direct") else ""
