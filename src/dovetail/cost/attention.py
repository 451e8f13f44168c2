"""Fused (flash) attention: tiles of queries, or of keys in the backward pass, walked over the other sequence.

A tile of one head is one piece of work for one unit. Every position it walks past costs products on the tensor unit and
exponentials on the vector lanes, partly side by side. Causal tiles differ in length and start in index order, so the
units end unevenly. The backward pass also prepares and finishes its gradients in kernels of their own.

On GPUs, that is; `cost.mapping.attention` has arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.cost.columns import ChipColumns
from dovetail.workload.graph import FloatArray

# Fitted on 223 attentions of one H200 (cuDNN's flash kernels, PyTorch 2.11) unless noted otherwise.
TILE = 128.0  # rows of a tile: how the kernels are built
WIDTH_STEP = 64.0  # head widths are padded to it: width 96 takes the products of 128 (profile of one H200)
FILL_POSITIONS = 147.0  # a tile's start and end, in positions walked
FORWARD_FRAC = 0.98  # of the main loop's rate of large products
BACKWARD_FRAC = 0.855  # of the same: operands pass the SRAM twice, dQ is added up in memory
VECTOR_FLOP = (27.2, 68.7)  # a score, forward and backward: scale, maximum, exp, sum, cast; exp again, minus delta
NUM_SPECIAL = 16  # exponentials a clock and SM, from Volta to Blackwell (CUDA programming guide, throughput table)
EXP_FLOP = 16.0  # of VECTOR_FLOP, the one exponential: two FLOP a lane and clock, 128 lanes on the H200
# Of those, what draws power: the rest is waiting for the special-function unit (one load of one H200, and its layers).
ENERGY_FLOP = (12.0, 30.0)
WIDE_POWER = 0.70  # backward slows as (width / 128)^this above 128, where dK and dV leave the registers (profile)
NUM_GRADIENTS = 3  # queries, keys, values
NUM_KERNELS = (2, 4)  # forward: clear, attend; backward: clear, rowsum(dO O), gradients, cast dQ (profile of one H200)
PASS_BYTES = 14.0  # backward, a query element: dO and O in, fp32 dQ cleared, read again, bf16 dQ out
# Pace of products in kernels of the first generation, whose warps share out keys and meet in the SRAM at every step
# (Dao 2023, arXiv:2307.08691, sections 3.3 and 4.1: 1.3 to 3 times slower in all). Exponentials are as many in either.
FIRST_FRAC = 0.45
# Since Hopper tensor units run beside loads and exponentials; kernels written for older chips cannot use that: 1.5 to 2
# times slower forward and backward (Shah et al. 2024, arXiv:2407.08608, abstract).
SYNCHRONOUS_FRAC = 0.50
# List scheduling of causal tiles, head after head, over the units: the mean end beyond total / units, in longest tiles.
# Simulated: 0.59-0.68 shortest first (forward); 0.62 (1 - x^2), x = tiles of a head / units, longest first (backward).
UNEVEN_FRAC = 0.62


@dataclass(frozen=True, slots=True, kw_only=True)
class Attentions:
    """Shapes of attentions of one direction: `heads` (of all samples) of `queries` x `keys`, and what they share."""

    heads: FloatArray
    queries: FloatArray
    keys: FloatArray
    key_width: FloatArray
    value_width: FloatArray
    kv_frac: FloatArray  # key-value heads over heads
    work_frac: FloatArray  # share of the scores that is formed: one half under a causal mask
    is_backward: bool
    rate_flop_per_s: FloatArray  # as sustained in the main loop of products
    product_frac: FloatArray  # of the best kernels' pace of products, by those of the first generation
    pace_frac: FloatArray  # of the best kernels' pace in all, by those that wait for each other's results
    element_bytes: FloatArray


def attention_unit_s(shape: Attentions, chips: ChipColumns) -> FloatArray:
    """Seconds the units take at full clock, with their share of the lanes each, in work or not.

    All kernels but those before and after the gradients.
    """
    tiled, streamed = _tiled_and_streamed(shape)
    product_s = _product_s(shape) / shape.product_frac
    tile_step_s = TILE * chips.num_units * np.hypot(product_s, _score_s(shape, chips)) / shape.pace_frac
    per_head = np.ceil(tiled / TILE)
    waves = shape.heads * per_head / chips.num_units
    mean_s, longest_s = (positions * tile_step_s for positions in _positions(shape, streamed))
    return np.asarray(np.maximum(longest_s, waves * mean_s + _rest(shape, per_head, chips) * longest_s))


def _tiled_and_streamed(shape: Attentions) -> tuple[FloatArray, FloatArray]:
    """Positions that are cut into tiles, and those that stream past each tile."""
    return (shape.keys, shape.queries) if shape.is_backward else (shape.queries, shape.keys)


def _positions(shape: Attentions, streamed: FloatArray) -> tuple[FloatArray, FloatArray]:
    """What tiles walk past on average, and the longest of them, with their starts and ends."""
    frac = shape.work_frac
    mean = frac * streamed + (1 - frac) * TILE + FILL_POSITIONS
    return mean, np.minimum(streamed, 2 * frac * streamed + TILE) + FILL_POSITIONS


def _rest(shape: Attentions, per_head: FloatArray, chips: ChipColumns) -> FloatArray:
    """Longest tiles that units wait for each other at the end, on average."""
    waves = shape.heads * per_head / chips.num_units
    uneven = np.minimum(1.0, 2 - 2 * shape.work_frac)  # 0: all tiles equal; 1: causal
    order = np.maximum(0.0, 1 - (per_head / chips.num_units) ** 2) if shape.is_backward else 1.0
    return np.asarray((1 - uneven) * (np.ceil(waves) - waves) + uneven * UNEVEN_FRAC * order * (waves > 1))


def _product_s(shape: Attentions) -> FloatArray:
    """Seconds of the whole chip's products for one score: two forward; five backward, scores again."""
    key_width = WIDTH_STEP * np.ceil(shape.key_width / WIDTH_STEP)
    value_width = WIDTH_STEP * np.ceil(shape.value_width / WIDTH_STEP)
    if not shape.is_backward:
        return np.asarray(2 * (key_width + value_width) / (FORWARD_FRAC * shape.rate_flop_per_s))
    wide = np.maximum(1.0, np.maximum(key_width, value_width) / 128) ** WIDE_POWER
    return np.asarray(2 * (3 * key_width + 2 * value_width) * wide / (BACKWARD_FRAC * shape.rate_flop_per_s))


