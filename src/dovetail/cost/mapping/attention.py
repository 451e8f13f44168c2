"""Attention on arrays: a chain of products and a softmax that keeps both engines busy.

Per score, each product takes the array clocks of a head's width rounded up to the array, and the vector unit a counted
number of ALU slots; exponentials are a bound of their own. How much of the shorter hides behind the longer is stated.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from dovetail.columns import check_rows
from dovetail.errors import InvalidInput
from dovetail.workload.graph import FloatArray

# Vector slots of a score, counted by hand; the exponential is apart. Forward: maximum, subtract, sum, rescale or mask,
# pack. Backward: subtract the row's log-sum, subtract delta, multiply, scale, casts. An H200's 27 and 69 are its own.
FORWARD_SLOTS, BACKWARD_SLOTS = 6.0, 10.0
# Share of the shorter engine's time that hides behind the longer's. 0: they take turns, as casts and products of a TPU
# v4 were seen to (`vector_work`). 34 published TPU steps fit none and all of it alike, 4.6 and 5.1 % on v6e at 8k.
OVERLAP_FRAC = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionShapes:
    """Attentions of one direction, one a row: scores of all samples and heads that are formed, and widths of a head."""

    num_scores: FloatArray
    key_width: FloatArray
    value_width: FloatArray

    def __post_init__(self) -> None:
        check_rows({one.name: getattr(self, one.name) for one in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionEngines:
    """What attention needs of each chip: its arrays and its vector lanes, `num_alus` of them working on each lane."""

    num_arrays: FloatArray
    num_rows: FloatArray
    num_cols: FloatArray
    num_lanes: FloatArray
    num_alus: FloatArray
    clock_hz: FloatArray

    def __post_init__(self) -> None:
        columns = {one.name: getattr(self, one.name) for one in fields(self)}
        check_rows(columns)
        for name, column in columns.items():
            if not column.min() > 0:
                raise InvalidInput(f"{name} must be positive; got {column.min():g}", name)


def product_width(shapes: AttentionShapes, chips: AttentionEngines, *, is_backward: bool) -> FloatArray:
    """Multiply-accumulates of a score with what the array's fill by the head's width leaves idle.

    Scores contract over keys' width (rows of the array), outputs have values' width (columns). Backward: scores again,
    and the gradients of probabilities (rows, values), values (columns), queries and keys (columns).
    """

    def filled(width: FloatArray, side: FloatArray) -> FloatArray:
        return np.ceil(width[:, None] / side) * side

    keys_in, values_out = filled(shapes.key_width, chips.num_rows), filled(shapes.value_width, chips.num_cols)
    if not is_backward:
        return keys_in + values_out
    keys_out, values_in = filled(shapes.key_width, chips.num_cols), filled(shapes.value_width, chips.num_rows)
    return keys_in + values_in + values_out + 2 * keys_out


def array_attention_s(
    shapes: AttentionShapes, chips: AttentionEngines, *, is_backward: bool, overlap_frac: float = OVERLAP_FRAC
) -> FloatArray:
    """Seconds of arrays and vector unit, attentions by chips; memory traffic is the caller's."""
    if not 0 <= overlap_frac <= 1:
        raise InvalidInput(f"overlap is a share from 0 to 1; got {overlap_frac:g}", "overlap_frac")
    num_macs = chips.num_arrays * chips.num_rows * chips.num_cols
    array_cycles = product_width(shapes, chips, is_backward=is_backward) / num_macs
    slots = BACKWARD_SLOTS if is_backward else FORWARD_SLOTS
    # one exponential per score, one per lane and clock
    vector_cycles = np.maximum(slots / chips.num_alus, 1.0) / chips.num_lanes
    longer, shorter = np.maximum(array_cycles, vector_cycles), np.minimum(array_cycles, vector_cycles)
    cycles = longer + (1 - overlap_frac) * shorter
    return np.asarray(shapes.num_scores[:, None] * cycles / chips.clock_hz)
