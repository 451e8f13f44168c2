"""Compute beside communication on one chip: how much each slows the other.

A collective driven by the cores is a kernel whose blocks stay on their units until it ends. Kernels of products and of
fused attention fill a unit's registers, so they lose the units held; products also run as clusters of units that must
lie in one group, so that scattered held units break more clusters than they take. Vector kernels find room beside a
held block and lose no more than its threads; norms do not, where the held block has no shared memory, for a unit cannot
change how it divides its SRAM while a block is on it. HBM goes to whoever has more loads in flight.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from dovetail.columns import is_among
from dovetail.cost.chosen import chosen_waves, num_clusters
from dovetail.cost.columns import ChipColumns, chip_columns, varied
from dovetail.cost.costs import cost_table
from dovetail.cost.op_cost import OpCosts, Setting
from dovetail.cost.own_costs import is_costed_apart
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
LOSS_BLOCK_FRAC = 0.5  # of a unit's threads in a block of a loss kernel, which fits whole or not at all: 1024 of 2048
# Bytes in flight of a unit's compute over those of a collective's block: a copy, a sum, SiLU and a skinny product
# beside 96 blocks on an H200 keep what gives 1.0 to 1.3.
IN_FLIGHT_RATIO = 1.1

_LOOKUPS = tuple(code_of(name) for name in ("embedding", "embedding_bag"))
_NORMS = tuple(code_of(name) for name in ("layernorm", "rmsnorm"))
_LOSSES = (code_of("cross_entropy"),)
_CHOSEN = tuple(code_of(name) for name in ("linear", "matmul", "expert_linear", "convolution"))


@dataclass(frozen=True, slots=True, kw_only=True)
class OccupiedResources:
    """What communication takes of a chip while it runs: units, bytes through the shared SRAM, bytes of HBM.

    A copy engine, an engine of its own or a switch holds no units.
    """

    num_units: int = 0
    sram_bytes_per_s: float = 0.0
    hbm_bytes_per_s: float = 0.0
    threads_frac: float = BLOCK_THREADS_FRAC  # of a held unit's threads, which vector kernels then lack
    has_shared_memory: bool = False  # whether held blocks have a part of a unit's SRAM as shared memory

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
    overlappable_s: FloatArray
    comm_slowdown: FloatArray

    @property
    def compute_slowdown(self) -> FloatArray:
        return np.divide(self.overlappable_s, self.alone_s, out=np.ones_like(self.alone_s), where=self.alone_s > 0)


def block_bytes_per_s(num_blocks: int) -> float:
    """Bytes a second that `num_blocks` blocks of a core-driven collective move alone, reads and writes together."""
    wanted = num_blocks * BLOCK_BYTES_PER_S
    return wanted / (1 + wanted / SHARED_BYTES_PER_S)


def beside(
    ops: Ops, chip: Chip, held: OccupiedResources, setting: Setting = Setting.STREAM, queue_s: float = 0.0
) -> Beside:
    """Each row of `ops` beside communication that holds `held` all the while, and what that costs communication.

    `queue_s` is the host's pace where the rows are queued one by one: none passes sooner, alone or beside.
    """
    _check(ops, chip, held)
    whole = chip_columns((chip,))
    alone = cost_table(ops, whole, setting)
    full = float(whole.hbm_bytes_per_s[0] * whole.calibration["hbm_frac"][0])
    hbm_left, comm_stretch = _shared(alone, full, held, _units_left(ops, chip, held))
    overlappable_s = np.empty(len(ops))
    unit, is_product = UNIT[ops.kind], is_among(ops.kind, _CHOSEN)
    for mask, time_s in (
        (is_product, _product_s),
        ((unit == Unit.TENSOR) & ~is_product, _tensor_s),
        (unit == Unit.VECTOR, _vector_s),
        ((unit != Unit.TENSOR) & (unit != Unit.VECTOR), _alone_s),
    ):
        if bool(mask.any()):
            overlappable_s[mask] = time_s(ops.where(mask), chip, held, setting)
    by_hbm_s = _launch_s(alone, chip) + alone.hbm_bytes[:, 0] / hbm_left
    alone_s = np.maximum(alone.compute_s[:, 0], queue_s)
    slowed_s = np.maximum(overlappable_s, np.where(hbm_left < full, by_hbm_s, 0.0))
    return Beside(alone_s=alone_s, overlappable_s=np.maximum(slowed_s, alone_s), comm_slowdown=comm_stretch)


def beside_blocks(ops: Ops, chip: Chip, num_blocks: int) -> Beside:
    """Each row beside so many blocks of a core-driven collective; HBM is whole, for others to share out."""
    return beside(ops, chip, OccupiedResources(num_units=num_blocks, sram_bytes_per_s=block_bytes_per_s(num_blocks)))


def _check(ops: Ops, chip: Chip, held: OccupiedResources) -> None:
    """Kernels that need units of their own would wait for the collective's end where none are left."""
    is_tensor = bool((UNIT[ops.kind] == Unit.TENSOR).any())
    num_units = chip.tensor.num_units
    if held.num_units > num_units or (is_tensor and num_clusters(num_units, held.num_units, chip.tensor.tiling) < 1):
        raise InvalidInput(
            f"communication holds {held.num_units} of {num_units} units and leaves no cluster for products; hold fewer",
            "num_units",
        )
    if held.num_units and bool((_units_left(ops, chip, held) <= 0).any()):
        raise InvalidInput(
            f"communication holds all {num_units} units and leaves none for norms; hold fewer", "num_units"
        )


