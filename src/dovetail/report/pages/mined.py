"""The best chip for a model as a page: the design and its proof, beside those behind it and those tuned by hand."""

from __future__ import annotations

from dataclasses import replace

from dovetail.hardware.template import Design, template_chip
from dovetail.report.asked import format_plan, model_pair
from dovetail.report.charts.convergence import convergence
from dovetail.report.charts.designs import designs_compared
from dovetail.report.charts.floorplan import area_by_part, floorplan, power_by_part
from dovetail.report.charts.trail import Mark, Trail
from dovetail.report.figures import tables_of
from dovetail.report.labels import counted, gain, number, percent
from dovetail.report.mined import MinedReport, limited, mined_figures, proof, sentence
from dovetail.report.page import Card, Page, Section

ASKED = ("name", "metric", "algorithm", "base", "area_limit_mm2", "power_limit_w", "jobs")  # of the record


def mined_page(report: MinedReport) -> Page:
    _, *tables = tables_of(mined_figures(report))
    trail = trail_of(report)
    best = report.best[0]
    return Page(
        title=report.name or report.tasks[0].name,
        sentence=f"{sentence(report).replace(str(best.design), format_design(best.design), 1)}.",
        cards=_cards(report),
        asked=(
            *(model_pair(task.workload) for task in report.tasks),
            *(("Plan", f"{task.name}: {format_plan(task.plan)}") for task in report.tasks),
            ("Open", f"{report.mined.num_points:,} designs built on {report.base}"),
            ("Objective", report.metric_name),
            ("Limits", f"{report.limits.area_mm2:g} mm2 and {report.limits.power_w:g} W per chip"),
        ),
        sections=(
            *_drawn(report),
            Section(
                title="The chips", sentences=(f"Limited by {limited(report)}.",), charts=(designs_compared(report),)
            ),
            *(Section(title=table.title, tables=(table,), is_folded=place > 0) for place, table in enumerate(tables)),
            Section(
                title="Proof",
                sentences=(f"{proof(report.mined)[:1].upper()}{proof(report.mined)[1:]}.",),
                charts=(convergence(trail),) if len(trail.marks) > 1 else (),
                is_folded=True,
            ),
        ),
    )


def _drawn(report: MinedReport) -> tuple[Section, ...]:
    """The best chip to scale beside the one it is built on."""
    base, design = report.base_chip, report.best[0].design
    if base is None:
        return ()
    chip = replace(template_chip(base, design), name="best chip")
    charts = (*floorplan(chip, base), *area_by_part((chip, base)), *power_by_part((chip, base)))
    return (Section(title="The chip, drawn", charts=charts),) if charts else ()


def format_design(design: Design) -> str:
    """What the short form abbreviates, each part named."""
    return (
        f"{design.num_tensor:,} tensor cores of {design.num_rows} x {design.num_cols} and {design.num_vector:,} vector"
        f" cores of {design.num_lanes} lanes"
    )


def trail_of(report: MinedReport) -> Trail:
    """Every design that was better than all before; what none is below is known at the end alone."""
    found = report.mined
    marks = [Mark(num_done=one.num_evaluated, best=1 / one.loss, bound=0.0) for one in found.improvements]
    best, bound = 1 / found.best.loss, 1 / found.bound if found.bound > 0 else 0.0
    marks.append(Mark(num_done=found.num_evaluated, best=best, bound=best if found.is_proven else bound))
    return Trail(
        counted="designs",
        done="scheduled",
        unit=f"times {report.base}",
        is_more_better=True,
        marks=tuple(marks),
        words=lambda times: f"{number(times)} times {report.base}",
    )


def _cards(report: MinedReport) -> tuple[Card, ...]:
    best, found = report.best[0], report.mined
    gap = "optimal in the model" if found.is_proven else f"gap {percent(found.gap_frac, 2)}"
    of_what = report.tasks[0].name if report.is_single else counted(len(report.tasks), "model")
    return (
        Card(
            label="The chip",
            value=str(best.design),
            note=f"{format_design(best.design)}, for {of_what}, by {report.metric_name}",
        ),
        Card(label=f"Over {report.base}", value=gain(report.gain_frac(best, report.reference))),
        Card(label="Area", value=f"{best.area_mm2:.1f} mm2", note=f"of {report.limits.area_mm2:g}"),
        Card(label="Power", value=f"{best.power_w:.1f} W", note=f"of {report.limits.power_w:g}"),
        Card(label="Searched", value=f"{found.num_points:,} designs", note=gap),
    )
