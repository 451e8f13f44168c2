"""Steps of distributed code: how long they take to price, and whether they keep their closed forms and laws."""

from __future__ import annotations

import importlib
import importlib.util
import time
from collections.abc import Iterator
from dataclasses import replace

from benchmarks.bar import REPOSITORY, Bar
from dovetail.api.code_jobs import CodeJob, code_job
from dovetail.hardware.clusters import clusters
from dovetail.step.distributed import distributed_step
from dovetail.step.eager import HostPace, eager_step
from dovetail.step.pass_order import Kind
from dovetail.step.pipelines import PipelineShape, pipelines
from dovetail.step.time_parts import ATTENTION, MATRIX
from dovetail.workload.dispatched import (
    CollectiveCall,
    DispatchedOp,
    DispatchedStep,
    DistributedStep,
    RankStep,
    TensorMeta,
)
from dovetail.workload.models import models

ISSUE = 25
NUM_RANKS, NUM_STAGES, NUM_MICROBATCHES = 64, 4, 16
NUM_OPERATORS = 10_000  # of a stage
MOST_S = 2.0  # CPU-seconds to price four stages of so many
SAME_FRAC = 1e-12
SCRIPT = REPOSITORY / "examples" / "capture" / "fsdp2_llama.py"  # Llama 3 8B without positions
RECORDER = "dovetail.importers.target_jobs"
NEAR_FRAC = 0.05
QUICK = HostPace(slowdown=1e-9)  # a host that is never waited for


def bars() -> Iterator[Bar]:
    yield _pricing()
    yield _one_rank()
    for schedule in ("1f1b", "gpipe"):
        yield _pipeline(schedule)
    yield from _beside_plan()


def product(side: int, waits: tuple[int, ...] = (), phase: str = "forward") -> DispatchedOp:
    one = TensorMeta(shape=(side, side), strides=(side, 1), dtype="bf16")
    return DispatchedOp(name="aten.mm.default", inputs=(one, one), outputs=(one,), waits=waits, phase=phase)


def called(
    kind: str, ranks: tuple[int, ...], num_bytes: int, waits: tuple[int, ...], peer: int | None = None
) -> DispatchedOp:
    call = CollectiveCall(kind=kind, ranks=ranks, num_bytes=num_bytes, peer=peer)
    stream = f"{kind} {ranks}"
    return DispatchedOp(name=f"c10d.{kind}", inputs=(), outputs=(), waits=waits, stream=stream, collective=call)


def recorded(ops: list[DispatchedOp]) -> DispatchedStep:
    none = (0,) * len(ops)
    return DispatchedStep(ops=tuple(ops), module_calls=none, live_bytes=none, state_bytes=0, num_parameters=1)


def staged(schedule: str, side: int, num_kernels: int, num_microbatches: int, gathers: int) -> DistributedStep:
    """Stages of so many products a pass, which send one another messages in the order of a schedule."""
    each = NUM_RANKS // NUM_STAGES
    order = pipelines[schedule].order(PipelineShape(num_stages=NUM_STAGES, num_microbatches=num_microbatches))
    ranks = []
    for stage, rows in enumerate(order.devices):
        ops: list[DispatchedOp] = []
        own = tuple(range(each * stage, each * (stage + 1)))
        for kind, *_ in rows.tolist():
            is_forward = kind == Kind.FORWARD
            source, target = (stage - 1, stage + 1) if is_forward else (stage + 1, stage - 1)
            waits: tuple[int, ...] = ()
            if 0 <= source < NUM_STAGES:
                ops.append(called("recv", (each * source, each * stage), 1, (), peer=each * source))
                waits = (len(ops) - 1,)
            for kernel in range(num_kernels * (1 if is_forward else 2)):
                if gathers and kernel % gathers == 0:
                    ops.append(called("all-gather", own, 1 << 24, ()))
                ops.append(product(side, waits, "forward" if is_forward else "backward"))
                waits = ()
            if 0 <= target < NUM_STAGES:
                ops.append(called("send", (each * stage, each * target), 1, (len(ops) - 1,), peer=each * target))
        ranks.append(RankStep(rank=each * stage, step=recorded(ops), num_ranks=each))
    return DistributedStep(world_size=NUM_RANKS, ranks=tuple(ranks))


