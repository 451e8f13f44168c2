"""The step that a model's code takes on a chip, beside the step with the kernel sets of frameworks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from dovetail.accuracy.jobs import alone
from dovetail.columns import is_among
from dovetail.errors import DovetailError
from dovetail.hardware.chip import Chip
from dovetail.importers.captures import CaptureJob
from dovetail.importers.target_steps import TargetStep, TrainedAs, recorded_target
from dovetail.parallel.plan import Plan
from dovetail.report.eager_step import KernelStep, eager_record
from dovetail.report.plain import Record
from dovetail.step.eager import EagerStep, HostPace, eager_step
from dovetail.step.eager_advice import Advice, advice_of, uneven_vocabulary_s, worthwhile
from dovetail.step.step import training_step
from dovetail.workload.dispatched import OPTIMIZER, DispatchedStep
from dovetail.workload.kernel_sets import LAYERS, framework_sets, kernel_sets
from dovetail.workload.layers import Sample
from dovetail.workload.operators import ATTENTION_CODES
from dovetail.workload.optimizer import Precision
from dovetail.workload.optimizers import optimizers
from dovetail.workload.recorded.captured import Captured
from dovetail.workload.training import training_graph

FLOATS = ("bf16", "fp16", "fp32")
HOST_PACES = (
    "host_kernel_s", "host_gradient_s", "host_autograd_s", "host_exchange_s", "host_op_s", "host_call_s",
    "host_backward_s", "host_rerun_s",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CodeStep:
    """A step as written: `outcome` has its times by operator; `kernel_steps` are those with other kernels.

    Of the latter there are none where the model was not recognised.
    """

    name: str
    chip: str
    batch: int
    seq: int
    outcome: EagerStep
    memory_bytes: float
    kernel_steps: tuple[KernelStep, ...] = ()
    kernel_sets_as: str = ""  # dtype and optimizer of `kernel_steps`
    advice: tuple[Advice, ...] = ()
    eager_step_s: float = 0.0  # of a compiled step, what it takes without torch.compile

    @property
    def record(self) -> Record:
        return eager_record(
            self.outcome,
            batch=self.batch,
            seq=self.seq,
            memory_bytes=self.memory_bytes,
            kernel_steps=self.kernel_steps,
            kernel_sets_as=self.kernel_sets_as,
            advice=self.advice,
            eager_step_s=self.eager_step_s,
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
    eager = target
    if trained.is_compiled:
        eager = recorded_target(asked, replace(trained, is_compiled=False), tell)
    tell("pricing the step")
    outcome = eager_step(target.step, chip, host)
    uneven_s = uneven_vocabulary_s(eager.step, chip, host)
    job = kernel_set_job(eager.step, trained)
    step = CodeStep(
        name=found.name if found is not None else target.name,
        chip=chip.name,
        batch=target.batch,
        seq=target.seq,
        outcome=outcome,
        memory_bytes=chip.hbm.capacity_bytes * chip.hbm_visible_frac,
        kernel_steps=_kernel_steps(found, target, trained, with_slower_host(chip, host.slowdown), uneven_s, job)
        if found is not None
        else (),
        kernel_sets_as=job.words,
        advice=worthwhile(
            (*advice_of(target.step, chip, host), *_autocast_advice(asked, trained, outcome, chip, host, tell))
        ),
        eager_step_s=eager_step(eager.step, chip, host).step_s if trained.is_compiled else 0.0,
    )
    return step, target.step.num_parameters


def _autocast_advice(
    asked: CaptureJob,
    trained: TrainedAs,
    outcome: EagerStep,
    chip: Chip,
    host: HostPace,
    tell: Callable[[str], None],
) -> tuple[Advice, ...]:
    """What fp32 code gains under autocast, by the step that it then is; nothing where that is not modelled."""
    if trained.autocast or trained.is_compiled or _parameter_dtype(outcome.step) != "fp32":
        return ()
    try:
        under = recorded_target(asked, replace(trained, autocast="bf16"), tell).step
        gain_s = outcome.step_s - eager_step(under, chip, host).step_s
    except DovetailError:
        return ()
    words = "run the forward pass and the loss under torch.autocast('cuda', torch.bfloat16)"
    return (Advice(change=words, gain_s=gain_s, gain_frac=gain_s / outcome.step_s),)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSetJob:
    """The dtype and optimizer that kernel sets are priced with: those of the step, as far as they are modelled."""

    dtype: str
    precision: Precision
    words: str


def kernel_set_job(step: DispatchedStep, trained: TrainedAs) -> KernelSetJob:
    """Under autocast, weights are kept as frameworks keep them: in its dtype, with fp32 master weights.

    An optimizer that only torch.optim has is priced as Adam; the words say so.
    """
    name = trained.optimizer.partition(":")[0]
    known = next((entry.name for _, entry in optimizers.items() if name in (entry.name, *entry.aliases)), "")
    entry = optimizers[known or "adam"]
    whose = name if known else f"adam ({name} is not modelled there)"
    base = Precision(
        optimizer=entry.name,
        has_momentum=not entry.is_momentum_optional,  # that of torch.optim.SGD is 0 unless it is given
        has_persistent_gradients=False,
    )
    if trained.autocast:
        dtype = trained.autocast
        precision = replace(base, compute=dtype, weights=dtype)
        return KernelSetJob(dtype=dtype, precision=precision, words=f"{dtype} with fp32 master weights, {whose}")
    kept = _parameter_dtype(step)
    dtype = "tf32" if kept == "fp32" and step.has_tf32 else kept
    moments = kept if entry.follows_moments else "fp32"
    precision = replace(
        base, compute=dtype, weights=kept, gradients=kept, moments=moments, loss=kept, has_master_weights=False
    )
    return KernelSetJob(dtype=precision.storage, precision=precision, words=f"{dtype}, {whose}")


def _parameter_dtype(step: DispatchedStep) -> str:
    """Of most elements of what the optimizer reads: parameters, gradients and moments; bf16 where it reads nothing."""
    num: Counter[str] = Counter()
    for op in step.ops:
        if op.phase == OPTIMIZER:
            for tensor in op.inputs:
                num[tensor.dtype if tensor is not None else ""] += tensor.num_elements if tensor is not None else 0
    return max((one for one in FLOATS if num[one]), key=lambda one: num[one], default="bf16")


def with_slower_host(chip: Chip, slowdown: float) -> Chip:
    """`chip` beside a host that takes `slowdown` times as long for everything that it does."""
    own = chip.calibration
    slower = {name: slowdown * getattr(own, name) for name in HOST_PACES}
    return chip if slowdown == 1 else replace(chip, calibration=replace(own, **slower))


def _kernel_steps(
    found: Captured, target: TargetStep, trained: TrainedAs, chip: Chip, uneven_s: float, job: KernelSetJob
) -> tuple[KernelStep, ...]:
    """What the recognised model takes with fused kernels, and with each framework's where it has attention.

    Products of the model have columns of any number at one pace; a framework that pads no vocabulary has the seconds
    that an uneven one costs the recorded step.
    """
    batch, seq = target.batch, target.seq
    plan = Plan(microbatch=batch, recompute=("full" if trained.is_checkpointed else "none",))
    steps = []
    for name, kernels in (("fused", kernel_sets["fused"]), *framework_sets().items()):
        try:
            sample = Sample(batch=batch, seq=seq, dtype=job.dtype, kernels=name)
            graph = training_graph(found.forward(sample), job.precision)
            if kernels.framework and not any(is_among(block.ops.kind, ATTENTION_CODES).any() for block in graph.blocks):
                continue  # frameworks of transformers
            step_s = float(training_step(graph, plan, alone(chip), job.precision).step_s)
            step_s += uneven_s if kernels.framework and not kernels.pads_vocabulary else 0.0
        except DovetailError:  # recognised for another length, or memory that a plan must leave free
            continue
        steps.append(
            KernelStep(
                kernels=name,
                framework=kernels.framework,
                layers_of=kernels.layers_of,
                compiled=kernels.compiled == LAYERS,
                step_s=step_s,
            )
        )
    return tuple(steps)
