"""Published training steps on TPUs, as MaxText ran them: seconds of a step, and whether it fits, by generation."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import Decision, Prepared, TableContext, chip_for
from dovetail.accuracy.runs.jobs import PublishedRun
from dovetail.accuracy.runs.row import Row
from dovetail.accuracy.runs.timing import check_dtypes
from dovetail.accuracy.runs.tpu_rows import tpu_run_of
from dovetail.accuracy.sets import Format, sets
from dovetail.errors import DovetailError
from dovetail.evaluate import MemoryUse, memory_use, with_host
from dovetail.hardware.chip import Chip
from dovetail.parallel.check import check_plan
from dovetail.parallel.placement import placement
from dovetail.parallel.plan import columns_of
from dovetail.parallel.sharding import shard
from dovetail.step.step import step_times
from dovetail.units import GIBI
from dovetail.workload.graph import FloatArray
from dovetail.workload.training import training_graph

NEEDED = ("row_id", "chip", "num_chips", "model", "per_device_batch", "remat", "step_s")
SHAPE = ("layers", "hidden", "heads", "head_dim", "ffn", "vocab", "seq", "tensor_parallel", "expert_parallel")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedTpuRun:
    """A run and what we say of it."""

    job: PublishedRun
    step_s: float
    memory: MemoryUse

    @property
    def what(self) -> str:
        use, job = self.memory, self.job
        verdict = "fits" if use.fits else "does not fit"
        return (
            f"{job.name} {job.model.name}: {verdict}, {use.need_bytes / GIBI:.1f} of {use.limit_bytes / GIBI:.1f} GiB"
        )


def timed_tpu_run(row: Row) -> TimedTpuRun:
    """One row; raises `DovetailError` where it cannot be expressed, cannot run or is of something not modelled."""
    job = tpu_run_of(row)
    cluster = job.cluster
    check_dtypes(job)
    graph = training_graph(job.model.forward(job.sample), job.precision)
    check_plan(job.plan, graph, cluster.num_devices)
    placement(job.plan, cluster.topology)
    memory = memory_use(shard(graph, job.plan), job.precision, cluster.usable_bytes)
    times = step_times(graph, columns_of([job.plan]), cluster, job.precision)
    return TimedTpuRun(job=job, step_s=float(times.step_s[0]), memory=with_host(memory, job.plan, cluster))


def prepare(measurements: Measurements, given: TableContext) -> tuple[Prepared, ...]:
    """Every row that can be expressed, by chip; the others are named with their reason."""
    found: list[TimedTpuRun] = []
    reasons: Counter[str] = Counter()
    for cells, line in zip(measurements.rows, measurements.lines, strict=True):
        try:
            found.append(timed_tpu_run(Row(cells=dict(zip(measurements.columns, cells, strict=True)))))
        except DovetailError as error:
            reasons[f"rows not predicted: {error.message} (line {line})"] += 1
    seconds: FloatArray = np.array([timed.step_s for timed in found])

    def predicted(_chip: Chip) -> FloatArray:
        return seconds

    kinds = tuple(timed.job.publisher for timed in found)
    decisions = (
        Decision(kind=kind, has_run=True, fits=one.memory.fits) for kind, one in zip(kinds, found, strict=True)
    )
    return (
        Prepared(
            name=measurements.name,
            chip=chip_for(given),
            unit="s",
            kinds=kinds,
            whats=tuple(timed.what for timed in found),
            measured=np.array([timed.job.measured_s for timed in found]),
            predicted=predicted,
            is_of_chip=False,
            promise="published tpu",
            skipped=tuple(sorted(reasons.items())),
            decisions=tuple(decisions),
        ),
    )


sets.register("published-tpu")(
    Format(needed=NEEDED, summary=f"published steps on TPUs: {', '.join((*NEEDED, *SHAPE))}", prepare=prepare)
)
