"""Claims of a paper as plain data and as a table: published figures, ours by both mappers, and a verdict each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dovetail.papers.mappers import OURS, PAPERS, Mapper
from dovetail.papers.verdicts import Claim, Reading
from dovetail.report.plain import Record
from dovetail.report.table import Table


def claim_record(claim: Claim) -> Record:
    first = claim.readings[0] if claim.readings else None
    return {
        "what": claim.what,
        "reported": list(claim.reported),
        "is_floor": claim.is_floor,
        "ours": first.ours if first else None,
        "paper_mapper": first.paper_mapper if first else None,
        "must_hold": claim.least > 0,
        "holds": claim.holds,
        "verdict": claim.verdict,
        "why": claim.why,
        "readings": [_reading_record(reading) for reading in claim.readings],
    }


def _reading_record(reading: Reading) -> Record:
    return {
        "what": reading.what,
        "paper_mapper": reading.paper_mapper,
        "ours": reading.ours,
        "differs": reading.differs,
    }


def mapper_records() -> list[Record]:
    return [
        {"mapper": mapper.name, "stationary": list(mapper.stationary), "fill": mapper.fill} for mapper in (PAPERS, OURS)
    ]


def claims_table(title: str, paper: str, claims: Sequence[Record]) -> Table:
    """`claims` as `claim_record` gives them."""
    rows = [row for place, claim in enumerate(claims, 1) for row in _rows(place, claim)]
    notes = [f"{place}. {claim['verdict']}: {claim['why']}" for place, claim in enumerate(claims, 1)]
    return Table(
        title=title,
        columns=("", paper, "its mapper", "ours", ""),
        rows=tuple(rows),
        align="lrrrl",
        notes=(*notes, _mapped(PAPERS, "its mapper"), _mapped(OURS, "ours")),
    )


def _rows(place: int, claim: Record) -> Iterator[tuple[str, ...]]:
    reported = "higher" if claim["is_floor"] else " to ".join(f"{value:.3g}" for value in claim["reported"])
    missed = ", MISSED" if claim["must_hold"] and not claim["holds"] else ""
    yield f"{place}. {claim['what']}", reported, "", "", claim["verdict"] + missed
    for reading in claim["readings"]:
        yield f"   {reading['what']}", "", _figure(reading["paper_mapper"]), _figure(reading["ours"]), ""


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _mapped(mapper: Mapper, words: str) -> str:
    fill = {"whole": "every fill and drain shows", "hidden": "the next tile is loaded meanwhile"}[mapper.fill]
    return f"{words}: arrays hold {' or '.join(f'{held}s' for held in mapper.stationary)} still, and {fill}"
