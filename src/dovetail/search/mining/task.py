"""What chips are mined for: a model to train by a plan, whether it fits a chip's memory, and how it could."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from dovetail.errors import InvalidInput, NotModelled
from dovetail.evaluate import MemoryUse, memory_use
from dovetail.hardware.chip import Chip
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters.template_torus import template_torus
from dovetail.parallel.check import check_plan
from dovetail.parallel.placement import placement
from dovetail.parallel.plan import Plan
from dovetail.parallel.pools import on_pools
from dovetail.parallel.sharding import shard
from dovetail.search.mining.load import TrainingJob, check_update, job_of
from dovetail.workload.graph import Axis
from dovetail.workload.workload import Workload

MAX_DEVICES_LOG, MAX_RANKS_LOG = 10, 5  # tried as a way out: up to 1,024 devices, and 32 tensor ranks


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
        pieces = shard(self.workload.training_graph(), on_pools(self.plan, self.cluster(chip)))
        return memory_use(pieces, self.workload.precision, chip.usable_bytes)


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
    """`task` a sample at a time on the fewest devices of those tried that hold it; or nothing.

    One device is tried first, then powers of two and three times those, cut by stages, tensors and copies that share
    their state. Of as many devices the fewest copies and the most stages, and of what saves memory as little as fits.
    """
    whole = replace(task, plan=Plan(microbatch=1)).memory(chip)
    state_bytes = sum(one.weights_bytes + one.gradients_bytes + one.optimizer_bytes for one in whole.stages)
    rules = task.workload.training_graph().rules
    num_experts = next((rule.count for rule in rules if rule.axis == Axis.EXPERT), 1)
    for stages, ranks, copies in _cuts(task.workload.global_batch):
        if state_bytes > stages * ranks * copies * chip.usable_bytes:  # no cut has less in all than the whole
            continue
        cut = Plan(
            pipeline_parallel=stages,
            tensor_parallel=ranks,
            data_parallel=copies,
            expert_parallel=math.gcd(num_experts, ranks * copies),
        )
        thrifty = [replace(task, plan=replace(cut, **saving)) for saving in _savings(ranks, copies)]
        if not _can_be_mined(thrifty[-1], chip) or not thrifty[-1].memory(chip).fits:
            continue
        yield next(tried for tried in thrifty if _can_be_mined(tried, chip) and tried.memory(chip).fits)
        return


def _cuts(global_batch: int) -> list[tuple[int, int, int]]:
    """Stages, tensor ranks and copies to try, on one device first."""
    powers = [2**log for log in range(MAX_DEVICES_LOG + 1)]
    found = [
        (stages, ranks, copies)
        for stages in (*powers, *(3 * power for power in powers))
        for ranks in powers[: MAX_RANKS_LOG + 1]
        for copies in powers
        if stages * ranks * copies <= powers[-1] and global_batch % copies == 0
    ]
    return sorted(found, key=lambda cut: (math.prod(cut), cut[2], -cut[0]))


def _savings(ranks: int, copies: int) -> list[dict[str, Any]]:
    """What a plan of so many tensor ranks and copies can do to need less memory, the most of it last."""
    states = (0, 1, 3) if copies > 1 else (0,)
    sequences = (False, True) if ranks > 1 else (False,)
    return [
        {"microbatch": 1, "recompute": (policy,), "sequence_parallel": is_cut, "zero_stage": state}
        for state, policy, is_cut in itertools.product(states, ("none", "full"), sequences)
    ]


def _can_be_mined(task: Task, chip: Chip) -> bool:
    """Whether the model's shape allows the plan, its axes nest in a torus, and its update waits for no other device."""
    try:
        check_update(task.plan, task.workload.precision)
        check_plan(task.plan, task.workload.training_graph(), task.plan.num_devices)
        placement(task.plan, task.cluster(chip).topology)
    except (InvalidInput, NotModelled):  # more stages than layers, heads that do not divide, degrees that no side has
        return False
    return True
