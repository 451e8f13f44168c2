"""Designs side by side as values: what differs first, figures with intervals, and charts of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.accuracy.chance import Predicted, chance_shorter_frac
from dovetail.accuracy.evidence import GIVEN, Selection
from dovetail.errors import DovetailError
from dovetail.evaluate import Infeasible, Outcome
from dovetail.explorer.answers import figures_of_job, prepared, result_of
from dovetail.explorer.figures import LIMIT, Measure, Measures, change_frac, change_label, figure_label, measures_of
from dovetail.explorer.plan_chips import plan_chips
from dovetail.explorer.state import State
from dovetail.files.residuals import load_residuals
from dovetail.report.charts.chart import Chart
from dovetail.report.charts.compared import memory_by_job, time_by_job
from dovetail.report.compared import ComparedJob, Refused
from dovetail.report.labels import likely

ABSENT = "\u2013"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What a design has in a row: the value, its interval, and its change from the first, with a word for it."""

    shown: str
    interval: str = ""
    moved: str = ""
    word: str = ""  # better, worse or nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One fact or figure of every design."""

    label: str
    cells: tuple[Cell, ...]

    @property
    def is_same(self) -> bool:
        return len({cell.shown for cell in self.cells}) == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Designs side by side: `figures` are what they come to, `facts` what they are."""

    names: tuple[str, ...]
    figures: tuple[Row, ...]
    facts: tuple[Row, ...]
    charts: tuple[Chart, ...]

    @property
    def differing(self) -> tuple[Row, ...]:
        return tuple(row for row in self.facts if not row.is_same)

    @property
    def same(self) -> tuple[Row, ...]:
        return tuple(row for row in self.facts if row.is_same)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Design:
    """One design: what it is, in words, and what it comes to."""

    facts: dict[str, str]
    result: Outcome | Infeasible | Refused
    selection: Selection = GIVEN

    @property
    def measures(self) -> Measures:
        return () if isinstance(self.result, Refused) else measures_of(self.result, self.selection)


def compared(pins: Sequence[State]) -> Compared:
    """A column for each design; what is wrong with one stands in its column."""
    designs, names = [_design(pin) for pin in pins], names_of(pins)
    jobs = [
        ComparedJob(settings=(("job", name),), result=one.result, selection=one.selection)
        for name, one in zip(names, designs, strict=True)
    ]
    return Compared(
        names=names,
        figures=(*_figure_rows(designs), *_chances(designs)),
        facts=_fact_rows(designs),
        charts=(*time_by_job(jobs), *memory_by_job(jobs)),
    )


def names_of(pins: Sequence[State]) -> tuple[str, ...]:
    """What designs are called; those without a name by their place."""
    return tuple(pin.name or f"design {place}" for place, pin in enumerate(pins, start=1))


def _design(state: State) -> _Design:
    try:
        own = prepared(state)
        result = result_of(own, state)
    except DovetailError as error:
        return _Design(facts={"model": state.model or "uploaded"}, result=Refused(message=str(error)))
    job = own.job
    facts = {
        "model": job.workload.model.name,
        "cluster": job.cluster.name,
        "devices": f"{job.cluster.num_devices:,}",
        "global batch": f"{job.workload.global_batch:,}",
        "sequence length": f"{job.workload.seq:,}",
        "compute in": job.workload.precision.compute,
    }
    facts |= {chip.label: chip.value for chip in plan_chips(result.plan, result.workload)}
    for figure in figures_of_job(job):
        factor = state.factors.get(figure.key, 1.0)
        facts[figure.label] = figure_label(figure.value * factor, figure.unit)
    return _Design(facts=facts, result=result, selection=state.selection)


def _fact_rows(designs: Sequence[_Design]) -> tuple[Row, ...]:
    keys = dict.fromkeys(key for one in designs for key in one.facts)
    return tuple(Row(label=key, cells=tuple(Cell(shown=one.facts.get(key, ABSENT)) for one in designs)) for key in keys)


def _figure_rows(designs: Sequence[_Design]) -> tuple[Row, ...]:
    labels = {one.key: one.label for design in designs for one in design.measures}
    first = {one.key: one for one in designs[0].measures}
    rows = []
    for key, label in labels.items():
        known = [{one.key: one for one in design.measures}.get(key) for design in designs]
        cells = tuple(
            _cell(one, first.get(key) if place else None, design)
            for place, (one, design) in enumerate(zip(known, designs, strict=True))
        )
        rows.append(Row(label=label, cells=cells))
    return tuple(rows)


def _cell(now: Measure | None, first: Measure | None, design: _Design) -> Cell:
    if now is None:
        why = design.result.message if isinstance(design.result, Refused) else "does not fit"
        return Cell(shown=why, word="worse")
    if now.key == LIMIT or first is None:
        return Cell(shown=now.shown, interval=now.interval)
    moved_frac = change_frac(now, first)
    word = "better" if (moved_frac < 0) == now.is_less_better else "worse"
    over = " (does not fit)" if now.share_frac > 1 else ""
    return Cell(
        shown=f"{now.shown}{over}",
        interval=now.interval,
        moved=change_label(moved_frac) if moved_frac else "same",
        word=word if moved_frac else "",
    )


def _chances(designs: Sequence[_Design]) -> tuple[Row, ...]:
    """How likely each is truly faster than the first, given how far predictions are off."""
    first, residuals = designs[0].result, load_residuals()
    if not isinstance(first, Outcome) or len(designs) < 2:
        return ()
    cells = [Cell(shown="the first")]
    for one in designs[1:]:
        if not isinstance(one.result, Outcome):
            cells.append(Cell(shown=ABSENT))
            continue
        chance_frac = chance_shorter_frac(_predicted(one.result), _predicted(first), residuals)
        cells.append(Cell(shown=likely(chance_frac)))
    return (Row(label="Chance that its step is shorter", cells=tuple(cells)),)


def _predicted(own: Outcome) -> Predicted:
    return Predicted(workload=own.workload, cluster=own.cluster, plan=own.plan, step_s=float(own.step.step_s))
