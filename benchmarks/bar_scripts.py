"""Training scripts recorded on one CPU: how long that takes, and whether they are as PyTorch runs them."""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.bar import REPOSITORY, Bar
from benchmarks.torchtitan_beside import (
    CASES,
    WHY,
    beside_rows,
    lacking,
    memory_bytes,
    nearest_frac,
    recorded_case,
    unexplained_frac,
)
from dovetail.importers.target_jobs import JobTarget, recorded_job
from dovetail.units import GIBI, KIBI, MEBI

ISSUE = 25
TESTS = REPOSITORY / "tests/capture"
JOBS, GLOO, TRACKED = TESTS / "distributed_jobs.py", TESTS / "gloo_run.py", TESTS / "tracked_memory.py"
EXAMPLE = REPOSITORY / "examples/capture/fsdp2_llama.py"
COMPARED = (
    "fsdp2",
    "hsdp",
    "ddp",
    "tensor_parallel",
    "loss_in_parallel",
    "fsdp2_and_tp",
    "one_sequence",
    "interleaved",
)
GROWN, NUM_RANKS = ("fsdp2", "ddp", "tensor_parallel", "fsdp2_and_tp"), 64
MEASURED = ("fsdp2", "tensor_parallel", "fsdp2_and_tp")
MAX_S, MAX_BYTES, MEMORY_FRAC = 60.0, 3 * GIBI, 0.02
NEAR_FRAC = 0.05


def bars() -> Iterator[Bar]:
    if importlib.util.find_spec("torch") is None:
        yield Bar(
            name="scripts recorded", issue=ISSUE, bar="as run", measured="-", holds=None, note="torch not installed"
        )
        return
    yield from speed_bars()
    yield collectives_bar()
    yield many_ranks_bar()
    yield memory_bar()
    yield from titan_bars()


def speed_bars() -> Iterator[Bar]:
    """A 32-layer Llama-3-8B with FSDP2 on 64 ranks."""
    start_s = time.monotonic()
    step = recorded_job(JobTarget(name=str(EXAMPLE)), 64)
    took_s = time.monotonic() - start_s
    both = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    most = KIBI * max(resource.getrusage(who).ru_maxrss for who in both)
    note = f"{len(step.ranks[0].step.ops):,} operators of the second step; {step.notes[0]}"
    yield Bar(
        name="recording 64 ranks of Llama-3-8B, time", issue=ISSUE, bar=f"under {MAX_S:g} s",
        measured=f"{took_s:.1f} s",
        holds=took_s < MAX_S, note=note,
    )  # fmt: skip
    yield Bar(
        name="recording 64 ranks of Llama-3-8B, memory", issue=ISSUE, bar=f"under {MAX_BYTES / GIBI:g} GiB",
        measured=f"{most / GIBI:.2f} GiB", holds=most < MAX_BYTES,
    )  # fmt: skip


def collectives_bar() -> Bar:
    """Kinds, bytes and groups of every call, in order, against 4 processes over gloo."""
    real = _gloo_calls(COMPARED)
    num_equal = num_calls = 0
    for name in COMPARED:
        for rank in recorded_job(JobTarget(name=f"{JOBS}:{name}"), 4).ranks:
            found = [one.collective for one in rank.step.ops if one.collective is not None]
            ours = [[call.kind, call.num_bytes, list(call.ranks)] for call in found]
            ran = real[rank.rank][name]
            num_calls += max(len(ours), len(ran))
            num_equal += sum(a == b for a, b in zip(ours, ran, strict=False))
    return Bar(
        name="collectives of recorded scripts", issue=ISSUE, bar="all as PyTorch issues them",
        measured=f"{num_equal} of {num_calls} equal", holds=num_equal == num_calls, note=", ".join(COMPARED),
    )  # fmt: skip


