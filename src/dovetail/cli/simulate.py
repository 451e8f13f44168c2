"""`dovetail simulate`: from what was asked to an answer on the screen."""

from __future__ import annotations

from dovetail.cli.asked import Asked, job_of, placed_in
from dovetail.cli.screen import show_json, show_tables
from dovetail.evaluate import Infeasible, evaluate
from dovetail.files.job import countable
from dovetail.files.residuals import load_residuals
from dovetail.report.outcome import tables
from dovetail.report.record import record


def answer(asked: Asked, *, as_json: bool) -> bool:
    """Shows the answer, and says whether the plan fits."""
    job = job_of(asked)
    with placed_in(asked.spec), countable():
        result = evaluate(job.workload, job.cluster, job.plan)
    if as_json:
        show_json(record(result, job.name, load_residuals()))
    else:
        show_tables(tables(result, job.name, load_residuals()))
    return not isinstance(result, Infeasible)
