"""Break the physics one formula at a time, in a copy of the project, and see that tests notice.

`python -m benchmarks.mutations` prints every mutant and whether it was caught. A mutant that survives is a hole in
the tests; a mutant that no longer applies is a formula that moved, and is an error here.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
# what would notice broken physics, quickest first; golden files and recorded outputs would too, but prove less
QUICK = (
    "tests/unit",
    "tests/validation",
    "tests/property/test_sharding_laws.py",
    "tests/property/test_time_laws.py",
    "tests/conformance/test_transformers.py",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One formula made wrong: `was` stands exactly once in `file` and becomes `becomes`."""

    file: str
    was: str
    becomes: str


MUTANTS = tuple(
    Mutant(file=file, was=was, becomes=becomes)
    for file, was, becomes in (
        ("workload/graph.py", "products = 2.0 * b * m * n * k", "products = 1.0 * b * m * n * k"),
        ("workload/graph.py", "widths = np.where(backward, (2 + again) * k + 2 * v, k + v)", "widths = k + v"),
        ("workload/graph.py", "writes = b * m * n * c_frac * size_bytes", "writes = 0.0 * b * m * n"),
        ("workload/training.py", '"extents": (b, k, n, m, v)', '"extents": (b, m, n, k, v)'),
        ("workload/training.py", "side_bytes_per_element=precision.update_bytes", "side_bytes_per_element=0.0"),
        ("workload/optimizer.py", "+ 2 * self.optimizer_bytes", "+ self.optimizer_bytes"),
        ("workload/rows.py", "rows[tensor].need |= whose", "rows[tensor].need = whose"),
        ("workload/experts.py", "rows[0] * experts.num_chosen", "rows[0]"),
        ("plan/shard.py", "return -(-elements // factors)", "return elements // factors + 1"),
        ("plan/shard.py", "Axis.CONTEXT: plan.context_parallel,", "Axis.CONTEXT: 1,"),
        (
            "plan/shard.py",
            "data = plan.data_parallel * plan.num_microbatches(graph.batch)",
            "data = plan.data_parallel",
        ),
        ("plan/shard.py", "chunk % plan.pipeline_parallel] +=", "0] +="),
        ("plan/memory.py", "passing = max(_loss_buffer_bytes(ops, int(row)) for row in losses)", "passing = 0.0"),
        ("plan/memory.py", "return brought_back + passing + arriving", "return passing + arriving"),
        ("plan/memory.py", "return bytes_per_parameter * (plain / data_ranks", "return bytes_per_parameter * (plain"),
        ("plan/memory.py", "tensors = _output_bytes(ops)[forward & needed].sum()", "tensors = 0.0"),
        (
            "plan/exchange.py",
            '("all-gather", "reduce-scatter") if plan.sequence_parallel',
            '("", "") if plan.sequence_parallel',
        ),
        ("plan/exchange.py", 'num_parts = degree if axis == "cp" else 1', "num_parts = 1"),
        ("plan/placement.py", "stride=dimension.num_devices // free[index]", "stride=1"),
        ("cost/roofline.py", "calibration.hbm_frac)\n", "calibration.hbm_frac) / 2\n"),
        ("cost/roofline.py", "np.ceil(k / tile_k) * tile_k", "k"),
        ("cost/roofline.py", "/ (np.ceil(pieces / chip.tensor.num_units) * chip.tensor.num_units)", "/ pieces"),
        (
            "cost/roofline.py",
            "np.maximum(np.maximum(tensor_s, vector_s), hbm_s) + launch_s",
            "tensor_s + vector_s + launch_s",
        ),
        ("network/alphabeta.py", "moved_bytes = payload_bytes * (n - 1) / n", "moved_bytes = payload_bytes / n"),
        ("network/alphabeta.py", "return bandwidth / num_ports / span.stride", "return bandwidth"),
        ("network/alphabeta.py", "return bandwidth / dimension.oversubscription", "return bandwidth"),
        ("network/collectives/all_gather.py", "held_bytes /= span.num_ranks", "held_bytes /= 1"),
        (
            "schedule/pipelines/one_f_one_b.py",
            "(shape.num_microbatches - 1) * times.pace_s",
            "shape.num_microbatches * times.pace_s",
        ),
        (
            "schedule/pipelines/one_f_one_b.py",
            "min(shape.num_microbatches, shape.num_stages - stage)",
            "shape.num_microbatches",
        ),
        ("schedule/pipelines/interleaved.py", "others_s / shape.interleave", "others_s"),
        ("schedule/stage.py", "waiting[axis] + beside[axis] - hidden[axis]", "waiting[axis]"),
        ("schedule/step.py", "+ sync.comm.exposed_s + update_s", "+ update_s"),
        (
            "schedule/step.py",
            "filling_s = 2 * (plan.pipeline_parallel - 1)",
            "filling_s = 4 * (plan.pipeline_parallel - 1)",
        ),
        ("schedule/stage.py", '("all-gather", whole_bytes, Phase.INPUT_GRAD)', ""),
        (
            "schedule/step.py",
            "timed = [_timed(move, elements * precision.reduce_bytes",
            "timed = [_timed(move, elements * 2.0",
        ),
        (
            "schedule/step.py",
            "total_j = energy.idle_w * step_s * cluster.num_devices",
            "total_j = energy.idle_w * step_s",
        ),
        ("schedule/step.py", "once.cost.energy_j + work.update.energy_j", "once.cost.energy_j"),
        ("schedule/step.py", "if plan.zero_stage in (1, 2):", "if plan.zero_stage == 1:"),
        ("workload/graph.py", "b * n * (k + v) * b_frac", "b * n * (k + v)"),
        ("cost/roofline.py", "launch_s = np.where(works,", "launch_s = np.where(ops.unit == Unit.TENSOR,"),
        ("plan/exchange.py", '"vocab_reduce": ("all-reduce", tensor)', '"vocab_reduce": ("", tensor)'),
        ("evaluate.py", "gain_frac = step_s / nudged_s - 1.0", "gain_frac = nudged_s / step_s - 1.0"),
        ("units.py", '"b": 1 / BITS_PER_BYTE', '"b": 1.0'),
    )
)


