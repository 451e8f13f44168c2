"""One operator's time as several models have it."""

from __future__ import annotations

from dovetail.accuracy.one_operator import OpAnswer
from dovetail.report.charts.bars import ranked
from dovetail.report.charts.chart import Chart
from dovetail.report.charts.palette import BLUE, PALE
from dovetail.report.operator import limit_label
from dovetail.report.table import Table
from dovetail.units import format_s


def estimates(answer: OpAnswer) -> tuple[Chart, ...]:
    """A bar for each; no chart where nothing is compared."""
    if not answer.others:
        return ()
    rows = [("this model", answer.time_s, answer.limit), *((one.model, one.time_s, one.limit) for one in answer.others)]
    figure = ranked(
        [name for name, *_ in rows],
        [time_s for _, time_s, _ in rows],
        [format_s(time_s, 2) for _, time_s, _ in rows],
        [BLUE, *([PALE] * len(answer.others))],
        "time",
        hover="%{y}: %{x:.4~s}s",
        tickformat="~s",
        ticksuffix="s",
    )
    furthest = max(rows[1:], key=lambda row: abs(row[1] / answer.time_s - 1))
    table = Table(
        title="Estimates",
        columns=("model", "time", "waits for"),
        rows=tuple((name, format_s(time_s, 2), limit_label(limit)) for name, time_s, limit in rows),
        align="lrl",
    )
    alt = f"{furthest[0]} is furthest from this model's {format_s(answer.time_s, 2)}: {format_s(furthest[1], 2)}."
    return (Chart(name="estimates", title="Against other models", alt=alt, figure=figure, table=table),)
