"""The best rows of a study: how far each is behind the first."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.report.charts.bars import ranked
from dovetail.report.charts.chart import Chart
from dovetail.report.charts.palette import BLUE, PALE
from dovetail.report.labels import percent
from dovetail.report.table import Table

MOST_CHARACTERS = 40


def best_rows(rows: Sequence[tuple[str, float]]) -> tuple[Chart, ...]:
    """Rows by what they are, with their loss, the best first; no chart of fewer than two."""
    if len(rows) < 2 or not rows[0][1] > 0:
        return ()
    ratios = [loss / rows[0][1] for _, loss in rows]
    figure = ranked(
        [f"{place}. {_short(what)}" for place, (what, _) in enumerate(rows, start=1)],
        ratios,
        [f"{ratio:.3f}" for ratio in ratios],
        [BLUE, *([PALE] * (len(rows) - 1))],
        "loss over the best",
        hover="%{y}: %{x:.4f}",
    )
    table = Table(
        title="The best rows",
        columns=("", "loss", "over the first"),
        rows=tuple((what, f"{loss:.6g}", f"{ratio:.4f}") for (what, loss), ratio in zip(rows, ratios, strict=True)),
        align="lrr",
    )
    alt = f"The last of {len(rows)} rows is {percent(ratios[-1] - 1)} behind the first."
    title = "The best rows, by their loss over the first's"
    return (Chart(name="best-rows", title=title, alt=alt, figure=figure, table=table),)


def _short(words: str) -> str:
    return words if len(words) <= MOST_CHARACTERS else f"{words[: MOST_CHARACTERS - 3]}..."
