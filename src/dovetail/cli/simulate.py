"""`dovetail simulate`: from what was asked to an answer on the screen."""

from __future__ import annotations

from dovetail.cli.asked import Asked, job_of, placed_in
from dovetail.cli.screen import show_json, show_tables
from dovetail.errors import InvalidInput
from dovetail.evaluate import Infeasible, evaluate
from dovetail.files.job import countable
from dovetail.files.residuals import load_residuals
from dovetail.report.outcome import tables
from dovetail.report.record import record


def answer(asked: Asked, *, as_json: bool, num_tokens: float = 0.0) -> bool:
    """Shows the answer, and says whether the plan fits."""
    job = job_of(asked)
    model = job.workload.model
    if num_tokens and model.sample != "tokens":
        raise InvalidInput(f"--tokens is for models of tokens, and {model.name} takes {model.sample}; leave it out")
    with placed_in(asked.spec), countable():
        result = evaluate(job.workload, job.cluster, job.plan)
    if as_json:
        show_json(record(result, job.name, load_residuals(), num_tokens))
    else:
        show_tables(tables(result, job.name, load_residuals(), num_tokens))
    return not isinstance(result, Infeasible)
