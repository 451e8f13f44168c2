"""What a graph's operators leave in memory and until when, and the most that a schedule holds at once."""

from __future__ import annotations

import numpy as np

from dovetail.opsched.holding import Pairs, Reads, reads_of
from dovetail.opsched.problem import SRAM_BYTES, WHOLE, CoreSchedule, Tensors
from dovetail.workload.graph import BoolArray, FloatArray, IntArray, Need, Ops, Phase, csr
from dovetail.workload.matrices import are_matrices, matrix_shapes
from dovetail.workload.operators import DTYPE_BYTES, NUM_WRITES, Unit, code_of
from dovetail.workload.optimizer import Precision

# one row becomes one for each expert, and back: what they are described by is no size of their gradients
_ROUTING = (code_of("permute"), code_of("unpermute"))


def tensors_of(ops: Ops, precision: Precision, collective_s: FloatArray, *, is_layer: bool = True) -> Tensors:
    """Three tensors a row: what stays of its output, what is dropped to be made again, and masks and statistics.

    Gradients that stand are resident.
    """
    num = len(ops)
    reads = reads_of(ops, collective_s)
    again = reads.again
    is_remade = (again >= 0) & ~_is_standing(ops, reads)
    share = np.zeros(num)  # a row may run again for a part of its output
    share[again >= 0] = ops.work_frac[again[again >= 0]] / ops.work_frac[again >= 0]
    dropped_frac = np.where(is_remade, share, 0.0)
    left_bytes = _left_bytes(ops, precision, reads)
    beside_bytes = np.where(ops.phase == Phase.FORWARD, ops.output_elements * ops.kept_bytes_per_element, 0.0)
    stays_bytes, masks_bytes = left_bytes * (1.0 - dropped_frac), beside_bytes * (1.0 - share)
    stays_bytes[again[again >= 0]] *= share[again >= 0]
    masks_bytes[again[again >= 0]] = (beside_bytes * share)[again >= 0]
    stays, drops = _holders(ops, reads, np.where(is_remade, again, -1))
    held = Pairs.joined((stays, drops.moved(num), reads.own.moved(2 * num)))
    use_start, use_to = csr(3 * num, held.sources, held.targets)
    return Tensors(
        maker=np.tile(np.arange(num), 3),
        tensor_bytes=np.concatenate((stays_bytes, left_bytes * dropped_frac, masks_bytes)),
        use_start=use_start,
        use_to=use_to,
        resident_bytes=_resident_bytes(ops, precision, is_layer=is_layer),
    )


def _is_standing(ops: Ops, reads: Reads) -> BoolArray:
    """Outputs of a core that runs again which gradients outside it need: they are kept, so one of the two is enough."""
    is_outside = reads.forward.where(reads.again[reads.forward.targets] < 0)
    is_read = np.isin(np.arange(len(ops)), is_outside.sources)
    return np.asarray(ops.is_core & is_read & ((reads.need & Need.OUTSIDE) != 0))


def _holders(ops: Ops, reads: Reads, again: IntArray) -> tuple[Pairs, Pairs]:
    """Who holds what stays of each row's output, and who what is dropped.

    What is made again is read again, by rows that run again and by gradients.
    """
    is_again = again[reads.later.sources] >= 0
    copies = Pairs(again[reads.later.sources[is_again]], reads.later.targets[is_again])
    at_least = np.flatnonzero(ops.phase == Phase.RECOMPUTE)  # what is not read after all goes when it is done
    stays = Pairs.joined((reads.fed, reads.later, copies, Pairs(at_least, at_least)))
    return stays, reads.forward


def _left_bytes(ops: Ops, precision: Precision, reads: Reads) -> FloatArray:
    """What each row leaves: its output, or the gradients it writes, but no more than its inputs have elements."""
    output_bytes = ops.output_elements * DTYPE_BYTES[ops.dtype]
    inputs = reads.forward
    input_bytes = np.bincount(inputs.targets, weights=output_bytes[inputs.sources], minlength=len(ops))
    is_first = ops.phase[reads.own.sources] == Phase.FORWARD
    own = reads.own.where(is_first & (ops.phase[reads.own.targets] == Phase.INPUT_GRAD))
    of_inputs_bytes = input_bytes[own.sources]
    written_bytes = np.maximum(output_bytes[own.targets], np.minimum(ops.write_bytes[own.targets], of_inputs_bytes))
    output_bytes[own.targets] = np.where(np.isin(ops.kind[own.targets], _ROUTING), of_inputs_bytes, written_bytes)
    return np.asarray(output_bytes * _is_written(ops, precision) * ~reads.is_passing)


def _is_written(ops: Ops, precision: Precision) -> FloatArray:
    """Whether a row leaves a new tensor of its own: no sum, no update, no gradient added to one that stands."""
    is_sum = (ops.unit == Unit.VECTOR) & (NUM_WRITES[ops.is_backward.astype(np.int64), ops.kind] == 0)
    is_standing = (ops.phase == Phase.WEIGHT_GRAD) & precision.has_persistent_gradients
    return np.where(is_sum | is_standing | (ops.phase == Phase.UPDATE), 0.0, 1.0)


def _resident_bytes(ops: Ops, precision: Precision, *, is_layer: bool) -> float:
    owned = ~ops.is_tied & (ops.phase == Phase.FORWARD)
    num_parameters = float((ops.weight_elements + ops.bias_elements)[owned].sum())
    gradient_bytes = precision.gradient_bytes if precision.has_persistent_gradients else 0.0
    num_trained = num_parameters - float(ops.frozen_elements[owned].sum())
    resident_bytes = num_parameters * precision.weight_bytes + num_trained * (
        precision.optimizer_bytes + gradient_bytes
    )
    is_matrix = owned & are_matrices(ops, precision.entry, is_layer=is_layer)
    if not is_matrix.any():
        return resident_bytes
    num, rows, cols = matrix_shapes(ops)
    own_bytes = (precision.matrix_optimizer_bytes - precision.optimizer_bytes) * ops.weight_elements
    return resident_bytes + float((own_bytes + precision.factor_bytes * num * (rows + cols))[is_matrix].sum())


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
