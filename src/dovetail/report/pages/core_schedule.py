"""Operators on the cores of a chip as a page: what runs when, and what is held meanwhile."""

from __future__ import annotations

from dovetail.opsched.problem import CoreSchedule
from dovetail.opsched.tensors import peak_hbm_bytes
from dovetail.report.charts.counters import held_over_time
from dovetail.report.charts.tracks import tracks_chart
from dovetail.report.core_schedule import fits, schedule_figures, schedule_processes
from dovetail.report.figures import tables_of
from dovetail.report.labels import percent
from dovetail.report.page import Card, Page, Section
from dovetail.units import format_bytes, format_s


def schedule_page(schedule: CoreSchedule, *, model: str, block: str, chip: str, limit_s: float) -> Page:
    """The arguments are those of `report.core_schedule.schedule_figures`."""
    head, operators = tables_of(schedule_figures(schedule, model=model, block=block, chip=chip, limit_s=limit_s))
    processes = schedule_processes(schedule, chip)
    hbm_bytes = peak_hbm_bytes(schedule)
    gap = "the best there is" if schedule.gap_frac <= 0 else f"at most {percent(schedule.gap_frac)} could be saved"
    unfit = "" if fits(schedule) else f"; HBM of {format_bytes(schedule.problem.hbm_bytes)} does not hold it"
    return Page(
        title=head.title,
        sentence=f"{model}'s {block} takes {format_s(schedule.makespan_s)} on the cores of {chip}: {gap}{unfit}.",
        cards=(
            Card(label="Time", value=format_s(schedule.makespan_s), note=gap),
            Card(label="Bound", value=format_s(schedule.bound_s), note="no schedule is shorter"),
            Card(label="HBM", value=format_bytes(hbm_bytes), note=f"of {format_bytes(schedule.problem.hbm_bytes)}"),
        ),
        asked=(("Model", f"{model}, {block}"), ("Chip", chip)),
        sections=(
            Section(
                title="What runs when",
                charts=(
                    tracks_chart(processes, "schedule", "Operators on cores"),
                    held_over_time(processes[0].counters),
                ),
            ),
            Section(title="Every figure", tables=(head, operators), is_folded=True),
        ),
    )
