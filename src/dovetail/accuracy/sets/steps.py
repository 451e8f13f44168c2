"""Whole training steps of models on one device: milliseconds an iteration."""

from __future__ import annotations

from collections import Counter

import numpy as np

from dovetail.accuracy.jobs import Job, job_graph, step_job, step_s, why_not
from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import Prepared, TableContext, chip_for, promise_for
from dovetail.accuracy.sets import Format, sets
from dovetail.errors import NotModelled
from dovetail.hardware.chip import Chip
from dovetail.units import MILLI
from dovetail.workload.graph import FloatArray

SHAPE = ("layers", "micro_batch", "seq")
NEEDED = ("model", *SHAPE, "recompute", "mode", "iter_ms")


def prepare(measurements: Measurements, given: TableContext) -> tuple[Prepared, ...]:
    chip = chip_for(given)
    jobs, skipped = step_jobs(measurements)
    table = measurements.where(np.array([job is not None for job in jobs], dtype=np.bool_))
    pairs = [(job_graph(job), job.plan) for job in jobs if job is not None]

    def predicted(chip: Chip) -> FloatArray:
        return np.array([step_s(graph, plan, chip) for graph, plan in pairs])

    columns = (table.words(column) for column in ("model", *SHAPE, "recompute"))
    prepared = Prepared(
        name=measurements.name,
        chip=chip,
        unit="s",
        kinds=tuple(table.words("mode")),
        whats=tuple(
            f"{model} {layers}L mb{batch} s{seq}{' recompute' if again == '1' else ''}"
            for model, layers, batch, seq, again in zip(*columns, strict=True)
        ),
        measured=table.positive("iter_ms") * MILLI,
        predicted=predicted,
        promise=promise_for(chip, "h200 steps"),
        skipped=skipped,
    )
    return (prepared,)


def step_jobs(table: Measurements) -> tuple[list[Job | None], tuple[tuple[str, int], ...]]:
    """The job of every row, None where none can be expressed, and the reasons for those."""
    counts = [table.counts(column) for column in SHAPE]
    again = table.counts("recompute", least=0) > 0
    models, modes = table.words("model"), table.words("mode")
    jobs: list[Job | None] = []
    reasons: Counter[str] = Counter()
    for row in range(len(table)):
        layers, batch, seq = (int(column[row]) for column in counts)
        shape = {"layers": layers, "batch": batch, "seq": seq}
        try:
            jobs.append(step_job(model=models[row], is_recomputed=bool(again[row]), mode=modes[row], **shape))
        except NotModelled as error:  # a table of one's own may hold more than we know
            reasons[why_not(error)] += 1
            jobs.append(None)
    return jobs, tuple(sorted(reasons.items()))


sets.register("steps")(
    Format(
        needed=NEEDED,
        summary="training steps: model, layers, micro_batch, seq, recompute, mode, iter_ms",
        prepare=prepare,
    )
)
