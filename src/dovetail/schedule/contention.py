"""Compute beside communication on one chip: how much each slows the other.

A collective driven by the cores is a kernel whose blocks stay on their units until it ends. Kernels of products and of
fused attention fill a unit's registers, so they lose the units held; products also run as clusters of units that must
lie in one group, so that scattered held units break more clusters than they take. Vector kernels find room beside a
held block and lose no more than its threads. What is left of HBM and of the shared SRAM is shared in proportion.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from dovetail.cost.chosen import chosen_unit_s, num_clusters
from dovetail.cost.columns import ChipColumns, chip_columns, varied
from dovetail.cost.costs import OpCosts, Setting, cost_table
from dovetail.errors import InvalidInput
from dovetail.hardware.chip import Chip
from dovetail.units import GIGA, TERA
from dovetail.workload.graph import FloatArray, Ops
from dovetail.workload.operators import UNIT, Unit, code_of

# The kernel of the contention measurements (one H200): reads two streams, writes one.
BLOCK_BYTES_PER_S = 52.9 * GIGA  # of one block by itself: what its loads in flight bring in a round trip
SHARED_BYTES_PER_S = 6.8 * TERA  # where the blocks together would saturate (ten counts of blocks, five times each)
BLOCK_THREADS_FRAC = 0.25  # of a unit's threads that a block holds: GELU beside 1 to 96 blocks gives 0.23 to 0.25
# Longer round trips of the collective, at a full HBM's load by compute (GELU 8 %, attention 2 %).
LATENCY_OF_LOAD = 0.11
# Lookups need more registers a thread, so fewer of their blocks fit beside a held one: embedding bags beside 1 to 96
# blocks on an H200 lose 0.48 of a held unit at 96 of them, 0.53 at 64 and 0.65 at 32.
LOOKUP_FRAC = 0.48
SPARE_FRAC = 0.01  # style: a bound; of a unit, left to lookups whatever is held

_LOOKUPS = tuple(code_of(name) for name in ("embedding", "embedding_bag"))
_CHOSEN = tuple(code_of(name) for name in ("linear", "matmul", "expert_linear"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What communication takes of a chip while it runs: units, bytes through the shared SRAM, bytes of HBM.

    A copy engine, an engine of its own or a switch holds no units.
    """

    num_units: int = 0
    sram_bytes_per_s: float = 0.0
    hbm_bytes_per_s: float = 0.0
    threads_frac: float = BLOCK_THREADS_FRAC  # of a held unit's threads, which vector kernels then lack

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) >= 0:
                raise InvalidInput(f"{field.name} must not be negative; got {getattr(self, field.name)}", field.name)
        if self.threads_frac >= 1:
            raise InvalidInput(f"threads_frac must be below 1; got {self.threads_frac:g}", "threads_frac")


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """Operators beside communication, one entry a row of the graph; slowdowns are times over those alone."""

    alone_s: FloatArray
    beside_s: FloatArray
    comm_slowdown: FloatArray

    @property
    def compute_slowdown(self) -> FloatArray:
        return np.divide(self.beside_s, self.alone_s, out=np.ones_like(self.alone_s), where=self.alone_s > 0)


def block_bytes_per_s(num_blocks: int) -> float:
    """Bytes a second that `num_blocks` blocks of a core-driven collective move alone, reads and writes together."""
    wanted = num_blocks * BLOCK_BYTES_PER_S
    return wanted / (1 + wanted / SHARED_BYTES_PER_S)


def beside(ops: Ops, chip: Chip, held: Held, setting: Setting = Setting.STREAM, queue_s: float = 0.0) -> Beside:
    """Each row of `ops` beside communication that holds `held` all the while, and what that costs communication.

    `queue_s` is the host's pace where the rows are queued one by one: none passes sooner, alone or beside.
    """
    _check(ops, chip, held)
    whole = chip_columns((chip,))
    alone = cost_table(ops, whole, setting)
    hbm_left, comm_stretch = _shared(alone, whole, held)
    beside_s = np.empty(len(ops))
    unit = UNIT[ops.kind]
    for mask, time_s in (
        (np.isin(ops.kind, _CHOSEN), _product_s),
        ((unit == Unit.TENSOR) & ~np.isin(ops.kind, _CHOSEN), _tensor_s),
        (unit == Unit.VECTOR, _vector_s),
        ((unit != Unit.TENSOR) & (unit != Unit.VECTOR), _alone_s),
    ):
        if bool(mask.any()):
            beside_s[mask] = time_s(ops.where(mask), chip, held, hbm_left[mask], setting)
    alone_s = np.maximum(alone.compute_s[:, 0], queue_s)
    return Beside(alone_s=alone_s, beside_s=np.maximum(beside_s, alone_s), comm_slowdown=comm_stretch)


def _check(ops: Ops, chip: Chip, held: Held) -> None:
    """Tensor kernels need units of their own: with none left they would wait for the collective's end."""
    is_tensor = bool((UNIT[ops.kind] == Unit.TENSOR).any())
    num_units = chip.tensor.num_units
    if held.num_units > num_units or (is_tensor and num_clusters(num_units, held.num_units, chip.tensor.tiling) < 1):
        raise InvalidInput(
            f"communication holds {held.num_units} of {num_units} units and leaves no cluster for products; hold fewer",
            "num_units",
        )


