"""Whole training steps on one H200: seconds measured and seconds predicted, `python -m benchmarks.step_rows`.

First physics is compared here, not fitted here: its five numbers come from single operators.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.memory_rows import h200_job, read_rows
from dovetail.hardware.catalog import chips
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.link import Link
from dovetail.hardware.topology import Dimension, Topology
from dovetail.plan.placement import placement
from dovetail.plan.shard import shard
from dovetail.schedule.step import training_step
from dovetail.units import GIGA, MILLI
from dovetail.workload.training import training_graph


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """One measured step and ours."""

    what: str
    measured_s: float
    predicted_s: float

    @property
    def error_frac(self) -> float:
        return self.predicted_s / self.measured_s - 1.0


def one_device() -> Cluster:
    """An H200 alone; its link is never used."""
    link = Link(bandwidth_bytes_per_s=GIGA, latency_s=0.0)
    alone = Dimension(name="alone", kind="switch", num_devices=1, link=link)
    return Cluster(name="one-h200", chip=chips["h200-sxm"](), topology=Topology(dimensions=(alone,)), sources=())


def step_rows() -> Iterator[StepRow]:
    cluster = one_device()
    for row in read_rows("h200_models.csv"):
        job = h200_job(row)
        cut = shard(training_graph(job.model.forward(job.sample), job.precision), job.plan)
        step = training_step(cut, placement(job.plan, cluster.topology), cluster, job.precision)
        what = f"{row['model']} {row['layers']}L mb{row['micro_batch']} recompute={row['recompute']} {row['mode']}"
        yield StepRow(what=what, measured_s=float(row["iter_ms"]) * MILLI, predicted_s=step.step_s)


def main() -> None:
    rows = tuple(step_rows())
    for row in rows:
        measured_ms, predicted_ms = row.measured_s / MILLI, row.predicted_s / MILLI
        print(f"{row.what:44} {measured_ms:7.1f} ms  ours {predicted_ms:7.1f} ms  {row.error_frac:+6.1%}")
    print(f"mean error {statistics.fmean(abs(row.error_frac) for row in rows):.1%} over {len(rows)} steps")


if __name__ == "__main__":
    main()
