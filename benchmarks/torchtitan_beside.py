"""TorchTitan's own train step beside the same plan, operator by operator: `python -m benchmarks.torchtitan_beside`.

Prints the tables that docs/protocols/README.md sums up. Needs torchtitan, and a folder with its tests/assets.
"""

from __future__ import annotations

import importlib.util
import os
from contextlib import chdir
from dataclasses import dataclass
from math import prod

from dovetail.api.code_jobs import CodeJob, code_job
from dovetail.evaluate import Outcome
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.importers.target_jobs import JobTarget, recorded_job
from dovetail.step.sharding_copies import COPIES as PLAN_COPIES
from dovetail.step.stage_operators import stage_operators
from dovetail.step.time_parts import MATRIX, OTHERS, PARTS, UPDATE_PHASE, part_of
from dovetail.units import GIBI, MILLI
from dovetail.workload.dispatched import FORWARD
from dovetail.workload.models import models

FOLDER = "DOVETAIL_TORCHTITAN"  # names a folder with tests/assets/tokenizer and tests/assets/c4_test, as TorchTitan's
HEAD, BF16_BYTES = "lm_head", 2
NUM_RANKS, CLUSTER, MODEL = 64, "dgx-h100", "llama3-8b"
# The released configuration of Llama 3.1 8B: sequences of 8192, one a rank, selective activation checkpointing, AdamW.
# The DTensor backend is the one that torch 2.13 has; the default needs a newer one.
COMMON = (
    "--module llama3 --config llama3_8b --training.disable_cuda_graphs --parallelism.spmd_backend partial_dtensor "
    "--hf_assets_path ./tests/assets/tokenizer --dataloader.dataset c4_test"
)
CASES = {"FSDP2": "", "FSDP2 x TP 8": "--parallelism.tensor_parallel_degree 8"}
# Rows of the kernels that are neither products nor attention: by what the module's name holds, and in a plan by the
# operator's kind. The first that fits.
ROPE, SWIGLU, NORMS, QKV, LOSS, CATS, SUMS, REST = ROWS = (
    "rotary positions", "SwiGLU", "norms", "query, key and value parted", "loss", "gathered along the sequence",
    "sums", "the rest",
)  # fmt: skip
MODULES = {"rope": ROPE, "qkv_linear": QKV, HEAD: LOSS}
ADDS = ("aten.add.", "aten.add_.")
PLAN_KINDS = {"rope": ROPE, "mul": SWIGLU, "silu": SWIGLU, "rmsnorm": NORMS, "cross_entropy": LOSS, "add": SUMS}
WHY = {
    "copies for sharding": "a plan has the rates that were measured of FSDP2's copies, and not the casts of own shards",
    ROPE: "products of complex numbers in fp32 and two conversions; a plan has one kernel",
    QKV: "one product for all three, whose parts are copied; a plan's attention reads them where they are",
    LOSS: "in eight chunks: logits in fp32, and the head's gradient summed in fp32 seven times",
    CATS: "DTensor gathers along dimension 0 and puts the parts together by a copy",
    SUMS: "gradients of branches are summed by kernels; a plan counts the residual sums",
    "power limit": "the code draws less on average, as more of its seconds are kernels that move bytes",
    "communication": "embedding and head are gathered and reduced with nothing beside them; gathers of layers "
    "run also beside tensor-parallel calls and while the host is waited for, where a plan has compute alone",
    "host": "kernels that are shorter than their launches",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Seconds of one kind of operator in the code and in the plan."""

    name: str
    code_s: float
    plan_s: float


def lacking() -> str:
    """Why TorchTitan cannot be recorded here; nothing where it can."""
    if importlib.util.find_spec("torchtitan") is None:
        return "torchtitan is not installed"
    return "" if os.environ.get(FOLDER) else f"{FOLDER} names no folder with TorchTitan's test assets"


def recorded_case(name: str) -> CodeJob:
    """TorchTitan's step on 64 ranks of H100, beside plans of the catalogue's Llama 3 8B."""
    arguments = tuple(f"{COMMON} {CASES[name]}".split())
    with chdir(os.environ[FOLDER]):
        step = recorded_job(JobTarget(name="torchtitan.train", is_module=True, arguments=arguments), NUM_RANKS)
    return code_job(step, clusters[CLUSTER].build(NUM_RANKS), models=(models[MODEL](),), name=f"TorchTitan, {name}")


def as_written(job: CodeJob) -> Outcome:
    [planned] = job.beside.as_written
    assert isinstance(planned, Outcome), planned
    return planned


def beside_rows(job: CodeJob) -> tuple[Row, ...]:
    """The parts of the step, with those kernels by operator that are neither products nor attention."""
    parts = {one.name: Row(name=one.name, code_s=one.code_s, plan_s=one.plan_s) for one in job.beside.parts}
    others = {name: [0.0, 0.0] for name in ROWS}
    rank, planned = job.outcome.slowest, as_written(job)
    for op, full_s in zip(rank.step.ops, rank.full_clock_s.tolist(), strict=True):
        if part_of(op) == OTHERS:
            others[_row(op.module, op.name)][0] += full_s
    assert isinstance(planned.cluster, Cluster)
    graph = planned.workload.training_graph()
    stage, precision = int(planned.step.slowest_stage), planned.workload.precision
    for one in stage_operators(graph, planned.plan, planned.cluster, stage, precision):
        if one.phase == UPDATE_PHASE or one.name in PLAN_COPIES:
            continue
        if not one.kind.endswith("attention") and one.kind != "linear":
            others[PLAN_KINDS.get(one.kind, REST)][1] += one.total_s
    rows: list[Row] = []
    for name in PARTS:
        if name != OTHERS:
            rows.append(parts[name])
            continue
        rows += [Row(name=row, code_s=code_s, plan_s=plan_s) for row, (code_s, plan_s) in others.items()]
    return tuple(row for row in rows if row.code_s or row.plan_s)


def _row(module: str, operator: str) -> str:
    for word, row in MODULES.items():
        if word in module:
            return row
    last = module.rpartition(".")[2]
    if operator.startswith("aten.cat."):
        return CATS
    if operator.startswith(ADDS) and module:
        return SUMS
    if "norm" in last:
        return NORMS
    if "feed_forward" in module:
        return SWIGLU
    return LOSS if not module else REST


def unexplained_frac(rows: tuple[Row, ...]) -> float:
    """Of the plan's step, the differences in rows that have no reason here, one by one."""
    whole_s = sum(row.plan_s for row in rows)
    return sum(abs(row.code_s - row.plan_s) for row in rows if row.name not in WHY) / whole_s


def memory_bytes(job: CodeJob) -> dict[str, float]:
    """What a rank needs: the code, and the plan by how much of the logits it holds.

    A loss in one kernel keeps them once, in bf16. Of TorchTitan's chunks there is one at a time.
    """
    [fused] = job.beside.fused
    assert isinstance(fused, Outcome), fused
    ops = job.outcome.slowest.step.ops
    heads = [op for op in ops if op.module == HEAD and op.phase == FORWARD and part_of(op) == MATRIX]
    chunks = [prod(op.outputs[0].shape) * BF16_BYTES for op in heads]
    need = fused.memory.need_bytes
    return {
        "TorchTitan": job.outcome.fullest.needed_bytes,
        "the plan": as_written(job).memory.need_bytes,
        "with its loss in one kernel": need,
        "and the logits in chunks": need - (sum(chunks) - max(chunks)),
    }


def nearest_frac(memory: dict[str, float]) -> float:
    """The code's memory over that of the nearest of the plans, less one."""
    code, *plans = memory.values()
    return min((code / plan - 1 for plan in plans), key=abs)


def table(job: CodeJob) -> str:
    """The rows in Markdown."""
    rows = beside_rows(job)
    lines = ["| part | TorchTitan, ms | as a plan, ms | difference, ms | why |", "|---|---:|---:|---:|---|"]
    whole = Row(name="step", code_s=sum(row.code_s for row in rows), plan_s=sum(row.plan_s for row in rows))
    for row in (*rows, whole):
        code, plan, more = (one / MILLI for one in (row.code_s, row.plan_s, row.code_s - row.plan_s))
        why = WHY.get(row.name, "")
        lines.append(f"| {row.name} | {code:.1f} | {plan:.1f} | {more:+.1f} | {why} |")
    return "\n".join(lines)


def main() -> None:
    why = lacking()
    if why:
        raise SystemExit(why)
    for name in CASES:
        job = recorded_case(name)
        needs = ", ".join(f"{what} {num_bytes / GIBI:.1f} GiB" for what, num_bytes in memory_bytes(job).items())
        print(f"## {name}\n\n{table(job)}\n")
        print(f"Memory of a rank (`python -m benchmarks.torchtitan_beside`): {needs}.\n")


if __name__ == "__main__":
    main()
