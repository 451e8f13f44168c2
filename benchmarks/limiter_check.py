"""Whether the limit that is named is the resource that gains most, asked of the outside.

Chips and clusters are changed as a user would change them, and answered again.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dovetail.accuracy.one_operator import OperatorQuery, op_answer
from dovetail.errors import DovetailError
from dovetail.evaluate import Outcome, evaluate
from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import Chip
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.hardware.memory import Memory
from dovetail.hardware.perturbed import perturbed_clusters
from dovetail.parallel.plan import Plan
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

MORE = 1.1
MODELS = ("bert-large", "gpt2-1.5b", "llama2-7b", "llama3-8b")
PLAN = Plan(data_parallel=8, zero_stage=3, recompute=("full",))
SETTINGS = ("stream", "kernel", "alone")
CLOSE_FRAC = 1e-9  # style: of the time, gains that are the same


def _faster(memory: Memory) -> Memory:
    return replace(memory, bandwidth_bytes_per_s=memory.bandwidth_bytes_per_s * MORE)


def perturbed(chip: Chip) -> dict[str, Chip]:
    """`chip` with a tenth more of each resource; of latencies, as much less."""
    calibration = chip.calibration

    def quicker(*names: str) -> Chip:
        return replace(
            chip, calibration=replace(calibration, **{name: getattr(calibration, name) / MORE for name in names})
        )

    return {
        "tensor": replace(chip, tensor=chip.tensor.scaled(MORE)),
        "vector": replace(chip, vector=replace(chip.vector, peak_flop_per_s=chip.vector.peak_flop_per_s * MORE)),
        "sram": replace(
            chip, sram=_faster(chip.sram), vector_memory=chip.vector_memory and _faster(chip.vector_memory)
        ),
        "hbm": replace(chip, hbm=_faster(chip.hbm)),
        "latency": quicker("fill_s", "tile_step_s", "split_s", "wait_s"),
        "launch": quicker("launch_s", "alone_s", "host_kernel_s", "host_gradient_s", "host_autograd_s"),
    }


def random_operator(draw: np.random.Generator) -> OperatorQuery:
    def size(most: int) -> int:
        return int(2 ** draw.uniform(3, np.log2(most)))

    kind = str(draw.choice(["linear", "matmul", "attention", "layernorm", "gelu", "softmax", "silu"]))
    setting = str(draw.choice(SETTINGS))
    phase = str(draw.choice(["forward", "input-grad"])) if kind != "matmul" else "forward"
    if kind == "attention":
        return OperatorQuery(
            kind=kind, heads=size(256), seq=size(8192), head_width=int(draw.choice([64, 128])), batch=size(16),
            setting=setting, phase=phase, is_causal=bool(draw.integers(2)),
        )  # fmt: skip
    if kind in ("linear", "matmul"):
        return OperatorQuery(kind=kind, dims=(size(16384), size(16384), size(16384)), setting=setting, phase=phase)
    return OperatorQuery(kind=kind, dims=(size(65536), size(16384)), setting=setting, phase=phase)


def operators_agreeing(num_pairs: int = 200, seed: int = 0) -> int:
    """Of random operators on random chips, those whose limit gains most, or as much as any."""
    draw, names = np.random.default_rng(seed), sorted(chips.names())
    num_right = 0
    for _ in range(num_pairs):
        asked, chip = random_operator(draw), chips[str(draw.choice(names))]()
        if "bf16" not in dict(chip.tensor.rates):
            asked = replace(asked, dtype=chip.tensor.rates[0][0])
        base = op_answer(asked, chip)
        gains = {name: base.time_s - op_answer(asked, other).time_s for name, other in perturbed(chip).items()}
        num_right += gains[base.limit] >= max(gains.values()) - CLOSE_FRAC * base.time_s
    return num_right


def steps_agreeing(num_steps: int = 50, seed: int = 0) -> int:
    """Of random models on random clusters, those whose first named limit gains most of all, each evaluated again."""
    draw = np.random.default_rng(seed)
    num_right = num_done = 0
    known = sorted(clusters.names())
    while num_done < num_steps:
        entry = clusters[str(draw.choice(known))]
        seq = int(draw.choice([512, 2048, 4096]))
        job = Workload(model=models[str(draw.choice(MODELS))](), global_batch=int(draw.choice([8, 32])), seq=seq)
        try:
            cluster = entry.build(8)
            outcome = evaluate(job, cluster, PLAN)
        except DovetailError:
            continue
        if not isinstance(outcome, Outcome) or not isinstance(cluster, Cluster):
            continue
        num_done += 1
        base_s = float(outcome.step.step_s)
        gains = {}
        for resource, other in perturbed_clusters(cluster, MORE - 1).items():
            found = evaluate(job, other, PLAN, has_changes=False)
            assert isinstance(found, Outcome)
            gains[resource] = base_s / float(found.step.step_s) - 1
        named = outcome.elasticities[0].resource
        num_right += gains.get(named, -1.0) >= max(gains.values()) - CLOSE_FRAC
    return num_right
