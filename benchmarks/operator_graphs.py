"""Graphs to schedule on cores: random ones by a seed, and the distinct blocks of the model catalogue."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dovetail.opsched.problem import NO_TENSORS, RESOURCES, WHOLE, CoreProblem, dag_of, modes_of
from dovetail.opsched.slices import splits
from dovetail.workload.graph import FloatArray, IntArray, Ops
from dovetail.workload.models import models
from dovetail.workload.training import with_recompute
from dovetail.workload.workload import Workload

CORES = (2, 4, 8)
SMALLEST, LARGEST = 20, 120
MEAN_BEATS = 2000
TENSOR_FRAC = 0.6  # of operators
MOST_INPUTS, REACH = 3, 12  # operators an operator waits for, at most, and how far back they may stand
# Time of an operator's bytes, HBM and SRAM, over its time on all cores: products compute, vector operators move.
LEAST_MOVED, MOST_MOVED = np.array([[0.0, 0.0], [0.5, 0.1]]), np.array([[0.5, 0.7], [1.5, 0.3]])
BATCH = 4  # samples of a catalogue block


def random_graph(seed: int, num_operators: int = 0) -> CoreProblem:
    """Operators that split over cores more or less well and use up to all of a bandwidth, on 2 to 8 cores a kind."""
    rng = np.random.default_rng(seed)
    num = num_operators or int(rng.integers(SMALLEST, LARGEST + 1))
    cores = rng.choice(CORES, 2)
    stock = np.array([*cores, WHOLE, WHOLE, WHOLE], dtype=np.int64)
    kind = (rng.random(num) >= TENSOR_FRAC).astype(np.int64)
    counts = np.array([len(splits(int(cores[k]))) for k in kind])
    owner = np.repeat(np.arange(num), counts)
    num_cores = np.concatenate([splits(int(cores[k])) for k in kind])
    beats, need = _modes(rng, owner, kind, cores, num_cores)
    sources, targets = _edges(rng, num)
    return CoreProblem(
        names=tuple(f"operator {i}" for i in range(num)),
        dag=dag_of(num, sources, targets),
        modes=modes_of(counts, beats, need, stock),
        stock=stock,
        tensors=NO_TENSORS,
        beat_s=1.0,
        sram_bytes=1.0,
        hbm_bytes=1.0,
    )


def _modes(
    rng: np.random.Generator, owner: IntArray, kind: IntArray, cores: IntArray, num_cores: IntArray
) -> tuple[IntArray, IntArray]:
    num = len(kind)
    alone = MEAN_BEATS * rng.lognormal(0.0, 0.8, num)
    shared_frac = rng.uniform(0.8, 1.0, num)
    moved = rng.uniform(LEAST_MOVED[kind], MOST_MOVED[kind]) * (alone / cores[kind])[:, None]
    beats: FloatArray = alone[owner] * (1 - shared_frac[owner] + shared_frac[owner] / num_cores)
    beats = np.ceil(np.maximum(beats, moved[owner].max(axis=1)))
    need = np.zeros((len(owner), len(RESOURCES)), dtype=np.int64)
    need[np.arange(len(owner)), kind[owner]] = num_cores
    need[:, 2:4] = np.minimum(np.ceil(WHOLE * moved[owner] / beats[:, None]), WHOLE)
    need[:, 4] = (rng.uniform(0.0, 0.4, num) * WHOLE * (kind == 0)).astype(np.int64)[owner]
    return beats.astype(np.int64), need


def _edges(rng: np.random.Generator, num: int) -> tuple[IntArray, IntArray]:
    edges = {
        (int(rng.integers(max(0, target - REACH), target)), target)
        for target in range(1, num)
        for _ in range(int(rng.integers(1, MOST_INPUTS + 1)))
    }
    sources, targets = zip(*sorted(edges), strict=True)
    return np.array(sources), np.array(targets)


def catalogue_blocks() -> Iterator[tuple[str, Ops]]:
    """Every distinct block of the catalogue's models, forward, backward and update in one; the first model names it."""
    seen: set[Ops] = set()
    for name in models.names():
        model = models[name]()
        workload = Workload(model=model, global_batch=BATCH, seq=model.seq)
        for block in workload.training_graph().blocks:
            ops = with_recompute(block.ops, "none")
            if ops not in seen:
                seen.add(ops)
                yield f"{name} {block.name}", ops
