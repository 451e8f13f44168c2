"""How sure an answer is, as values for its page: published runs, how far predictions were off, and where it lies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dovetail.accuracy.evidence import class_of, evidence, interval_of
from dovetail.accuracy.recipes import Recipe, near_recipes
from dovetail.accuracy.residuals import Residual
from dovetail.errors import InvalidInput
from dovetail.evaluate import Outcome
from dovetail.explorer.answers import prepared, result_of
from dovetail.explorer.state import State
from dovetail.files.published_runs import load_published_runs
from dovetail.files.residuals import load_published, load_residuals
from dovetail.hardware.heterogeneous import devices_label
from dovetail.report.charts.chart import Chart, axis, layout, said
from dovetail.report.charts.palette import ORANGE, PALE, SERIES
from dovetail.report.charts.published import Prediction, published_scatter
from dovetail.report.figures import table_of
from dovetail.report.labels import percent
from dovetail.report.recipes import recipe_table
from dovetail.report.table import Table

NUM_NEAREST = 12
MOST_NAMED = 6  # publishers with a colour of their own
DEVICES = [2**power for power in range(3, 15)]  # marks of the axis


@dataclass(frozen=True, slots=True, kw_only=True)
class Trusted:
    """What an interval rests on: a sentence, charts, the nearest published run, and others near the question."""

    said: str
    lacking: str
    charts: tuple[Chart, ...]
    nearest: Table
    runs: Table


def trusted(state: State) -> Trusted:
    """How sure the state's step time is."""
    result = result_of(prepared(state), state, has_changes=False)
    if not isinstance(result, Outcome):
        raise InvalidInput("a plan that does not fit has no step time to be sure of; choose one that fits")
    rows = load_residuals()
    found = evidence(class_of(result.workload, result.cluster, result.plan), rows)
    bounds = interval_of(result.workload, result.cluster, result.plan, result.step.step_s, rows, state.selection)
    near = near_recipes(result.workload, result.cluster, load_published(), rows)
    what = f"{result.workload.model.name} on {devices_label(result.cluster)}"
    prediction = Prediction(name=what, step_s=float(result.step.step_s), interval=bounds)
    return Trusted(
        said=f"{what}: {bounds.sentence}.",
        lacking=found.lacking,
        charts=(
            published_scatter(load_published_runs(), prediction),
            errors_chart(rows, found.rows, result.cluster.num_devices, found.half_width, prediction),
        ),
        nearest=table_of(recipe_table(near)),
        runs=_near_runs(near.recipes[:NUM_NEAREST], {row.name: row for row in found.rows}),
    )


def errors_chart(
    rows: Sequence[Residual], like: Sequence[Residual], num_devices: int, half_width: float, asked: Prediction
) -> Chart:
    """Measured over predicted of every published run by its devices; those like the question stand out, and it too."""
    chosen = {row.name for row in like}
    others = [row for row in rows if row.name not in chosen]
    names = sorted({row.publisher for row in like}, key=lambda name: -sum(row.publisher == name for row in like))
    groups = [(name, [row for row in like if row.publisher == name]) for name in names[:MOST_NAMED]]
    if rest := [row for row in like if row.publisher in names[MOST_NAMED:]]:
        groups.append(("others like it", rest))
    data = [_dots("other published runs", others, PALE, 6)]
    data += [_dots(name, own, SERIES[place % len(SERIES)], 9) for place, (name, own) in enumerate(groups)]
    low, high = math.exp(-half_width), math.exp(half_width)
    least, most = asked.interval.lower_s / asked.step_s, asked.interval.upper_s / asked.step_s
    data.append(
        {
            "type": "scatter",
            "mode": "markers",
            "name": "your question",
            "x": [num_devices],
            "y": [1.0],
            "marker": {"color": ORANGE, "size": 15, "symbol": "diamond", "line": {"width": 1.5, "color": "#000"}},
            "error_y": {"type": "data", "symmetric": False, "array": [most - 1], "arrayminus": [1 - least], "width": 8},
            "hovertemplate": f"{said(asked.name)}<br>{least:.2f} to {most:.2f} times the prediction<extra></extra>",
        }
    )
    within = sum(abs(row.log_ratio) <= half_width for row in like) / len(like)
    return Chart(
        name="published-errors",
        title="Measured over predicted step time of published runs",
        alt=(
            f"Of the {len(like)} published runs that the interval rests on, {percent(within, 0)} took {low:.2f} to"
            f" {high:.2f} times what is predicted."
        ),
        figure={
            "data": data,
            "layout": layout(
                height=460,
                xaxis=axis("devices", type="log", tickvals=DEVICES, ticktext=[f"{n:,}" for n in DEVICES]),
                yaxis=axis("measured / predicted", type="log", tickvals=[0.5, 0.7, 1, 1.4, 2, 3], rangemode="tozero"),
                shapes=[
                    {"type": "line", "x0": 0, "x1": 1, "xref": "paper", "y0": 1, "y1": 1, "line": {"width": 1}},
                    {
                        "type": "rect", "x0": 0, "x1": 1, "xref": "paper", "y0": low, "y1": high, "layer": "below",
                        "fillcolor": ORANGE, "opacity": 0.1, "line": {"width": 0},
                    },
                ],
            ),
        },
        table=_rested_on(like, num_devices),
    )  # fmt: skip


def _dots(name: str, rows: Sequence[Residual], colour: str, num_px: int) -> dict[str, object]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": said(name),
        "x": [row.num_devices for row in rows],
        "y": [round(math.exp(row.log_ratio), 4) for row in rows],
        "text": [said(f"{row.name}, {row.chip}") for row in rows],
        "marker": {"color": colour, "size": num_px},
        "hovertemplate": "%{text}<br>%{x} devices, %{y:.2f} times the prediction<extra></extra>",
    }


def _near_runs(recipes: Sequence[Recipe], like: Mapping[str, Residual]) -> Table:
    """Runs in the order of their distance from the question; `like` are those that its interval rests on."""
    return Table(
        title="Published runs near it",
        columns=("run", "publisher", "chip", "devices", "TP", "PP", "distance", "measured / predicted", "in interval"),
        rows=tuple(
            (
                one.run.name,
                one.publisher,
                one.run.cluster.chip.name,
                f"{one.run.cluster.num_devices:,}",
                str(one.run.plan.tensor_parallel),
                str(one.run.plan.pipeline_parallel),
                f"{one.distance:.1f}",
                f"{1 / (1 + one.error_frac):.2f}",
                "yes" if one.run.name in like else "",
            )
            for one in recipes
        ),
        align="lllrrrrrl",
        notes=("in interval: whether the interval rests on this run, among others",),
    )


def _rested_on(rows: Sequence[Residual], num_devices: int) -> Table:
    """The runs of an interval, by their number of devices."""
    ordered = sorted(rows, key=lambda row: (abs(math.log(row.num_devices / num_devices)), row.name))
    return Table(
        title="Published runs that the interval rests on",
        columns=("run", "publisher", "chip", "devices", "TP", "PP", "measured / predicted"),
        rows=tuple(
            (
                row.name,
                row.publisher,
                row.chip,
                f"{row.num_devices:,}",
                str(row.tensor_parallel),
                str(row.pipeline_parallel),
                f"{math.exp(row.log_ratio):.2f}",
            )
            for row in ordered
        ),
        align="lllrrrr",
    )
