"""Measured and published memory beside ours: every row that a plan and a workload can express.

A row that cannot be expressed carries the word why.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from dovetail.accuracy.jobs import Job
from dovetail.accuracy.measurements import LEAST, MOST
from dovetail.accuracy.memory_jobs import ZERO_BUBBLE, Fields, NotExpressed, memory_job
from dovetail.errors import DovetailError, InvalidInput, shown
from dovetail.evaluate import MemoryUse, memory_use
from dovetail.hardware.catalog import chips
from dovetail.parallel.check import check_plan
from dovetail.parallel.memory import stage_memories
from dovetail.parallel.sharding import shard
from dovetail.units import GIBI, GIGA
from dovetail.workload.training import training_graph

ANALYTIC = "analytic_not_measured"  # of the column `quality`: closed forms, not measured
CHIPS = {"A100-80GB": "a100-80gb-sxm", "H200": "h200-sxm", "B200": "b200"}
H100_96GB_BYTES = 95.0 * GIBI  # of Grand Teton's H100: total_memory in torchtitan's logs, recalled; 96 GiB as sold


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRow:
    """One measured figure; `predicted_bytes` is 0 and `why_not` says why when the row cannot be expressed."""

    row: str
    source: str
    what: str
    measured_bytes: float
    predicted_bytes: float
    kind: str  # what was measured: allocated or reserved by torch, or all that the device reports in use; or nothing
    why_not: str = ""
    need_bytes: float = 0.0  # all that we say a device needs, reserve and runtime included
    limit_bytes: float = 0.0  # all that PyTorch sees of it; 0 where the row does not state which device

    @property
    def is_measured(self) -> bool:
        return not self.why_not and self.measured_bytes > 0

    @property
    def has_run(self) -> bool:
        return self.kind != "out of memory"

    @property
    def is_decision(self) -> bool:
        return not self.why_not and self.limit_bytes > 0

    @property
    def is_decided_right(self) -> bool:
        return (self.need_bytes <= self.limit_bytes) == self.has_run

    @property
    def error_frac(self) -> float:
        return self.predicted_bytes / self.measured_bytes - 1.0


def figure_bytes(job: Job, kind: str) -> float:
    """Our peak over all stages, as a figure of this kind counts it."""
    return _figure_bytes(job_memory(job), kind)


def _figure_bytes(use: MemoryUse, kind: str) -> float:
    if kind == "allocated":
        return float(max(stage.total_bytes for stage in use.stages))
    return use.need_bytes if kind != "reserved" else use.fullest.reserved_bytes


def job_memory(job: Job, in_flight: Callable[[int, int], float] | None = None) -> MemoryUse:
    """What every stage of a job holds; `in_flight` of a stage where it is not that of the plan's schedule."""
    graph = training_graph(job.model.forward(job.sample), job.precision)
    check_plan(job.plan, graph, job.plan.num_devices)
    cut = shard(graph, job.plan)
    use = memory_use(cut, job.precision, 0.0)
    if in_flight is not None:
        num_stages = job.plan.pipeline_parallel
        held = [in_flight(stage, num_stages) for stage in range(num_stages)]
        use = replace(use, stages=stage_memories(cut, job.precision, held))
    return use


def _measured_bytes(row: Fields) -> float:
    if row["value_gib"]:
        return _figure(row, "value_gib") * GIBI
    return _figure(row, "value_raw") * GIGA if row["value_raw"] else 0.0


def _figure(row: Fields, column: str) -> float:
    try:
        value = float(row[column])
    except ValueError:
        value = math.nan
    if not (value == 0 or LEAST <= value <= MOST):
        rule = f"{column} must be 0, or a number from {LEAST:g} to {MOST:g}"
        raise InvalidInput(f"{rule}; got {shown(row[column])}", shown(row["mem_id"]))
    return value


def _kind(row: Fields) -> str:
    """What a row's figure counts. TorchTitan logs what is reserved; BLOOM's notes give what the device reports."""
    metric = row.get("metric", "allocated")
    if metric.startswith("OOM"):
        return "out of memory"
    if "max GPU memory" in metric:
        return "device"
    return "reserved" if "reserved" in metric or "torchtitan" in row.get("source", "") else "allocated"


def _limit_bytes(row: Fields) -> float:
    """Memory that PyTorch sees of the device a row names; 0 where it names none. What ran had no need of a reserve."""
    for word, chip in CHIPS.items():
        if row["gpu"].startswith(word):
            return chips[chip]().visible_bytes
    return H100_96GB_BYTES if row["gpu"].startswith("H100-96GB") else 0.0


def memory_row(row: Fields) -> MemoryRow:
    """A row of a table of memory, column names in lower case, beside ours."""
    kind, why_not, predicted_bytes, need_bytes = _kind(row), "", 0.0, 0.0
    try:
        use = job_memory(memory_job(row), ZERO_BUBBLE.get(row["pp_schedule"]))
        predicted_bytes, need_bytes = _figure_bytes(use, kind), use.need_bytes
    except NotExpressed as reason:
        why_not = str(reason)
    except DovetailError as error:  # a table of one's own may hold plans that cannot be
        why_not = error.message
    return MemoryRow(
        row=row["mem_id"],
        source=row["source"].split(",")[0][:48],
        what=f"{row['model']} {row['seq']} tp{row['tp']} pp{row['pp']} dp{row['dp']} mb{row['micro_batch']}",
        measured_bytes=_measured_bytes(row),
        predicted_bytes=predicted_bytes,
        kind=kind,
        why_not=why_not,
        need_bytes=need_bytes,
        limit_bytes=_limit_bytes(row),
    )
