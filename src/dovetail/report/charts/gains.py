"""What each model gains on the best system of a joint search, beside the base chip."""

from __future__ import annotations

from dovetail.report.charts.bars import ranked
from dovetail.report.charts.chart import Chart
from dovetail.report.charts.palette import BLUE, ORANGE, PALE
from dovetail.report.codesigned import CodesignReport, unit_of
from dovetail.report.labels import gain, number
from dovetail.report.table import Table
from dovetail.search.codesign.answers import gain_frac


def gains_by_model(report: CodesignReport) -> tuple[Chart, ...]:
    """A bar for every model and one for all together; nothing where the base chip runs none."""
    base = report.base
    if base is None:
        return ()
    cases = report.question.cases
    gains = [base.cases[place].loss / report.best.cases[place].loss - 1.0 for place in range(len(cases))]
    labels = [case.name for case in cases]
    details = [
        f"{number(report.figure(place, report.best))} {unit_of(report, place)}, of {number(report.figure(place, base))}"
        for place in range(len(cases))
    ]
    colours = [BLUE if value > 0 else PALE for value in gains]
    if len(cases) > 1:
        weights = ", ".join(f"{case.name} {case.weight:g}" for case in cases)
        labels, gains = [*labels, "together"], [*gains, gain_frac(report.best, base, report.weights)]
        details, colours = [*details, f"geometric mean, weights: {weights}"], [*colours, ORANGE]
    words = [gain(value) for value in gains]
    name = report.question.base.name
    return (
        Chart(
            name="gains-by-model",
            title=f"Gain over {name}, by model",
            alt=f"By {report.metric_name} over {name} with its best plan: "
            + ", ".join(f"{label} {word}" for label, word in zip(labels, words, strict=True))
            + ".",
            figure=ranked(
                labels, gains, words, colours, f"{report.metric_name} gained over {name}",
                hover="%{y}: %{text}<br>%{customdata}", details=details, tickformat="~%",
            ),
            table=Table(
                title="Gain by model",
                columns=("", "gain", "on the best, and on the base"),
                rows=tuple(zip(labels, words, details, strict=True)),
                align="lrl",
            ),
        ),
    )  # fmt: skip
