"""How many operator-chip pairs one core costs a second: a training layer on thousands of chips in one call.

`python -m benchmarks.pairs` prints it for arrays on paper and for GPUs.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import numpy as np

from dovetail.cost.columns import ChipColumns, varied
from dovetail.cost.costs import cost_table
from dovetail.hardware.catalog import chips
from dovetail.workload.graph import FloatArray, IntArray, Ops
from dovetail.workload.layers import Sample
from dovetail.workload.models import models
from dovetail.workload.operators import DTYPES, Unit
from dovetail.workload.optimizer import Precision
from dovetail.workload.training import training_graph, with_recompute

NUM_CHIPS = 30_000
NUM_ROUNDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Operators costed on chips, and the CPU seconds it took; the best of some rounds, as other work disturbs them."""

    num_operators: int
    num_chips: int
    cpu_s: float

    @property
    def pairs_per_s(self) -> float:
        return self.num_operators * self.num_chips / self.cpu_s


def training_layer() -> Ops:
    """A GPT-3 layer with eager kernels, scores written out and everything recomputed: forward, backward, update."""
    sample = Sample(batch=1, seq=2048, dtype="bf16", attention="unfused", kernels="eager")
    graph = training_graph(models["gpt3-175b"]().forward(sample), Precision())
    layer = next(block for block in graph.blocks if block.is_layer)
    return with_recompute(layer.ops, "full")


def paper_chips(num_chips: int = NUM_CHIPS) -> ChipColumns:
    """Array chips of PHAZE's kind that differ in everything a search varies."""
    rng = np.random.default_rng(0)
    base = chips["tpuv4-like"]()
    num_units, rows, cols = (_powers(rng.integers(low, 9, num_chips)) for low in (0, 2, 2))
    peak_flop_per_s = 2 * num_units * rows * cols * base.clock_hz
    return varied(
        base,
        num_chips,
        num_units=num_units,
        tile_rows=rows[None],
        tile_cols=cols[None],
        dtype_flop_per_s=np.repeat(peak_flop_per_s[None], len(DTYPES), axis=0),
        hbm_bytes_per_s=base.hbm.bandwidth_bytes_per_s * rng.uniform(0.5, 4.0, num_chips),
        sram_bytes=_powers(rng.integers(21, 28, num_chips)),
    )


def _powers(exponents: IntArray) -> FloatArray:
    return np.exp2(exponents.astype(np.float64))


def gpu_chips(num_chips: int = NUM_CHIPS) -> ChipColumns:
    """GPUs with more or fewer SMs and another HBM: six tile shapes are tried on each."""
    rng = np.random.default_rng(0)
    base = chips["h100-sxm"]()
    num_units = np.round(rng.uniform(40, 200, num_chips))
    hbm_bytes_per_s = base.hbm.bandwidth_bytes_per_s * rng.uniform(0.5, 4.0, num_chips)
    return varied(base, num_chips, num_units=num_units, hbm_bytes_per_s=hbm_bytes_per_s)


def pace(ops: Ops, columns: ChipColumns) -> Pace:
    works = (ops.unit == Unit.TENSOR) | (ops.unit == Unit.VECTOR)
    times_s = []
    for _ in range(NUM_ROUNDS):
        start_s = time.process_time()
        cost_table(ops, columns)
        times_s.append(time.process_time() - start_s)
    return Pace(num_operators=int(works.sum()), num_chips=len(columns), cpu_s=min(times_s))


def main() -> None:
    ops = training_layer()
    for name, columns in (("arrays on paper", paper_chips()), ("GPUs", gpu_chips(NUM_CHIPS // 3))):
        found = pace(ops, columns)
        message = f"{found.num_operators} operators x {found.num_chips:,} chips in {found.cpu_s:.2f} CPU-s"
        print(f"{name}: {message}, {found.pairs_per_s / 1e6:.1f} M pairs/s on one of {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
