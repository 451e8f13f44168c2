"""The published run nearest to a job, beside what we say of it."""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.accuracy.recipes import Near, Recipe
from dovetail.report.figures import Entry, Figure, FigureTable, labelled, phrase
from dovetail.report.labels import gain, plan_in_brief
from dovetail.report.outcome import plan_record
from dovetail.units import format_count, format_s

TITLE = "The nearest published run"
DISTANCE = (
    "distance: doublings of parameters, half of those of devices and of sequence length, 1 for products in another"
    " dtype, 0.5 for another chip of the generation"
)


def recipe_table(near: Near) -> FigureTable:
    """The nearest run in rows; a line that says why there is none."""
    if not near.recipes:
        refusal = Figure("nearest_run.refusal", near.refusal, near.refusal)
        return FigureTable(
            title=TITLE if near.refusal else "",
            rows=(Figure("nearest_run.found", False),),
            notes=(refusal,) if near.refusal else (),
        )
    return FigureTable(title=TITLE, rows=tuple(_rows(near.recipes[0])), notes=(DISTANCE,))


def _rows(recipe: Recipe) -> Iterator[Entry]:
    run = recipe.run
    chip, num_devices = run.cluster.chip.name, run.cluster.num_devices
    yield Figure("nearest_run.found", True)
    yield phrase(
        "{} ({} of {})",
        labelled("nearest_run.model", run.model.name),
        labelled("nearest_run.name", run.name),
        labelled("nearest_run.publisher", recipe.publisher),
        label="run",
    )
    yield phrase(
        "{} x {}, {} x {} tokens per step, {}; distance {}",
        Figure("nearest_run.num_devices", num_devices, f"{num_devices:,}"),
        labelled("nearest_run.chip", chip),
        Figure("nearest_run.global_batch", run.sample.batch, f"{run.sample.batch:,}"),
        Figure("nearest_run.seq", run.sample.seq, f"{run.sample.seq:,}"),
        labelled("nearest_run.precision", run.precision.compute),
        Figure("nearest_run.distance", recipe.distance, f"{recipe.distance:.1f}"),
        label="job",
    )
    yield Figure("nearest_run.plan", plan_record(run.plan), plan_in_brief(run.plan), "plan")
    rate = recipe.tokens_per_s_per_device
    yield phrase(
        "{} per step, {} tokens/s per device",
        Figure("nearest_run.measured_s", run.measured_s, format_s(run.measured_s)),
        Figure("nearest_run.tokens_per_s_per_device", rate, f"{rate:,.0f}"),
        label="measured",
    )
    yield phrase(
        "{} per step, {}",
        Figure("nearest_run.predicted_s", recipe.predicted_s, format_s(recipe.predicted_s)),
        Figure("nearest_run.error_frac", recipe.error_frac, gain(recipe.error_frac)),
        label="predicted",
    )
    size = recipe.num_parameters
    yield Figure("nearest_run.num_parameters", size, format_count(size))
    yield Figure("nearest_run.source", recipe.source)
