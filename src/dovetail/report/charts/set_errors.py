"""How far off each set of measurements is: mean and 90th percentile of the error, beside the bar on it."""

from __future__ import annotations

from dovetail.report.charts.bars import grouped
from dovetail.report.charts.chart import Chart, Figure, said
from dovetail.report.charts.palette import BLUE, SKY, VERMILLION
from dovetail.report.labels import percent
from dovetail.report.plain import Record
from dovetail.report.table import Table


def errors_by_set(record: Record) -> tuple[Chart, ...]:
    """Of a validation as `report.accuracy.validation_record` gives it; no chart where nothing was scored."""
    sets = [(one, one["scores"][0]) for one in record["sets"] if one["scores"]]
    if not sets:
        return ()
    columns = {
        "mean error": (BLUE, [scored["mape_frac"] for _, scored in sets]),
        "nine of ten rows": (SKY, [scored["p90_frac"] for _, scored in sets]),
    }
    names = [one["set"] for one, _ in sets]
    figure = grouped(names, columns, "|predicted / measured - 1|", tickformat="~%", rangemode="tozero")
    figure["data"] += _bars(sets)
    worst, scored = max(sets, key=lambda pair: pair[1]["mape_frac"])
    return (
        Chart(
            name="set-errors",
            title="How far off, set by set",
            alt=f"{len(sets)} sets; the mean error is largest on {worst['set']}: {percent(scored['mape_frac'])}.",
            figure=figure,
            table=_table(sets),
        ),
    )


def _bars(sets: list[tuple[Record, Record]]) -> list[Figure]:
    """A mark where the mean error of a set may be at the most, of sets that have such a bar."""
    limits = [
        (said(one["set"]), bar["limit_frac"])
        for one, scored in sets
        for bar in scored["bars"]
        if bar["statistic"] == "MAPE"
    ]
    mark = {
        "type": "scatter",
        "mode": "markers",
        "name": "bar on the mean error",
        "y": [name for name, _ in limits],
        "x": [limit_frac for _, limit_frac in limits],
        "marker": {"color": VERMILLION, "symbol": "line-ns-open", "size": 18, "line": {"width": 3}},
        "hovertemplate": "%{y}: bar %{x:.2%}<extra></extra>",
    }
    return [mark] if limits else []


def _table(sets: list[tuple[Record, Record]]) -> Table:
    return Table(
        title="Errors by set",
        columns=("set", "rows", "mean error", "nine of ten rows", "bias"),
        rows=tuple(
            (
                one["set"],
                f"{score['num_rows']:,}",
                percent(score["mape_frac"]),
                percent(score["p90_frac"]),
                f"{100 * score['bias_frac']:+.1f} %",
            )
            for one, score in sets
        ),
        align="lrrrr",
    )
