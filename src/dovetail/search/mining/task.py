"""What chips are mined for: a model to train by a plan, whether it fits a chip's memory, and how it could."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from dovetail.errors import InvalidInput
from dovetail.evaluate import MemoryUse, memory_use
from dovetail.hardware.chip import Chip
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters.template_torus import template_torus
from dovetail.plan.check import check_plan
from dovetail.plan.plan import Plan
from dovetail.plan.shard import shard
from dovetail.search.mining.load import TrainingJob, job_of
from dovetail.workload.workload import Workload

MAX_STAGES_LOG, MAX_RANKS_LOG = 7, 3  # tried as a way out: up to 128 stages of 8 tensor ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A model to train by a plan, on as many chips as the plan has devices, in a torus."""

    workload: Workload
    plan: Plan

    @property
    def name(self) -> str:
        return self.workload.model.name

    def cluster(self, chip: Chip) -> Cluster:
        return template_torus(chip, self.plan.num_devices)

    def job(self, chip: Chip) -> TrainingJob:
        return job_of(self.name, self.workload, self.plan, self.cluster(chip))

    def memory(self, chip: Chip) -> MemoryUse:
        """What its devices hold, of what `chip` has; every design built on one chip has its memory."""
        pieces = shard(self.workload.training_graph(), self.plan)
        return memory_use(pieces, self.workload.precision, chip.hbm.capacity_bytes)


def whole_batch(workload: Workload) -> Task:
    """On one device, all samples at once."""
    return Task(workload=workload, plan=Plan(microbatch=workload.global_batch))


def fitting_batch(workload: Workload, chip: Chip) -> Task:
    """On one device with the most samples, in powers of two up to those of `workload`, that fit; or with a single one.

    So a model can be named without saying how large its batch is.
    """
    batch = 2 ** (workload.global_batch.bit_length() - 1)
    task = whole_batch(replace(workload, global_batch=batch))
    while batch > 1 and not task.memory(chip).fits:
        batch //= 2
        task = whole_batch(replace(workload, global_batch=batch))
    return task


def fitting_cut(task: Task, chip: Chip) -> Iterator[Task]:
    """`task` cut by stages, and by tensors where that is not enough, on the fewest devices that hold it; or nothing.

    Tried in powers of two, a sample at a time, without recompute and with; of as many devices, the most stages first.
    """
    graph = task.workload.training_graph()
    cuts = [(2**stages, 2**ranks) for stages in range(1, MAX_STAGES_LOG + 1) for ranks in range(MAX_RANKS_LOG + 1)]
    for stages, ranks in sorted(cuts, key=lambda cut: (cut[0] * cut[1], -cut[0])):
        for policy in ("none", "full"):
            plan = Plan(pipeline_parallel=stages, tensor_parallel=ranks, microbatch=1, recompute=(policy,))
            try:
                check_plan(plan, graph, plan.num_devices)
            except InvalidInput:  # more stages than layers, or heads that do not divide
                continue
            tried = replace(task, plan=plan)
            if tried.memory(chip).fits:
                yield tried
                return
