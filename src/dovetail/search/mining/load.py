"""What one device does for a microbatch, and once a step: the graphs that a design is scored by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.errors import NotModelled
from dovetail.hardware.chip import Chip
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.topology import Group, num_ranks
from dovetail.opsched.batch import scheduled
from dovetail.opsched.slices import slice_costs
from dovetail.opsched.work import Work, chip_batch, work_of
from dovetail.parallel.check import check_plan
from dovetail.parallel.collectives import OP_COLLECTIVES, op_payload_bytes
from dovetail.parallel.dispatchers import ALL_TO_ALL
from dovetail.parallel.placement import Placement, placement
from dovetail.parallel.plan import Plan
from dovetail.parallel.sharding import ShardedPlan, shard
from dovetail.step.communication import timed
from dovetail.step.step import training_step
from dovetail.step.work import COMM_AXES
from dovetail.workload.graph import Block, FloatArray, Graph, Ops, Phase
from dovetail.workload.operators import OPERATORS, Unit
from dovetail.workload.optimizer import Precision
from dovetail.workload.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Repeated:
    """A graph, and how often it runs."""

    work: Work
    count: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Load:
    """What a device of one stage does: `passes` for each of `num_microbatches`, `updates` and `per_step_s` once a step.

    With a single microbatch on a single stage the update is part of the pass, so that it runs beside the backward pass;
    stages of a pipeline update side by side, so theirs is once a step. `forward_frac` is the share of a pass that is
    forward, on the chip that designs are built on.
    """

    passes: tuple[Repeated, ...]
    updates: tuple[Repeated, ...]
    per_step_s: float
    forward_frac: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingJob:
    """A model to train: its stages, a device of each; `num_devices` in all, `num_samples` (or tokens) a step."""

    name: str
    stages: tuple[Load, ...]
    num_microbatches: int
    num_devices: int
    num_samples: int

    @property
    def num_stages(self) -> int:
        return len(self.stages)


def job_of(
    name: str, workload: Workload, plan: Plan, cluster: Cluster, *, is_forward_only: bool = False
) -> TrainingJob:
    """`workload` cut by `plan` for the devices of `cluster`, of whose chip only memory and links matter here.

    The plan's network rows take what their collectives take on `cluster`; what is exchanged once a step is what the
    step model leaves exposed on its chip. With `is_forward_only` only the forward pass is there, as for inference.
    """
    check_mined(plan)
    check_update(plan, workload.precision)
    graph = workload.training_graph()
    check_plan(plan, graph, cluster.num_devices)
    cut = shard(graph, plan)
    works = _Works(cut, placement(plan, cluster.topology), cluster.chip, workload.precision)
    is_whole = cut.num_microbatches == cut.num_stages == 1
    passing = (Phase.FORWARD,) if is_forward_only else tuple(p for p in Phase if p != Phase.UPDATE or is_whole)
    ending = () if is_whole or is_forward_only else (Phase.UPDATE,)
    is_alone = plan.data_parallel == plan.pipeline_parallel == 1
    per_step_s = 0.0 if is_alone else _exposed_s(graph, plan, cluster, workload.precision)
    return TrainingJob(
        name=name,
        stages=tuple(
            Load(
                passes=works.of(stage, passing),
                updates=works.of(stage, ending),
                per_step_s=per_step_s,
                forward_frac=works.forward_frac(stage, passing) if cut.num_stages > 1 else 1.0,  # of one, none waits
            )
            for stage in range(cut.num_stages)
        ),
        num_microbatches=cut.num_microbatches,
        num_devices=plan.num_devices,
        num_samples=graph.num_tokens,
    )


def check_mined(plan: Plan) -> None:
    """Raises where a plan has what is not part of the graphs that designs are scored by."""
    if plan.interleave > 1:
        message = f"chips are mined for pipelines without interleaving; got {plan.interleave}, so choose interleave: 1"
        raise NotModelled(message, "interleave")
    if plan.schedule != "1f1b":
        message = f"chips are mined for 1F1B pipelines; got {plan.schedule}, so choose schedule: 1f1b"
        raise NotModelled(message, "schedule")
    for key, is_plain, value in (
        ("offload_optimizer", not plan.offload_optimizer, "false"),
        ("offload_activations_frac", plan.offload_activations_frac == 0, "0"),
        ("context_comm_type", plan.context_comm_type == "gather" or plan.context_parallel == 1, "gather"),
        ("dispatcher", plan.dispatcher == ALL_TO_ALL, ALL_TO_ALL),
    ):
        if not is_plain:
            raise NotModelled(f"chips are mined for plans without {key}; choose {key}: {value}", key)


def check_update(plan: Plan, precision: Precision) -> None:
    """Raises where the update itself waits for other devices, which is not part of those graphs."""
    is_alone = plan.tensor_parallel == plan.expert_tensor_parallel == 1
    is_whole = plan.zero_stage == 0 or plan.data_parallel * plan.context_parallel == 1
    if precision.entry.collectives and not (is_alone and is_whole):
        message = f"chips are mined for updates that wait for no other device; {precision.optimizer}'s does here"
        raise NotModelled(f"{message}, so choose tensor_parallel: 1 and zero_stage: 0, or optimizer: adam", "optimizer")


class _Works:
    """Graphs of the blocks of a sharded model; stages that hold the same block share its graph."""

    def __init__(self, cut: ShardedPlan, place: Placement, chip: Chip, precision: Precision) -> None:
        self._cut, self._place, self._chip, self._precision = cut, place, chip, precision
        self._known: dict[tuple[int, tuple[Phase, ...]], Work] = {}
        self._known_s: dict[int, float] = {}

    def of(self, stage: int, phases: tuple[Phase, ...]) -> tuple[Repeated, ...]:
        """What `stage` runs of `phases`."""
        found = (Repeated(work=self._work(block, phases), count=span.count) for span, block in self._cut.held(stage))
        return tuple(one for one in found if len(one.work.ops))

    def forward_frac(self, stage: int, phases: tuple[Phase, ...]) -> float:
        """How much of `phases` is the forward pass, each scheduled by itself."""
        taken_s = [
            sum(one.count * self._makespan_s(one.work) for one in self.of(stage, chosen_phases))
            for chosen_phases in ((Phase.FORWARD,), phases)
        ]
        return min(1.0, taken_s[0] / taken_s[1])

    def _makespan_s(self, work: Work) -> float:
        if id(work) not in self._known_s:
            costs = slice_costs(work.ops, [self._chip], work.exchange_s)
            self._known_s[id(work)] = float(scheduled(chip_batch(work, [self._chip], costs)).makespan_s[0])
        return self._known_s[id(work)]

    def _work(self, block: Block, phases: tuple[Phase, ...]) -> Work:
        key = (id(block), phases)
        if key not in self._known:
            ops = block.ops.where(np.isin(block.ops.phase, phases))
            collective_s = collectives_s(ops, self._cut.plan, self._place, self._chip.calibration.link_frac)
            self._known[key] = work_of(ops, self._precision, collective_s, is_layer=block.is_layer)
        return self._known[key]


def collectives_s(ops: Ops, plan: Plan, place: Placement, link_frac: float) -> FloatArray:
    """Seconds of the collective behind each network row, 0 for all other rows."""
    taken_s = np.zeros(len(ops))
    rows = np.flatnonzero(ops.unit == Unit.NETWORK)
    for row, payload_bytes in zip(rows, op_payload_bytes(ops, rows, plan.context_parallel), strict=True):
        op = OP_COLLECTIVES[OPERATORS[ops.kind[row]].name]
        collective = op.collective(is_sequence_parallel=plan.sequence_parallel)
        group: Group = getattr(place, op.group)
        if collective and num_ranks(group) > 1:
            taken_s[row] = timed(collective, np.array([payload_bytes]), group, link_frac)[0][0]
    return taken_s


def _exposed_s(graph: Graph, plan: Plan, cluster: Cluster, precision: Precision) -> float:
    """What gradients on their way to other copies, and activations to other stages, keep a step waiting."""
    step = training_step(graph, plan, cluster, precision)
    return float(sum(step.comm[COMM_AXES.index(axis)].exposed_s for axis in ("dp", "pp")))
