"""Write src/dovetail/accuracy/data/residuals.csv again: `python -m benchmarks.residuals`.

Times every published run that ships with today's model; tests/validation/test_residuals.py says when that is due.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from benchmarks.tpu_steps import left_out, runs
from dovetail import __version__
from dovetail.accuracy.residuals import COLUMNS, Residual, cells
from dovetail.accuracy.runs.jobs import PublishedRun
from dovetail.accuracy.runs.row import Row
from dovetail.accuracy.runs.timing import Timed, timed_rows
from dovetail.files.measurements import load_measurements, shipped_folder

TABLE = "published/published_training.csv"
STALE = 0.005  # of a log ratio, from which on the shipped errors are those of another model
HEAD = f"""\
# Written by `python -m benchmarks.residuals`; do not edit. What intervals of predictions rest on.
# Every complete row of published_training.csv that is not read off a figure, by the model of Dovetail {__version__};
# and of published_tpu.csv, where each generation is predicted by constants that were fitted on the others.
# log_ratio: natural logarithm of measured over predicted seconds of a step. row_id and publisher are that table's:
# papers, vendors' performance pages and MLPerf results, named in its source column. mixture: 1 for mixtures of experts.
"""


def timed_residuals(every: int = 1) -> tuple[Residual, ...]:
    """By today's model, of all rows of the table that ships or of one in so many, by name."""
    table = load_measurements(shipped_folder(TABLE))
    found, _ = timed_rows(Row(cells=dict(zip(table.columns, row, strict=True))) for row in table.rows[::every])
    tpu = () if every > 1 else tpu_residuals()
    return tuple(sorted((*residuals(found), *tpu), key=lambda row: row.name))


def tpu_residuals() -> tuple[Residual, ...]:
    """Of published steps on TPUs, each generation by constants of the others: how far off on a chip not fitted on."""
    by_chip = {one.chip: iter(one.errors.tolist()) for one in left_out()}
    found = []
    for job in runs():
        step_s = job.measured_s * (1 + next(by_chip[job.publisher]))
        found.append(_residual(Timed(run=replace(job, publisher=_source(job)), step_s=step_s, fits=True)))
    return tuple(found)


def _source(job: PublishedRun) -> str:
    return "MaxText" if job.model.name.startswith("mt-") else "tpu-recipes"


def moved(today: Iterable[Residual], shipped: Iterable[Residual]) -> list[str]:
    """Names of runs that only one of both has, or whose errors differ."""
    ratios, others = ({row.name: row.log_ratio for row in each} for each in (today, shipped))
    both = sorted(ratios.keys() & others.keys())
    return [*sorted(ratios.keys() ^ others.keys()), *(one for one in both if abs(ratios[one] - others[one]) > STALE)]


def residuals(rows: Iterable[Timed]) -> tuple[Residual, ...]:
    """Of the runs that state everything, in their order."""
    return tuple(_residual(timed) for timed in rows if timed.is_complete)


def _residual(timed: Timed) -> Residual:
    run, plan = timed.run, timed.run.plan
    return Residual(
        name=run.name,
        publisher=run.publisher,
        chip=run.cluster.chip.name,
        num_devices=run.cluster.num_devices,
        tensor_parallel=plan.tensor_parallel,
        context_parallel=plan.context_parallel,
        pipeline_parallel=plan.pipeline_parallel,
        data_parallel=plan.data_parallel,
        expert_parallel=plan.expert_parallel,
        zero_stage=plan.zero_stage,
        is_mixture=run.model.experts is not None,
        precision=run.precision.compute,
        log_ratio=math.log(run.measured_s / timed.step_s),
    )


def text_of(rows: Sequence[Residual]) -> str:
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(cells(row) for row in rows)
    return HEAD + written.getvalue()


def main() -> None:
    rows = timed_residuals()
    shipped_folder("residuals.csv").write_text(text_of(rows), encoding="utf-8")
    print(f"{len(rows)} rows written")


if __name__ == "__main__":
    main()