def _lost_frac(ops: Ops, held: OccupiedResources) -> FloatArray:
    """Of a held unit, what each vector kernel loses."""
    threads = held.threads_frac
    num_blocks = np.floor((1 - threads) / LOSS_BLOCK_FRAC)
    lost = np.full(len(ops), threads)
    lost[is_among(ops.kind, _LOOKUPS)] = min(LOOKUP_FRAC * threads / BLOCK_THREADS_FRAC, 1 - SPARE_FRAC)
    lost[is_among(ops.kind, _LOSSES)] = min(1 - num_blocks * LOSS_BLOCK_FRAC, 1 - SPARE_FRAC)
    if not held.has_shared_memory:
        lost[is_among(ops.kind, _NORMS)] = 1.0
    return lost


def _units_left(ops: Ops, chip: Chip, held: OccupiedResources) -> FloatArray:
    """Units that each row still has, parts of units among them."""
    num_units, tiling = chip.tensor.num_units, chip.tensor.tiling
    left = num_units - held.num_units * _lost_frac(ops, held)
    left[UNIT[ops.kind] == Unit.TENSOR] = num_units - held.num_units
    left[is_among(ops.kind, _CHOSEN)] = tiling.num_cluster_units * num_clusters(num_units, held.num_units, tiling)
    return left


