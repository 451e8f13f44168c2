"""What a graph's operators leave in memory and until when, and the most that a schedule holds at once."""

from __future__ import annotations

import numpy as np

from dovetail.schedule.cores.problem import SRAM_BYTES, WHOLE, CoreSchedule, Tensors
from dovetail.workload.graph import FloatArray, IntArray, Need, Ops, Phase, csr
from dovetail.workload.operators import DTYPE_BYTES, NUM_WRITES, Unit
from dovetail.workload.optimizer import Precision


def tensors_of(ops: Ops, precision: Precision) -> Tensors:
    """Outputs, held by those they feed and, where the backward pass needs them, by its rows; masks and statistics.

    An output that gradients need is held until the backward rows of its maker and of all it feeds have ended: which of
    them reads it is not recorded, so this is the later of both. Gradients that stand are resident.
    """
    num = len(ops)
    output_bytes = ops.output_elements * DTYPE_BYTES[ops.dtype] * _is_written(ops, precision)
    kept_bytes = np.where(ops.phase == Phase.FORWARD, ops.output_elements * ops.kept_bytes_per_element, 0.0)
    sources = np.repeat(np.arange(num), np.diff(ops.edge_start))
    is_kept_edge = (ops.phase[sources] == Phase.FORWARD) & ops.is_backward[ops.edge_to]
    own_from, own_to = sources[is_kept_edge], ops.edge_to[is_kept_edge]
    fed_from, fed_to = sources[~is_kept_edge], ops.edge_to[~is_kept_edge]
    is_needed = ops.need != Need.NOBODY
    later_from, later_to = _joined(fed_from, fed_to, own_from, own_to)
    held = [
        (fed_from, fed_to),
        *((f[is_needed[f]], t[is_needed[f]]) for f, t in ((own_from, own_to), (later_from, later_to))),
    ]
    use_from = np.concatenate([pair[0] for pair in held] + [own_from + num])
    use_to = np.concatenate([pair[1] for pair in held] + [own_to])
    use_start, use_to = csr(2 * num, use_from.astype(np.int64), use_to.astype(np.int64))
    return Tensors(
        maker=np.tile(np.arange(num), 2),
        tensor_bytes=np.concatenate((output_bytes, kept_bytes)),
        use_start=use_start,
        use_to=use_to,
        resident_bytes=_resident_bytes(ops, precision),
    )


def _is_written(ops: Ops, precision: Precision) -> FloatArray:
    """Whether a row leaves a new tensor of its own: no sum, no update, no gradient added to one that stands."""
    is_sum = (ops.unit == Unit.VECTOR) & (NUM_WRITES[ops.is_backward.astype(np.int64), ops.kind] == 0)
    is_standing = (ops.phase == Phase.WEIGHT_GRAD) & precision.are_gradients_standing
    return np.where(is_sum | is_standing | (ops.phase == Phase.UPDATE), 0.0, 1.0)


def _resident_bytes(ops: Ops, precision: Precision) -> float:
    owned = ~ops.is_tied & (ops.phase == Phase.FORWARD)
    num_parameters = float((ops.weight_elements + ops.bias_elements)[owned].sum())
    gradient_bytes = precision.gradient_bytes if precision.are_gradients_standing else 0.0
    return num_parameters * (precision.weight_bytes + precision.optimizer_bytes + gradient_bytes)


def _joined(
    first_from: IntArray, first_to: IntArray, then_from: IntArray, then_to: IntArray
) -> tuple[IntArray, IntArray]:
    """Pairs a -> c for every a -> b of the first and b -> c of the second; the second is sorted by its left side."""
    low = np.searchsorted(then_from, first_to, side="left")
    counts = np.searchsorted(then_from, first_to, side="right") - low
    at = np.repeat(low, counts) + np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(first_from, counts), then_to[at]


def peak_hbm_bytes(schedule: CoreSchedule) -> float:
    """The most bytes in HBM at any moment: what is resident, and tensors from their maker's start to their last use."""
    tensors = schedule.problem.tensors
    end = schedule.end_beats
    last = np.full(len(tensors.maker), -1, np.int64)
    np.maximum.at(last, np.repeat(np.arange(len(tensors.maker)), np.diff(tensors.use_start)), end[tensors.use_to])
    freed = np.where(last < 0, schedule.makespan_beats, np.maximum(last, end[tensors.maker]))
    return tensors.resident_bytes + _most(schedule.start_beats[tensors.maker], freed, tensors.tensor_bytes)


def peak_sram_bytes(schedule: CoreSchedule) -> float:
    """The most bytes of the shared SRAM held at any moment by blocks of what runs."""
    held = schedule.problem.modes.need[schedule.mode, SRAM_BYTES] / WHOLE * schedule.problem.sram_bytes
    return _most(schedule.start_beats, schedule.end_beats, held)


def _most(begin: IntArray, end: IntArray, amount: FloatArray) -> float:
    """The greatest sum of amounts held at once, each from `begin` to before `end`."""
    lasts = end > begin
    times = np.concatenate((begin[lasts], end[lasts]))
    changes = np.concatenate((amount[lasts], -amount[lasts]))
    order = np.lexsort((changes, times))  # what ends goes before what begins
    return float(np.cumsum(changes[order]).max(initial=0.0))