def _score_s(shape: Attentions, chips: ChipColumns) -> FloatArray:
    lanes = chips.num_lanes / chips.num_units
    exp_flop = np.minimum(EXP_FLOP, 2 * lanes / NUM_SPECIAL)  # what the lanes could do while one is taken
    flop = VECTOR_FLOP[shape.is_backward] - EXP_FLOP + exp_flop
    return np.asarray(flop / (chips.vector_flop_per_s * chips.calibration["vector_frac"]))


def score_flop(shape: Attentions) -> FloatArray:
    """Vector FLOP of the scores that are formed, as their energy has it."""
    scores = shape.heads * shape.queries * shape.keys * shape.work_frac
    return np.asarray(scores * ENERGY_FLOP[shape.is_backward])


def side_bytes(shape: Attentions) -> FloatArray:
    """Bytes of the kernels before and after the gradients; grouped heads also sum key and value gradients."""
    if not shape.is_backward:
        return np.zeros_like(shape.heads)
    queries = shape.heads * shape.queries * shape.value_width
    pairs = shape.heads * shape.keys * (shape.key_width + shape.value_width) / 2
    summed = np.where(shape.kv_frac < 1, 2 * shape.element_bytes * pairs * (1 + shape.kv_frac), 0.0)
    return np.asarray(PASS_BYTES * queries + summed)