UNCHANGED = Mutant(file="units.py", was="BITS_PER_BYTE = 8.0", becomes="BITS_PER_BYTE = 8.0")


def caught(mutant: Mutant) -> str:
    """The first test that fails on `mutant`, or '' when none does."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "project"
        shutil.copytree(
            REPOSITORY, copy, ignore=shutil.ignore_patterns(".venv", ".git", "__pycache__", ".*_cache", "site")
        )
        target = copy / "src" / "dovetail" / mutant.file
        text = target.read_text(encoding="utf-8")
        if text.count(mutant.was) != 1:
            raise SystemExit(
                f"{mutant.file}: {mutant.was!r} stands {text.count(mutant.was)} times; a mutant needs it once"
            )
        target.write_text(text.replace(mutant.was, mutant.becomes), encoding="utf-8")
        environment = os.environ | {"PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        for tests in QUICK:
            command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", tests]
            run = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
            if run.returncode != 0:
                failed = [line for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
                return failed[0].split(" - ")[0] if failed else f"{tests}: exit {run.returncode}"
    return ""


def results(num_workers: int = 2) -> Iterator[tuple[Mutant, str]]:
    with ThreadPoolExecutor(num_workers) as pool:
        yield from zip(MUTANTS, pool.map(caught, MUTANTS), strict=True)


def record(file: Path) -> int:
    """Tries every mutant, prints it, and writes the count with the commit; the number of survivors."""
    assert not caught(UNCHANGED), "tests fail without any mutant: mend them first"
    survivors = 0
    for mutant, by in results():
        survivors += not by
        print(
            f"{'caught' if by else 'SURVIVED':9} {mutant.file}: {mutant.becomes!r}  {by}", file=sys.stderr, flush=True
        )
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    ).stdout.strip()
    file.parent.mkdir(parents=True, exist_ok=True)
    outcome = {"caught": len(MUTANTS) - survivors, "mutants": len(MUTANTS), "commit": commit or "no commit"}
    file.write_text(json.dumps(outcome, indent=2) + "\n", encoding="utf-8")
    print(f"{outcome['caught']} of {outcome['mutants']} mutants caught", file=sys.stderr)
    return survivors


if __name__ == "__main__":
    raise SystemExit(1 if record(REPOSITORY / "benchmarks" / "results" / "mutations.json") else 0)
