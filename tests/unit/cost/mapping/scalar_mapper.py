"""The core level in plain loops over one product and one chip: what the vectorised mapper must agree with."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, inf, log2

from dovetail.cost.mapping.tables import Dataflow, Fill

OS, WS, IS = Dataflow.OUTPUT_STATIONARY, Dataflow.WEIGHT_STATIONARY, Dataflow.INPUT_STATIONARY


@dataclass(frozen=True)
class Case:
    b: int
    m: int
    n: int
    k: int
    operand_bytes: float
    result_bytes: float
    num_arrays: int
    num_rows: int
    num_cols: int
    load: int
    buffer_bytes: float
    bytes_per_cycle: float
    memory_bytes: float
    window: int = 1  # in time; k is of all its positions


def sizes(extent: int, unit: int) -> list[tuple[int, int]]:
    """Tiles that are tried along an extent, and how many there are of each."""
    found = [(1, extent)]
    for power in (-3, -1, *range(ceil(log2(extent / unit)) - 3)):
        tile = min(ceil(unit * 2.0**power), extent)
        found.append((tile, ceil(extent / tile)))
    counts = (min(count, extent) for count in (1, 2, 3, 4, 5, 6, 7, 8, 10, 12))
    return found + [(ceil(extent / count), count) for count in counts]


def least_cycles(case: Case, flows: tuple[Dataflow, ...], fill: Fill) -> tuple[float, float]:
    """(cycles bound by arrays and feed, bytes) of the best mapping: soonest, then least traffic."""
    c, e, r = case, case.operand_bytes, case.num_rows
    channels = c.k // c.window
    deep = min(r, channels)
    best = (inf, inf)
    for held, flow in (("C", WS), ("C", OS), ("C", IS), ("B", WS), ("A", IS)):
        if flow not in flows:
            continue
        if held == "C":
            extents, units = (c.m, c.n), {WS: (c.load, c.num_cols), OS: (r, c.num_cols), IS: (c.num_cols, c.load)}[flow]
        else:
            extents, units = (channels, c.n if held == "B" else c.m), (r, c.num_cols)
        for p, num_p in sizes(extents[0], units[0]):
            for q, num_q in sizes(extents[1], units[1]):
                in_pes = p <= r and q <= c.num_cols
                if held != "C":
                    edge = e * p + 4 * q
                    need = 2 * edge if in_pes else 2 * e * p * q + 2 * c.load * edge
                elif flow is OS:
                    need = 2 * e * (p + q) if in_pes else 2 * e * (p + q) * deep + 8 * p * q
                else:
                    need = 2 * e * (p if flow is WS else q) * deep + 8 * p * q
                if need > c.buffer_bytes:
                    continue
                busy = min(c.num_arrays, floor(min(c.memory_bytes / 4, c.num_arrays * c.buffer_bytes) / need))
                if busy < 1:
                    continue
                items = c.b * num_p * num_q * (1 if held == "C" else c.window)
                for split in (1, 2, 4, 8, 16):
                    if split > 1 and items * split / 2 >= c.num_arrays:
                        break
                    passes, stream, moved = _work(c, held, flow, (p, q), (num_p, num_q), split, in_pes)
                    rounds = ceil(items * split / busy)
                    fills = (r if flow is OS else 2 * r) + c.num_cols - 2
                    shown = {Fill.ONCE: 1, Fill.PER_ITEM: rounds, Fill.PER_PASS: rounds * passes}[fill]
                    cycles = rounds * passes * stream + shown * fills
                    best = min(best, (max(cycles, moved / c.bytes_per_cycle), moved))
    return best


def _work(c, held, flow, tile, counts, split, in_pes):
    (p, q), (num_p, num_q), r = tile, counts, c.num_rows
    channels = c.k // c.window
    inputs, weights = c.operand_bytes * c.m * c.k, c.operand_bytes * c.k * c.n
    if held != "C":
        streamed = ceil((c.m if held == "B" else c.n) / split)
        passes = 1 if in_pes else ceil(p / r) * ceil(q / c.num_cols) * ceil(streamed / c.load)
        stream = max(streamed, c.load) if in_pes else c.load
        kept, passing = (weights, inputs) if held == "B" else (inputs, weights)
        sums = c.m * c.n * (c.result_bytes + 8 * (num_p * c.window - 1))
        return passes, stream, c.b * (kept * split + passing * num_q + sums)
    steps = ceil(ceil(channels / r) * c.window / split)
    if flow is WS:
        passes, stream = steps * ceil(q / c.num_cols), max(p, c.load)
    elif flow is IS:
        passes, stream = steps * ceil(p / c.num_cols), max(q, c.load)
    elif in_pes:
        passes, stream = 1, max(ceil(c.k / split), c.load)
    else:
        passes, stream = ceil(p / r) * ceil(q / c.num_cols) * steps, max(min(r, channels), c.load)
    sums = c.m * c.n * (c.result_bytes + (8 * split if split > 1 else 0))
    return passes, stream, c.b * (inputs * num_q + weights * num_p + sums)
