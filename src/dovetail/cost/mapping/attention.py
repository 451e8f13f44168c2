"""Attention on arrays: a chain of products and a softmax that keeps both engines busy.

Per score, each product takes the array clocks of a head's width rounded up to the array, and the vector unit a counted
number of ALU slots. Scores pass the memory that feeds the arrays on their way between the engines. How much of the
shorter of arrays and lanes hides behind the longer is stated (`overlap_frac` of a chip's calibration).

Every memory holds rows of queries (of keys, backward) with what they add up, while the other sequence streams past in
slabs; where it cannot hold all rows of a head, the other sequence streams again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.cost.attention import Attentions
from dovetail.cost.columns import ChipColumns
from dovetail.cost.mapping.memory_level import PARTIAL_BYTES, SLAB
from dovetail.cost.mapping.vector import NUM_BUFFERS, spilled_bytes_per_slot
from dovetail.cost.mapping.vector_slots import ATTENTION_BACKWARD, ATTENTION_FORWARD
from dovetail.workload.graph import FloatArray

# Bytes of a score between arrays and lanes, counted by hand. Forward: fp32 scores out of the arrays and into the lanes,
# bf16 probabilities back. Backward: scores and gradients of probabilities in fp32, probabilities and gradients of
# scores in bf16.
FORWARD_SCORE_BYTES, BACKWARD_SCORE_BYTES = 12.0, 24.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayAttention:
    """Attentions by chips, HBM apart."""

    busy_s: FloatArray
    lanes_s: FloatArray  # of which so much on the lanes, hidden or not
    vector_flop: FloatArray
    nearest_bytes: FloatArray  # between the engines and the memory that feeds them
    sram_bytes: FloatArray  # between vector memory and the shared SRAM, beyond every element once
    again_bytes: FloatArray  # of HBM, beyond every element once


def product_width(shape: Attentions, chips: ChipColumns) -> FloatArray:
    """Multiply-accumulates of a score with what the array's fill by the head's width leaves idle.

    Scores contract over keys' width (rows of the array), outputs have values' width (columns). Backward: scores again,
    and the gradients of probabilities (rows, values), values (columns), queries and keys (columns).
    """
    rows, cols = chips.tile_rows[0], chips.tile_cols[0]

    def filled(width: FloatArray, side: FloatArray) -> FloatArray:
        return np.asarray(np.ceil(width / side) * side)

    keys_in, values_out = filled(shape.key_width, rows), filled(shape.value_width, cols)
    if not shape.is_backward:
        return keys_in + values_out
    keys_out, values_in = filled(shape.key_width, cols), filled(shape.value_width, rows)
    return keys_in + values_in + values_out + 2 * keys_out


def array_attention(shape: Attentions, chips: ChipColumns) -> ArrayAttention:
    """A block of scores, as large as an array, of one head is one piece of work for one array."""
    rows, cols = chips.tile_rows[0], chips.tile_cols[0]
    num_blocks = shape.heads * np.ceil(shape.queries / rows) * np.ceil(np.ceil(shape.keys / cols) * shape.work_frac)
    idle_ratio = np.ceil(num_blocks / chips.num_units) * chips.num_units / num_blocks
    scores = shape.heads * shape.queries * shape.keys * shape.work_frac
    formed = shape.heads * shape.queries * np.ceil(shape.keys / cols) * cols * shape.work_frac
    arrays_s = 2 * formed * product_width(shape, chips) * idle_ratio / (shape.product_frac * shape.rate_flop_per_s)
    slots = (ATTENTION_BACKWARD if shape.is_backward else ATTENTION_FORWARD).per_element
    lanes_s = slots * scores / (chips.vector_flop_per_s * chips.calibration["vector_frac"])
    overlap_frac = chips.calibration["overlap_frac"]
    engines_s = np.maximum(arrays_s, lanes_s) + (1 - overlap_frac) * np.minimum(arrays_s, lanes_s)
    nearest_bytes = formed * _score_bytes(shape, cols) + slots * scores * spilled_bytes_per_slot(chips)
    sram_bytes = np.where(chips.has_vmem, _again_bytes(shape, chips.vector_memory_bytes), 0.0)
    busy_s = np.maximum(engines_s, nearest_bytes / chips.vector_memory_bytes_per_s)
    return ArrayAttention(
        busy_s=np.maximum(busy_s, sram_bytes / chips.sram_bytes_per_s),
        lanes_s=np.asarray(lanes_s),
        vector_flop=np.asarray(slots * scores),
        nearest_bytes=np.asarray(nearest_bytes),
        sram_bytes=sram_bytes,
        again_bytes=_again_bytes(shape, chips.sram_bytes),
    )


def _again_bytes(shape: Attentions, capacity_bytes: FloatArray) -> FloatArray:
    """Bytes into a memory of that capacity beyond every element once: the streamed sequence, for each set of held rows.

    Rows of all heads that share keys and values are held side by side. Or the streamed sequence is held whole, where it
    fits: then nothing is read again.
    """
    element, slab = shape.element_bytes, np.minimum(SLAB, np.minimum(shape.queries, shape.keys))
    widths = shape.key_width + shape.value_width
    scores_bytes = slab * (PARTIAL_BYTES + element) * (2 if shape.is_backward else 1)
    group = 1 / shape.kv_frac  # heads that share keys and values
    if shape.is_backward:
        # keys and values with their gradients stay; queries and gradients of outputs stream, sums of dQ pass both ways
        held, streamed = shape.keys, shape.queries * group
        row_bytes = widths * (element + PARTIAL_BYTES) + scores_bytes
        stream_bytes = widths * element + 2 * PARTIAL_BYTES * shape.key_width
    else:
        # queries, running maximum and sum, and outputs stay; keys and values stream
        held, streamed = shape.queries * group, shape.keys
        row_bytes = shape.key_width * element + (shape.value_width + 2) * PARTIAL_BYTES + scores_bytes
        stream_bytes = widths * element
    room_bytes = capacity_bytes - NUM_BUFFERS * slab * stream_bytes
    num_held = np.maximum(np.floor(room_bytes / row_bytes), 1.0)  # one at the least: slabs are narrower then
    num_passes = np.ceil(held / num_held)
    is_whole = streamed * stream_bytes + NUM_BUFFERS * slab * row_bytes <= capacity_bytes
    again = np.where(is_whole, 0.0, np.maximum(num_passes * shape.work_frac - 1, 0.0))
    return np.asarray(again * shape.heads * shape.kv_frac * streamed * stream_bytes)


def _score_bytes(shape: Attentions, cols: FloatArray) -> FloatArray:
    """Bytes of a score through the memory that feeds the arrays: itself, and its share of the rows that stream past."""
    widths = shape.key_width + shape.value_width if shape.is_backward else shape.key_width
    own = BACKWARD_SCORE_BYTES if shape.is_backward else FORWARD_SCORE_BYTES
    return np.asarray(own + shape.element_bytes * widths / cols)
