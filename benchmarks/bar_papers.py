"""WHAM and PHAZE by two mappers: that every claim has a verdict, and what the whole took, of the recorded runs."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.bar import Bar
from benchmarks.paper_records import PAPERS, Record, recorded, times

ISSUE = 22
MOST_S = 900.0  # the issue: under 15 minutes each
VERDICTS = ("reproduced", "not reproduced", "not comparable")


def bars() -> Iterator[Bar]:
    for paper in PAPERS:
        record = recorded(paper)
        claims = record["claims"]
        yield Bar(
            name=f"`reproduce {paper}`: claims by two mappers, with a verdict each",
            issue=ISSUE,
            bar="every claim, both mappers",
            measured="; ".join(map(_words, claims)),
            holds=len(record["mappers"]) == 2 and all(map(_is_judged, claims)),
        )
        took = times().get(paper)
        yield Bar(
            name=f"`reproduce {paper}`, whole, as recorded",
            issue=ISSUE,
            bar=f"< {MOST_S:.0f} CPU-s in one process",
            measured=f"{took['cpu_s']} CPU-s, {took['date']}" if took else "-",
            holds=took["cpu_s"] < MOST_S if took else None,
            note="" if took else "not timed: python -m benchmarks.paper_records",
        )


def _is_judged(claim: Record) -> bool:
    return claim["verdict"] in VERDICTS and bool(claim["why"])


def _words(claim: Record) -> str:
    figures = "/".join("-" if claim[key] is None else f"{claim[key]:.2f}" for key in ("paper_mapper", "ours"))
    reported = "higher" if claim["is_floor"] else " to ".join(f"{value:.3g}" for value in claim["reported"])
    return f"{claim['what']} {figures} ({reported}): {claim['verdict']}"
