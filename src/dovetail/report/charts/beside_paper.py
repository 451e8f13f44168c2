"""Numbers of ours beside those a paper reports, as ratios, since they are of many sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.report.charts.bars import MOST_PX
from dovetail.report.charts.chart import Chart, Figure, axis, layout, said
from dovetail.report.charts.palette import BLUE, GREY, VERMILLION
from dovetail.report.table import Table

ROW_PX = 24
MOST_CHARACTERS = 48
DIGITS = 6  # of a ratio: what differs less is the same
LEAST_FRAC = 0.02  # that the axis shows to either side of 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BesidePaper:
    """One number: ours, and the paper's."""

    what: str
    ours: float
    reported: float
    holds: bool

    @property
    def ratio(self) -> float:
        return round(self.ours / self.reported, DIGITS)


def beside_paper(rows: Sequence[BesidePaper]) -> Chart:
    """A dot for each; on the line both are the same. Numbers that the paper has as 0 have no ratio and no dot."""
    shown = [row for row in rows if row.reported]
    off = max(shown, key=lambda row: abs(row.ratio - 1))
    num_missed = sum(not row.holds for row in rows)
    verdict = "all as they must be" if not num_missed else f"{num_missed} missed"
    apart = f"furthest apart is {off.what}: ours is {off.ratio:.3g} times the paper's"
    return Chart(
        name="beside-paper",
        title="Ours over the paper's",
        alt=f"{len(rows)} numbers, {verdict}; {apart}.",
        figure={"data": _dots(shown), "layout": _layout(shown, off)},
        table=_table(rows),
    )


def _dots(rows: Sequence[BesidePaper]) -> list[Figure]:
    groups = (("as it must be", True, BLUE, "circle"), ("missed", False, VERMILLION, "x"))
    by_group = [(look, [row for row in rows if row.holds == look[1]]) for look in groups]
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": name,
            "x": [row.ratio for row in some],
            "y": [said(_short(row.what)) for row in some],
            "text": [said(f"ours {row.ours:.4g}, paper {row.reported:.4g}") for row in some],
            "marker": {"color": colour, "symbol": symbol, "size": 10},
            "hovertemplate": "%{y}<br>%{text}<extra></extra>",
        }
        for (name, _, colour, symbol), some in by_group
        if some
    ]


def _layout(rows: Sequence[BesidePaper], off: BesidePaper) -> Figure:
    """`off` is the number that is furthest apart."""
    span = 1.1 * max(LEAST_FRAC, abs(off.ratio - 1))
    return layout(
        height=min(MOST_PX, 120 + ROW_PX * len(rows)),
        xaxis=axis("ours / paper's", range=[1 - span, 1 + span]),
        yaxis={
            "type": "category",
            "automargin": True,
            "categoryorder": "array",
            "categoryarray": [said(_short(row.what)) for row in reversed(rows)],
            "tickfont": {"size": 11},
        },
        shapes=[{"type": "line", "x0": 1, "x1": 1, "yref": "paper", "y0": 0, "y1": 1, "line": {"color": GREY}}],
    )


def _table(rows: Sequence[BesidePaper]) -> Table:
    return Table(
        title="Ours and the paper's",
        columns=("", "ours", "paper", "ratio", ""),
        rows=tuple(
            (
                row.what,
                f"{row.ours:.4g}",
                f"{row.reported:.4g}",
                f"{row.ratio:.3f}" if row.reported else "-",
                "ok" if row.holds else "MISSED",
            )
            for row in rows
        ),
        align="lrrrl",
    )


def _short(words: str) -> str:
    return words if len(words) <= MOST_CHARACTERS else f"{words[: MOST_CHARACTERS - 3]}..."
