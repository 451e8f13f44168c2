"""The best chips of a search beside the chip that they are built on and chips tuned by hand."""

from __future__ import annotations

from dovetail.report.charts.bars import ranked
from dovetail.report.charts.chart import Chart
from dovetail.report.charts.palette import BLUE, ORANGE, PALE, SKY
from dovetail.report.mined import MinedReport
from dovetail.report.table import Table
from dovetail.search.mining.answers import ChipAnswer


def designs_compared(report: MinedReport) -> Chart:
    """How many times as good as the base chip each is by the metric, of several models on the geometric mean."""
    rows = [(f"{place}. {answer.design}", answer, SKY) for place, answer in enumerate(report.best, start=1)]
    rows += [(rival.name, rival.answer, ORANGE) for rival in report.rivals if rival.name != report.base]
    rows.append((f"{report.base}, the base", report.reference, PALE))
    times = [1.0 + report.gain_frac(answer, report.reference) for _, answer, _ in rows]
    figure = ranked(
        [label for label, *_ in rows],
        times,
        [f"{value:.2f}" for value in times],
        [BLUE, *(colour for *_, colour in rows[1:])],
        f"times {report.base}",
        hover="%{y}: %{x:.3f} times, %{customdata}",
        details=[f"{answer.area_mm2:.0f} mm2, {answer.power_w:.0f} W" for _, answer, _ in rows],
    )
    return Chart(
        name="designs",
        title=f"Chips by {report.metric_name}, in times of {report.base}",
        alt=f"The best design, {report.best[0].design}, is {times[0]:.2f} times as good as {report.base}.",
        figure=figure,
        table=_table(report, [(label, answer) for label, answer, _ in rows], times),
    )


def _table(report: MinedReport, rows: list[tuple[str, ChipAnswer]], ratios: list[float]) -> Table:
    return Table(
        title="Chips",
        columns=("chip", f"times {report.base}", "mm2", "W"),
        rows=tuple(
            (label, f"{value:.3f}", f"{answer.area_mm2:.1f}", f"{answer.power_w:.1f}")
            for (label, answer), value in zip(rows, ratios, strict=True)
        ),
        align="lrrr",
    )