def _shared(alone: OpCosts, whole: ChipColumns, held: Held) -> tuple[FloatArray, FloatArray]:
    """HBM bytes a second left to each row, and how much longer communication takes beside it.

    Where both want more than there is, each gets its share of what both want; below that, a collective on the
    cores still waits longer for each of its round trips; engines that stream do not.
    """
    full = float(whole.hbm_bytes_per_s[0] * whole.calibration["hbm_frac"][0])
    time_s = np.maximum(alone.compute_s[:, 0], np.finfo(np.float64).tiny)
    wanted = np.minimum(alone.hbm_bytes[:, 0] / time_s, full)
    over = np.maximum((wanted + held.hbm_bytes_per_s) / full, 1.0)
    left = np.maximum(full - held.hbm_bytes_per_s, wanted / over)
    waits = LATENCY_OF_LOAD * wanted / float(whole.hbm_bytes_per_s[0]) if held.num_units else np.zeros_like(wanted)
    return left / full * whole.hbm_bytes_per_s[0], over * (1 + waits)


def _columns(chip: Chip, num_units: float, hbm: FloatArray, held: Held) -> ChipColumns:
    """The chip as each row finds it, a column a row: fewer units and their rates, less of HBM and SRAM."""
    n, frac, whole = len(hbm), num_units / chip.tensor.num_units, chip_columns((chip,))
    sram = chip.sram.bandwidth_bytes_per_s
    left = max(sram - held.sram_bytes_per_s, sram * sram / (sram + held.sram_bytes_per_s))
    return varied(
        chip,
        n,
        num_units=np.full(n, num_units),
        dtype_flop_per_s=np.repeat(whole.dtype_flop_per_s * frac, n, axis=1),
        num_lanes=np.repeat(whole.num_lanes * frac, n),
        vector_flop_per_s=np.repeat(whole.vector_flop_per_s * frac, n),
        sram_bytes_per_s=np.full(n, left),
        hbm_bytes_per_s=hbm,
    )


def _alone_s(ops: Ops, chip: Chip, held: Held, hbm: FloatArray, setting: Setting) -> FloatArray:  # noqa: ARG001
    """Names and exchanges: not this chip's cores' affair."""
    return np.asarray(cost_table(ops, chip_columns((chip,)), setting).compute_s[:, 0])


def _tensor_s(ops: Ops, chip: Chip, held: Held, hbm: FloatArray, setting: Setting) -> FloatArray:
    """Attention (its blocks need no cluster) and the rarer products, on the units left, tiled anew."""
    columns = _columns(chip, chip.tensor.num_units - held.num_units, hbm, held)
    return np.diagonal(cost_table(ops, columns, setting).compute_s).copy()


def _product_s(ops: Ops, chip: Chip, held: Held, hbm: FloatArray, setting: Setting) -> FloatArray:
    """Products: tile and split as the library picks them for the whole chip, run on the clusters left."""
    whole = chip_columns((chip,))
    alone = cost_table(ops, whole, setting)
    columns = _columns(chip, chip.tensor.num_units, hbm, held)
    num_units, tiling = chip.tensor.num_units, chip.tensor.tiling
    num_left = tiling.num_cluster_units * num_clusters(num_units, held.num_units, tiling)
    tensor_s, held_s = chosen_unit_s(ops, whole, columns, num_units, num_left)
    bytes_s = alone.hbm_bytes[:, 0] / (hbm * whole.calibration["hbm_frac"][0])
    whole_bytes_s = bytes_s * hbm / whole.hbm_bytes_per_s[0]
    rest_s = alone.compute_s[:, 0] - np.hypot(tensor_s, whole_bytes_s)
    return np.asarray(np.hypot(held_s, bytes_s) + rest_s)


def _vector_s(ops: Ops, chip: Chip, held: Held, hbm: FloatArray, setting: Setting) -> FloatArray:
    """Vector kernels beside held blocks: fewer of their threads at once, by the threads those hold."""
    alone = cost_table(ops, chip_columns((chip,)), setting)
    shared = np.diagonal(cost_table(ops, _columns(chip, chip.tensor.num_units, hbm, held), setting).compute_s)
    lookup_frac = min(LOOKUP_FRAC * held.threads_frac / BLOCK_THREADS_FRAC, 1 - SPARE_FRAC)
    lost_frac = np.where(np.isin(ops.kind, _LOOKUPS), lookup_frac, held.threads_frac)
    launch_s = _launch_s(alone, chip)
    slower = 1 / (1 - lost_frac * held.num_units / chip.tensor.num_units)
    return np.asarray(np.maximum(shared, launch_s + (alone.compute_s[:, 0] - launch_s) * slower))


def _launch_s(alone: OpCosts, chip: Chip) -> FloatArray:
    return np.minimum(alone.compute_s[:, 0], chip.calibration.launch_s)
