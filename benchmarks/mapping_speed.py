"""How many operator-chip pairs are mapped in one CPU-second: `python -m benchmarks.mapping_speed`.

Products of training transformers, on PHAZE's 88,080 systems and on a space that also varies core buffers, bandwidths
and dataflows. Each level is mapped once for every distinct sub-tuple; all pairs get their time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dovetail.cost.mapping.mapper import MappedTable, mapped_table
from dovetail.cost.mapping.tables import ArrayChips, Dataflow, ProductShapes, array_chips, product_shapes
from dovetail.papers.phaze_cases import HBM_BYTES
from dovetail.search.codesign.phaze_space import phaze_chips
from dovetail.units import GIGA, KIBI, MEBI

NUM_ROUNDS = 1  # tables are remembered: a second round would time how they are looked up
BUFFER_BYTES_PER_PE = 16.0  # of a PHAZE core: 1 KiB for every 64 PEs (released code, commit fed7cde)
SRAM_BYTES_PER_CLOCK = 4096.0  # the same
CLOCK_HZ = 1.05 * GIGA
HBM_BYTES_PER_S = 1228 * GIGA
# hidden width, feed-forward width, heads, tokens of a microbatch: BERT-large, GPT-2 1.5B, Llama 2 7B, GPT-3 175B on 8
MODELS = ((1024, 4096, 16, 4096), (1600, 6400, 25, 2048), (4096, 11008, 32, 4096), (12288, 6144, 12, 2048))


def transformer_products() -> ProductShapes:
    """Forward, input and weight gradients of the products of a layer of each model, scores and outputs of attention."""
    rows = []
    for hidden, ffn, heads, tokens in MODELS:
        for n, k in ((3 * hidden, hidden), (hidden, hidden), (ffn, hidden), (hidden, ffn)):
            rows += [(1, tokens, n, k), (1, tokens, k, n), (1, n, k, tokens)]
        rows += [(heads, tokens, tokens, hidden // heads), (heads, tokens, hidden // heads, tokens)]
    b, m, n, k = np.array(rows, dtype=np.float64).T
    return product_shapes(m, n, k, b=b)


def phaze_systems(dataflows: tuple[Dataflow, ...]) -> ArrayChips:
    """All chips that PHAZE's area rule keeps, each with its three capacities of HBM."""
    every, times = phaze_chips(), len(HBM_BYTES)
    num_arrays, num_rows, num_cols, sram_bytes = (
        np.repeat(column, times).astype(np.float64)
        for column in (every.num_tensor, every.depth, every.width, every.sram_bytes)
    )
    return array_chips(
        len(num_arrays),
        levels=((sram_bytes, SRAM_BYTES_PER_CLOCK * CLOCK_HZ),),
        dataflows=dataflows,
        num_arrays=num_arrays,
        num_rows=num_rows,
        num_cols=num_cols,
        clock_hz=CLOCK_HZ,
        core_buffer_bytes=np.maximum(KIBI, BUFFER_BYTES_PER_PE * num_rows * num_cols),
        hbm_bytes_per_s=HBM_BYTES_PER_S,
    )


def wide_systems(dataflows: tuple[Dataflow, ...]) -> ArrayChips:
    """Every knob that a mapping gives a meaning: arrays, core buffers, SRAM and its bandwidth, HBM."""
    grid = np.meshgrid(
        [1, 2, 4, 8, 16, 32],
        [64, 128, 256],
        [64, 128, 256],
        [16, 64, 256, 1024],
        [1024, 4096, 16384],
        [8, 16, 32, 64, 128],
        [600, 1200, 2400, 3600, 4800],
        indexing="ij",
    )
    arrays, rows, cols, buffer_kibi, per_clock, sram_mebi, hbm = (axis.ravel().astype(np.float64) for axis in grid)
    return array_chips(
        len(arrays),
        levels=((sram_mebi * MEBI, per_clock * CLOCK_HZ),),
        dataflows=dataflows,
        num_arrays=arrays,
        num_rows=rows,
        num_cols=cols,
        clock_hz=CLOCK_HZ,
        core_buffer_bytes=buffer_kibi * KIBI,
        hbm_bytes_per_s=hbm * GIGA,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingPace:
    """Pairs mapped, the distinct ones among them at the core level, and CPU seconds: the best of some rounds."""

    num_pairs: int
    num_distinct: int
    cpu_s: float

    @property
    def pairs_per_s(self) -> float:
        return self.num_pairs / self.cpu_s


def pace(shapes: ProductShapes, chips: ArrayChips, num_rounds: int = NUM_ROUNDS) -> MappingPace:
    def once() -> tuple[float, MappedTable]:
        start_s = time.process_time()
        table = mapped_table(shapes, chips)
        table.time_s()
        return time.process_time() - start_s, table

    rounds = [once() for _ in range(num_rounds)]
    return MappingPace(
        num_pairs=len(shapes) * len(chips),
        num_distinct=rounds[0][1].core.cycles.size,
        cpu_s=min(cpu_s for cpu_s, _ in rounds),
    )


SPACES: tuple[tuple[str, Callable[[tuple[Dataflow, ...]], ArrayChips]], ...] = (
    ("PHAZE's systems", phaze_systems),
    ("all knobs of a mapping", wide_systems),
)


def main() -> None:
    shapes = transformer_products()
    for name, chips in SPACES:
        for words, flows in (("weight stationary", (Dataflow.WEIGHT_STATIONARY,)), ("flexible", tuple(Dataflow))):
            every = chips(flows)
            found = pace(shapes, every)
            print(
                f"{name}, {words}: {len(shapes)} products x {len(every):,} chips, {found.num_distinct:,} distinct, "
                f"{found.cpu_s:.2f} CPU-s: {found.pairs_per_s / 1e6:.1f} M pairs/CPU-s on one of {os.cpu_count()} cores"
            )


if __name__ == "__main__":
    main()
