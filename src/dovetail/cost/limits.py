"""What operators are limited by: the resource of a chip of which a tenth more gains most."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dovetail.cost.columns import ChipColumns, chip_columns
from dovetail.cost.costs import cost_table, equally_costed_rows
from dovetail.cost.op_cost import LIMITS, Setting
from dovetail.hardware.chip import Chip
from dovetail.workload.graph import FloatArray, IntArray, Ops

MORE = 1.1  # of a resource; of a latency, as much less
_LATENCIES = ("fill_s", "tile_step_s", "split_s", "wait_s")
_LAUNCHES = ("launch_s", "alone_s", "host_kernel_s", "host_gradient_s", "host_autograd_s")


def op_limits(ops: Ops, chip: Chip, setting: Setting = Setting.STREAM) -> IntArray:
    """Which of LIMITS each row of `ops` gains most by a tenth more of; latencies where none gains anything.

    As the model has it: rows that were measured on the chip keep the limit of their prediction.
    """
    first, which = equally_costed_rows(ops)
    gained_s = gains_s(ops.taken(first), chip, setting)
    nothing = np.full((len(first), 1), np.finfo(np.float64).tiny)
    is_any = (gained_s > nothing).any(axis=1)
    limit = np.where(is_any, gained_s.argmax(axis=1), LIMITS.index("latency"))
    return np.asarray(limit[which], dtype=np.int64)


def gains_s(ops: Ops, chip: Chip, setting: Setting = Setting.STREAM) -> FloatArray:
    """Seconds that each row of `ops` is sooner done with a tenth more of each of LIMITS: rows by limits."""
    times_s = cost_table(ops, _perturbed(chip_columns((chip,))), setting).compute_s
    return np.asarray(times_s[:, :1] - times_s[:, 1:])


def _perturbed(chip: ChipColumns) -> ChipColumns:
    """The chip as it is, then with more of one resource at a time, in the order of LIMITS."""
    copies = chip.at(np.zeros(1 + len(LIMITS), dtype=np.int64))

    def raised(column: FloatArray, limit: str) -> FloatArray:
        more = np.ones(1 + len(LIMITS))
        more[1 + LIMITS.index(limit)] = MORE
        return np.asarray(column * more)

    calibration = {
        name: 1 / raised(1 / column, "latency") if name in _LATENCIES and bool((column > 0).all()) else column
        for name, column in copies.calibration.items()
    }
    calibration |= {
        name: 1 / raised(1 / column, "launch")
        for name, column in copies.calibration.items()
        if name in _LAUNCHES and bool((column > 0).all())
    }
    return replace(
        copies,
        dtype_flop_per_s=raised(copies.dtype_flop_per_s, "tensor"),
        vector_flop_per_s=raised(copies.vector_flop_per_s, "vector"),
        hbm_bytes_per_s=raised(copies.hbm_bytes_per_s, "hbm"),
        sram_bytes_per_s=raised(copies.sram_bytes_per_s, "sram"),
        vector_memory_bytes_per_s=raised(copies.vector_memory_bytes_per_s, "sram"),
        calibration=calibration,
    )
