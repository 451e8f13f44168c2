"""Vector operators on chips with arrays: lanes, the memory beside them and HBM side by side, tiles double-buffered."""

from __future__ import annotations

import numpy as np

from dovetail.cost.columns import ChipColumns
from dovetail.cost.kernels import Access
from dovetail.cost.mapping.vector_slots import NEEDED_REGISTER_BYTES, SPILLED_BYTES
from dovetail.cost.vector import KernelRows, Times, added_up, pooled_bytes
from dovetail.units import NANO
from dovetail.workload.graph import FloatArray

# A copy from HBM into vector memory ends so long after it began, however small it is (measured on a TPU v4: 484 clocks
# of 1.05 GHz; ayaka14732/tpu-v4-latency-numbers, local DMA).
COPY_S = 461 * NANO
NUM_BUFFERS = 2.0  # one in work, one on its way
ROWS_AT_ONCE = 8.0  # rows of a vector register (JAX, pallas tpu_info.py: 8 sublanes)

_POOLED = list(Access).index(Access.BAG)


def streamed_bytes_per_s(chips: ChipColumns) -> FloatArray:
    """HBM bandwidth that streams reach: no more is on its way than the memory beside the lanes holds."""
    in_flight_bytes = chips.vector_memory_bytes / NUM_BUFFERS
    return np.asarray(np.minimum(chips.hbm_bytes_per_s * chips.calibration["hbm_frac"], in_flight_bytes / COPY_S))


def spilled_bytes_per_slot(chips: ChipColumns) -> FloatArray:
    """Bytes of an ALU operation that pass the memory beside the lanes, as registers are too few for its operands."""
    held_frac = np.minimum(chips.register_bytes_per_lane / NEEDED_REGISTER_BYTES, 1.0)
    return np.asarray(SPILLED_BYTES * (1 - held_frac))


def array_kernel_times(kernels: KernelRows, chips: ChipColumns) -> Times:
    """Operators as the sum of their kernels; of each the longest of HBM, lanes and the memory beside them.

    A row that is needed twice is read again from HBM as far as it does not stay: tiles of eight rows, double-buffered,
    must fit beside the lanes.
    """
    tiles_bytes = NUM_BUFFERS * ROWS_AT_ONCE * kernels.cols * kernels.element_bytes * kernels.reads
    lost_frac = np.maximum(1 - chips.vector_memory_bytes / np.maximum(tiles_bytes, 1.0), 0.0)
    again_bytes = kernels.needs_row * kernels.elements * kernels.element_bytes * kernels.reads * lost_frac
    is_pooled = (kernels.access == _POOLED)[:, None]
    moved_bytes = kernels.moved_bytes + again_bytes + np.where(is_pooled, pooled_bytes(kernels), 0.0)
    hbm_s = moved_bytes / streamed_bytes_per_s(chips)
    lanes_s = kernels.array_slots / (chips.vector_flop_per_s * chips.calibration["vector_frac"])
    nearest_bytes = moved_bytes + kernels.array_slots * spilled_bytes_per_slot(chips)
    on_chip_s = np.maximum(lanes_s, nearest_bytes / chips.vector_memory_bytes_per_s)
    return added_up(
        kernels,
        busy_s=np.maximum(hbm_s, on_chip_s),
        lanes_s=on_chip_s,
        hbm_s=hbm_s,
        waits_s=np.zeros_like(hbm_s),
        hbm_bytes=moved_bytes,
        nearest_bytes=nearest_bytes,
    )