def _pricing() -> Bar:
    num_kernels = NUM_OPERATORS // NUM_MICROBATCHES // 3
    step = staged("1f1b", 1024, num_kernels, NUM_MICROBATCHES, gathers=8)
    cluster = clusters["dgx-h100"].build(NUM_RANKS)
    before_s = time.process_time()
    distributed_step(step, cluster)
    took_s = time.process_time() - before_s
    counts = [len(one.step.ops) for one in step.ranks]
    return Bar(
        name=f"price {len(counts)} stages of {min(counts):,} operators",
        issue=ISSUE,
        bar=f"<= {MOST_S:g} CPU-s",
        measured=f"{took_s:.2f} CPU-s",
        holds=took_s <= MOST_S,
    )


def _one_rank() -> Bar:
    ops = [product(side) for side in (256, 8192, 512, 4096, 128, 8192)] * 20
    cluster = clusters["dgx-h100"].build(NUM_RANKS)
    step = DistributedStep(world_size=1, ranks=(RankStep(rank=0, step=recorded(ops)),))
    off_frac = max(
        abs(distributed_step(step, cluster, host).step_s / eager_step(recorded(ops), cluster.chip, host).step_s - 1)
        for host in (QUICK, HostPace(), replace(HostPace(), slowdown=20.0))
    )
    return Bar(
        name="one rank without collectives beside the eager step",
        issue=ISSUE,
        bar=f"within {SAME_FRAC:g}",
        measured=f"{off_frac:.1e}",
        holds=off_frac <= SAME_FRAC,
    )


def _pipeline(schedule: str) -> Bar:
    """Messages of one byte take their latency, which the bar leaves room for."""
    step = staged(schedule, 8192, 4, NUM_MICROBATCHES, gathers=0)
    found = distributed_step(step, clusters["dgx-h100"].build(NUM_RANKS), QUICK)
    passes_s = max(float(one.kernel_s.sum()) for one in found.ranks) / NUM_MICROBATCHES
    ratio = found.step_s / (passes_s * (NUM_MICROBATCHES + NUM_STAGES - 1))
    return Bar(
        name=f"{schedule} of {NUM_STAGES} stages, {NUM_MICROBATCHES} microbatches, over (m + p - 1) passes",
        issue=ISSUE,
        bar="1.000 to 1.005",
        measured=f"{ratio:.4f}",
        holds=1 - 1e-9 <= ratio <= 1.005,
    )


def _beside_plan() -> Iterator[Bar]:
    """FSDP2 around every layer of Llama 3 8B, and the plan that it is."""
    name = f"FSDP2 of llama3-8b on {NUM_RANKS} ranks beside the same plan"
    bar = f"products, attention and memory within {NEAR_FRAC:.0%}; the rest named"
    lacking = [one for one in ("torch", RECORDER) if importlib.util.find_spec(one) is None]
    if lacking or not SCRIPT.exists():
        note = f"{' and '.join(lacking) or SCRIPT.name} not there"
        yield Bar(name=name, issue=ISSUE, bar=bar, measured="-", holds=None, note=note)
        return
    recorder = importlib.import_module(RECORDER)
    step = recorder.recorded_job(recorder.JobTarget(name=str(SCRIPT)), NUM_RANKS)
    job = code_job(step, clusters["dgx-h100"].build(NUM_RANKS), models=(models["llama3-8b"](),), name=SCRIPT.name)
    yield Bar(name=name, issue=ISSUE, bar=bar, measured=_differences(job), holds=_is_near(job))


def _need_frac(job: CodeJob) -> float:
    """Memory of the code over that of the plan, less one."""
    return job.outcome.fullest.needed_bytes / job.beside.as_written[0].memory.need_bytes - 1


def _differences(job: CodeJob) -> str:
    whole_s = sum(one.plan_s for one in job.beside.parts)
    step = f"step {job.outcome.step_s / whole_s - 1:+.1%}"
    parts = [f"{one.name} {(one.code_s - one.plan_s) / whole_s:+.1%}" for one in job.beside.parts]
    return f"{step}: {', '.join(parts)}; memory {_need_frac(job):+.1%}"


def _is_near(job: CodeJob) -> bool:
    kernels = [one for one in job.beside.parts if one.name in (MATRIX, ATTENTION)]
    return abs(_need_frac(job)) <= NEAR_FRAC and all(abs(one.code_s / one.plan_s - 1) <= NEAR_FRAC for one in kernels)