def _shared(
    alone: OpCosts, full: float, held: OccupiedResources, units_left: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """HBM bytes a second, of `full`, left to each row, and how much longer communication takes beside it.

    Where both want more than there is, an engine that streams and compute each get their share of what both want;
    beside a collective on the cores it is their share of the bytes in flight. Below that, such a collective still waits
    longer for each of its round trips.
    """
    time_s = np.maximum(alone.compute_s[:, 0], np.finfo(np.float64).tiny)
    wanted = np.minimum(alone.hbm_bytes[:, 0] / time_s, full)
    over = np.maximum((wanted + held.hbm_bytes_per_s) / full, 1.0)
    share = wanted / over
    waits = np.zeros_like(wanted)
    if held.num_units:
        ours, theirs = IN_FLIGHT_RATIO * units_left, held.hbm_bytes_per_s / BLOCK_BYTES_PER_S
        share = np.minimum(wanted, full * ours / (ours + theirs))
        waits = LATENCY_OF_LOAD * wanted / full
    left = np.maximum(full - held.hbm_bytes_per_s, share)
    stretch = np.maximum(held.hbm_bytes_per_s / np.maximum(full - np.minimum(wanted, left), 1.0), 1.0)
    return left, stretch * (1 + waits)


def _columns(chip: Chip, num_units: float, held: OccupiedResources) -> ChipColumns:
    """The chip as kernels find it: fewer units and their rates, less of the SRAM."""
    frac, whole = num_units / chip.tensor.num_units, chip_columns((chip,))
    return varied(
        chip,
        1,
        num_units=np.array([num_units]),
        dtype_flop_per_s=whole.dtype_flop_per_s * frac,
        num_lanes=whole.num_lanes * frac,
        vector_flop_per_s=whole.vector_flop_per_s * frac,
        sram_bytes_per_s=np.array([_sram_left_bytes_per_s(chip, held)]),
        vector_memory_bytes_per_s=np.where(
            whole.has_vmem, whole.vector_memory_bytes_per_s, _sram_left_bytes_per_s(chip, held)
        ),
    )


def _sram_left_bytes_per_s(chip: Chip, held: OccupiedResources) -> float:
    sram = chip.sram.bandwidth_bytes_per_s
    return max(sram - held.sram_bytes_per_s, sram * sram / (sram + held.sram_bytes_per_s))


def _alone_s(ops: Ops, chip: Chip, held: OccupiedResources, setting: Setting) -> FloatArray:  # noqa: ARG001
    """Names and exchanges: not this chip's cores' affair."""
    return np.asarray(cost_table(ops, chip_columns((chip,)), setting).compute_s[:, 0])


def _tensor_s(ops: Ops, chip: Chip, held: OccupiedResources, setting: Setting) -> FloatArray:
    """Attention (its blocks need no cluster) and the rarer products, on the units left, tiled again."""
    num_units = chip.tensor.num_units
    columns = _columns(chip, num_units - held.num_units, held)
    tiled_s = cost_table(ops, columns, setting).compute_s[:, 0]
    is_own = is_costed_apart(ops.kind)
    if not bool(is_own.any()):
        return np.asarray(tiled_s)
    # a plugin's cost need not know that units are held: it takes no less than its share of those left
    alone = cost_table(ops, chip_columns((chip,)), setting)
    launch_s = _launch_s(alone, chip)
    shared_s = launch_s + (alone.compute_s[:, 0] - launch_s) * num_units / (num_units - held.num_units)
    return np.where(is_own, np.maximum(tiled_s, shared_s), tiled_s)


def _product_s(ops: Ops, chip: Chip, held: OccupiedResources, setting: Setting) -> FloatArray:
    """Products: tile and split as the library picks them for the whole chip, run on the clusters left.

    A compiler maps them again onto the arrays left.
    """
    whole = chip_columns((chip,))
    if whole.are_arrays:
        return _tensor_s(ops, chip, held, setting)
    alone = cost_table(ops, whole, setting)
    num_units, tiling = chip.tensor.num_units, chip.tensor.tiling
    num_left = tiling.num_cluster_units * num_clusters(num_units, held.num_units, tiling)
    bytes_s = alone.hbm_bytes[:, 0] / (whole.hbm_bytes_per_s[0] * whole.calibration["hbm_frac"][0])
    first, then = chosen_waves(ops, whole, _sram_left_bytes_per_s(chip, held), tiling.num_cluster_units > 1)
    alone_s = first.time_s(num_units, num_units, bytes_s)
    slower = then.time_s(num_units, num_left, bytes_s) / alone_s
    launch_s = _launch_s(alone, chip)
    return np.asarray(launch_s + (alone.compute_s[:, 0] - launch_s) * slower)


def _vector_s(ops: Ops, chip: Chip, held: OccupiedResources, setting: Setting) -> FloatArray:
    """Vector kernels beside held blocks: fewer of their threads at once, by the threads those hold."""
    alone = cost_table(ops, chip_columns((chip,)), setting)
    shared = cost_table(ops, _columns(chip, chip.tensor.num_units, held), setting).compute_s[:, 0]
    launch_s = _launch_s(alone, chip)
    slower = chip.tensor.num_units / _units_left(ops, chip, held)
    return np.asarray(np.maximum(shared, launch_s + (alone.compute_s[:, 0] - launch_s) * slower))


def _launch_s(alone: OpCosts, chip: Chip) -> FloatArray:
    return np.minimum(alone.compute_s[:, 0], chip.calibration.launch_s)