def many_ranks_bar() -> Bar:
    """Rank 0 of 64 against rank 0 of 4 processes over gloo, at sizes that 64 ranks divide.

    Kinds and bytes, counted as nccl-tests does, stay; a group that spans its axis of the mesh grows with it.
    """
    found = []
    is_equal = True
    with mock.patch.dict(os.environ, {"JOB_SCALE": "8", "JOB_HEADS": "64"}):
        real = _gloo_calls(GROWN)[0]
        for name in GROWN:
            [rank] = recorded_job(JobTarget(name=f"{JOBS}:{name}"), NUM_RANKS).ranks
            calls = [one.collective for one in rank.step.ops if one.collective is not None]
            ours = [[call.kind, call.num_bytes, list(call.ranks)] for call in calls]
            is_equal = is_equal and ours == [[kind, size, _grown(ranks)] for kind, size, ranks in real[name]]
            kinds = ", ".join(f"{num} {kind}" for kind, num in Counter(call.kind for call in calls).items())
            sizes = "/".join(map(str, sorted({len(call.ranks) for call in calls})))
            found.append(f"{name} {kinds}, {sum(call.num_bytes for call in calls) / MEBI:.1f} MiB, groups of {sizes}")
    return Bar(
        name=f"collectives on {NUM_RANKS} ranks", issue=ISSUE, bar="those of 4 gloo processes, groups grown",
        measured="; ".join(found), holds=is_equal,
    )  # fmt: skip


def _grown(ranks: Any, num_before: int = 4) -> list[int]:
    """Of a group of 4 ranks' mesh the one of 64: it goes on by its stride where it went to the end."""
    stride = ranks[1] - ranks[0]
    return list(range(ranks[0], NUM_RANKS, stride)) if ranks[-1] + stride >= num_before else list(ranks)


def _gloo_calls(names: tuple[str, ...]) -> list[dict[str, list[list[object]]]]:
    with tempfile.TemporaryDirectory() as folder:
        shared = os.environ | {
            "WORLD_SIZE": "4",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": "29533",
            "OMP_NUM_THREADS": "1",
        }
        processes = [
            subprocess.Popen(
                [sys.executable, str(GLOO), *names],
                env=shared | {"RANK": str(rank), "LOCAL_RANK": str(rank), "CALLS_OUT": f"{folder}/{rank}.json"},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for rank in range(4)
        ]
        for process in processes:
            process.wait()
        return [json.loads(Path(folder, f"{rank}.json").read_text()) for rank in range(4)]


def memory_bar() -> Bar:
    """Peak memory of a rank against PyTorch's MemTracker."""
    with mock.patch.dict(os.environ, {"JOB_SCALE": "8"}):
        ran = subprocess.run([sys.executable, str(TRACKED), *MEASURED], capture_output=True, text=True, check=True)
        errors = {}
        for name, tracked_bytes in json.loads(ran.stdout.splitlines()[-1]).items():
            [rank] = recorded_job(JobTarget(name=f"{JOBS}:{name}"), 8).ranks
            errors[name] = max(rank.step.live_bytes) / tracked_bytes - 1
    return Bar(
        name="peak memory of a recorded rank", issue=ISSUE, bar=f"within {MEMORY_FRAC:.0%} of MemTracker",
        measured=", ".join(f"{name} {error:+.1%}" for name, error in errors.items()),
        holds=max(map(abs, errors.values())) < MEMORY_FRAC,
        note="DDP's reducer does not run under MemTracker",
    )  # fmt: skip


def titan_bars() -> Iterator[Bar]:
    """TorchTitan's own trainer, as released, beside the plan that it is."""
    why = lacking()
    bar = f"within {NEAR_FRAC:.0%}, or explained by operator to {NEAR_FRAC:.0%}"
    for case in CASES:
        name = f"TorchTitan's llama3 8B unmodified, {case}, beside the same plan"
        if why:
            yield Bar(name=name, issue=ISSUE, bar=bar, measured="-", holds=None, note=why)
            continue
        job = recorded_case(case)
        rows = beside_rows(job)
        code_s, plan_s = sum(row.code_s for row in rows), sum(row.plan_s for row in rows)
        shown = [f"{row.name} {(row.code_s - row.plan_s) / plan_s:+.1%}" for row in rows if row.name in WHY]
        left_frac = unexplained_frac(rows)
        yield Bar(
            name=f"{name}, time", issue=ISSUE, bar=bar,
            measured=f"{code_s / plan_s - 1:+.1%}: {', '.join(shown)}; not explained {left_frac:.1%}",
            holds=left_frac < NEAR_FRAC, note=f"{len(job.outcome.slowest.step.ops):,} operators",
        )  # fmt: skip
        memory = memory_bytes(job)
        yield Bar(
            name=f"{name}, memory", issue=ISSUE, bar=bar,
            measured=", ".join(f"{what} {num_bytes / GIBI:.1f} GiB" for what, num_bytes in memory.items()),
            holds=abs(nearest_frac(memory)) < NEAR_FRAC, note="TorchTitan's loss goes by chunks of the sequence",
        )  # fmt: skip
