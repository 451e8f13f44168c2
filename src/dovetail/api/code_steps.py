"""The step that a model's code takes on a chip, beside the step with the fused kernels that capture recognises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dovetail.accuracy.jobs import PURE_BF16, alone
from dovetail.errors import DovetailError
from dovetail.hardware.chip import Chip
from dovetail.importers.captures import CaptureJob
from dovetail.importers.target_steps import TrainedAs, recorded_target
from dovetail.parallel.plan import Plan
from dovetail.report.eager_step import eager_record
from dovetail.report.plain import Record
from dovetail.step.eager import EagerStep, HostPace, eager_step
from dovetail.step.eager_advice import Advice, advice_of
from dovetail.step.step import training_step
from dovetail.workload.layers import Sample
from dovetail.workload.recorded.captured import Captured
from dovetail.workload.training import training_graph


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CodeStep:
    """A step as written: `outcome` has its times by operator; `fused_step_s` is 0 where nothing was recognised."""

    name: str
    chip: str
    batch: int
    seq: int
    outcome: EagerStep
    fused_step_s: float
    memory_bytes: float
    advice: tuple[Advice, ...] = ()

    @property
    def record(self) -> Record:
        return eager_record(
            self.outcome,
            batch=self.batch,
            seq=self.seq,
            fused_step_s=self.fused_step_s,
            memory_bytes=self.memory_bytes,
            advice=self.advice,
        )


def code_step(
    asked: CaptureJob,
    trained: TrainedAs,
    chip: Chip,
    host: HostPace,
    found: Captured | None,
    tell: Callable[[str], None],
) -> tuple[CodeStep, int]:
    """The step of what was asked for on `chip` beside `host`, and how many parameters it has."""
    target = recorded_target(asked, trained, tell)
    tell("pricing the step")
    outcome = eager_step(target.step, chip, host)
    step = CodeStep(
        name=found.name if found is not None else target.name,
        chip=chip.name,
        batch=target.batch,
        seq=target.seq,
        outcome=outcome,
        fused_step_s=_fused_step_s(found, target.batch, target.seq, trained, chip) if found is not None else 0.0,
        memory_bytes=chip.hbm.capacity_bytes * chip.hbm_visible_frac,
        advice=advice_of(target.step, chip, host),
    )
    return step, target.step.num_parameters


def _fused_step_s(found: Captured, batch: int, seq: int, trained: TrainedAs, chip: Chip) -> float:
    """What the recognised model takes in bf16 with one kernel for each norm, activation, attention and loss."""
    plan = Plan(microbatch=batch, recompute=("full" if trained.is_checkpointed else "none",))
    try:
        graph = training_graph(found.forward(Sample(batch=batch, seq=seq, dtype="bf16", kernels="fused")), PURE_BF16)
        return float(training_step(graph, plan, alone(chip), PURE_BF16).step_s)
    except DovetailError:  # recognised for another length, or memory that a plan must leave free
        return 0.0
