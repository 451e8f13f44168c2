"""A tiled roofline: every operator takes as long as the slowest of its units needs, plus its launch.

First physics, to be replaced behind the same function. It knows padding to tiles, waves over units and split
contractions for matrix products, and passes over memory for the rest. It does not know caches, clocks or fusion.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.cost.cost import Cost
from dovetail.hardware.chip import Chip
from dovetail.workload.graph import B, BoolArray, FloatArray, IntArray, Ops, Phase
from dovetail.workload.operators import DTYPE_BYTES, DTYPES, Unit, code_of

SPLITS = (1, 2, 4, 8, 16)  # ways a contraction may be divided over units when there are few output tiles
LIMITS = ("tensor", "vector", "hbm", "launch")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpCosts:
    """Cost of every row of a graph on one chip; `limit` indexes LIMITS: what each row waits for most."""

    compute_s: FloatArray
    energy_j: FloatArray
    flop: FloatArray
    hbm_bytes: FloatArray
    limit: IntArray

    def total(self, rows: BoolArray) -> Cost:
        return Cost(
            compute_s=float(self.compute_s[rows].sum()),
            energy_j=float(self.energy_j[rows].sum()),
            flop=float(self.flop[rows].sum()),
            hbm_bytes=float(self.hbm_bytes[rows].sum()),
        )


def op_costs(ops: Ops, chip: Chip) -> OpCosts:
    """Cost of each row of `ops` on `chip`, alone and with cold caches; network rows cost nothing here."""
    calibration = chip.calibration
    works = (ops.unit == Unit.TENSOR) | (ops.unit == Unit.VECTOR)
    flop = ops.flop
    hbm_bytes = ops.read_bytes + ops.write_bytes + _reread_bytes(ops, chip)
    tensor_s = np.where(ops.unit == Unit.TENSOR, flop / _efficiency(ops, chip) / _tensor_flop_per_s(ops, chip), 0.0)
    vector_s = np.where(ops.unit == Unit.VECTOR, flop / (chip.vector.peak_flop_per_s * calibration.vector_frac), 0.0)
    hbm_s = hbm_bytes / (chip.hbm.bandwidth_bytes_per_s * calibration.hbm_frac)
    num_launches = np.where(_is_stepwise(ops), ops.extents[:, B], 1)
    launch_s = np.where(works, calibration.launch_s * num_launches, 0.0)
    waits = np.stack((tensor_s, vector_s, hbm_s, launch_s))
    return OpCosts(
        compute_s=np.maximum(np.maximum(tensor_s, vector_s), hbm_s) + launch_s,
        energy_j=_energy_j(ops, chip, flop, hbm_bytes),
        flop=flop,
        hbm_bytes=hbm_bytes,
        limit=np.argmax(waits, axis=0),
    )


def _tensor_flop_per_s(ops: Ops, chip: Chip) -> FloatArray:
    """Sustained FLOP/s of each row's dtype; 1 where the row is not for the tensor units."""
    rate_flop_per_s = np.ones(len(ops))
    is_tensor = ops.unit == Unit.TENSOR
    for code in np.unique(ops.math[is_tensor]):
        peak = chip.peak_flop_per_s(DTYPES[code]) * chip.calibration.tensor_frac
        rate_flop_per_s[is_tensor & (ops.math == code)] = peak
    return rate_flop_per_s


def _efficiency(ops: Ops, chip: Chip) -> FloatArray:
    """Useful share of what the units do: padding to the tile, and units idle in the last wave."""
    b, m, n, k, v = ops.extents.T.astype(np.float64)
    is_attention = ops.kind == code_of("attention")
    # attention is two products over the same scores: pad queries and keys as rows and columns, widths as contraction
    k = np.where(is_attention, k + v, k)
    # steps of a recurrence run one after the other; the gradient of its weights is one product over all of them
    is_recurrent = ops.kind == code_of("recurrent_linear")
    k = np.where(is_recurrent & ~_is_stepwise(ops), b * k, k)
    b = np.where(is_recurrent, 1.0, b)
    tile_m, tile_n, tile_k = chip.tensor.tile
    num_tiles = b * np.ceil(m / tile_m) * np.ceil(n / tile_n) * np.where(is_attention, ops.work_frac, 1.0)
    padding = (m * n * k) / (np.ceil(m / tile_m) * tile_m * np.ceil(n / tile_n) * tile_n * np.ceil(k / tile_k) * tile_k)
    best = np.zeros(len(ops))
    for split in SPLITS:
        pieces = np.ceil(num_tiles) * split
        full = pieces / (np.ceil(pieces / chip.tensor.num_units) * chip.tensor.num_units)
        is_allowed = (split == 1) | (k >= 4 * tile_k * split)
        best = np.maximum(best, np.where(is_allowed, full, 0.0))
    efficiency: FloatArray = padding * best
    return efficiency


def _is_stepwise(ops: Ops) -> BoolArray:
    """Rows whose `b` extent is a sequence of steps that wait for each other."""
    return np.asarray((ops.kind == code_of("recurrent_linear")) & (ops.phase != Phase.WEIGHT_GRAD))


def _reread_bytes(ops: Ops, chip: Chip) -> FloatArray:
    """What a recurrence reads again: its weights at every step, unless they stay on the chip."""
    steps, _, n, k, _ = ops.extents.T.astype(np.float64)
    weight_bytes = n * k * DTYPE_BYTES[ops.dtype]
    on_chip_bytes = chip.sram.capacity_bytes + chip.tensor.num_units * chip.core_buffer_bytes
    is_reread = _is_stepwise(ops) & (weight_bytes > on_chip_bytes)
    return np.where(is_reread, (steps - 1) * weight_bytes, 0.0)


def _energy_j(ops: Ops, chip: Chip, flop: FloatArray, hbm_bytes: FloatArray) -> FloatArray:
    """Dynamic energy; a FLOP of a dtype with twice the rate takes half the energy."""
    energy = chip.energy
    is_tensor = ops.unit == Unit.TENSOR
    reference_flop_per_s = chip.tensor.rates[0][1] * chip.calibration.tensor_frac
    scale = np.where(is_tensor, reference_flop_per_s / _tensor_flop_per_s(ops, chip), 1.0)
    per_flop_j = np.where(is_tensor, energy.tensor_j_per_flop * scale, energy.vector_j_per_flop)
    return flop * per_flop_j + hbm_bytes * energy.hbm_j_per_byte
