"""Batched products of two activations in bf16, as unfused attention has them."""

from __future__ import annotations

from random import Random
from typing import Any

from dovetail.measuring.row_files import Key
from dovetail.measuring.tables import MeasuredTable, one_by_one, tables, tflops, time_us, words

BATCHES, SIDES, WIDTHS = (8, 16, 32, 96, 128, 512), (128, 512, 1024, 2048, 4096), (64, 128)
NUM_ROWS = 32
MOST_BYTES = 8e9  # style: a bound; of all three operands, so that cards of 16 GB do
SEED = 25


def rows(_gpu: Any) -> tuple[Key, ...]:
    """Scores of queries and keys, and values weighted by them."""
    rng = Random(SEED)
    found: dict[Key, None] = {}
    while len(found) < NUM_ROWS:
        batch, side, width = rng.choice(BATCHES), rng.choice(SIDES), rng.choice(WIDTHS)
        n, k = rng.choice(((side, width), (width, side)))
        if 2.0 * batch * (side * k + k * n + side * n) <= MOST_BYTES:
            found[words(batch, side, n, k)] = None
    return tuple(found)


def measure(gpu: Any, key: Key) -> tuple[str, ...]:
    batch, m, n, k = (int(size) for size in key)
    a, b = gpu.random(batch, m, k), gpu.random(batch, k, n)
    seconds = gpu.median_s(lambda: a @ b)
    return time_us(seconds), tflops(2.0 * batch * m * n * k, seconds)


tables.register("bmm")(
    MeasuredTable(
        group="bmm",
        file="bmm.csv",
        columns=("b", "m", "n", "k", "time_us", "tflops"),
        num_keys=4,
        rows=rows,
        measure=one_by_one(measure),
    )
)
