"""Chips on paper: another chip's memory, network and node around tensor and vector cores of any number and size."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from dovetail.errors import InvalidInput, NotModelled
from dovetail.hardware.chip import STATIONARY, Chip, TensorUnits, Tiling, VectorUnits
from dovetail.hardware.memory import Memory
from dovetail.units import KIBI, Amount

AREA_MODEL = "dovetail"  # that all designs are sized by
LEAST_BUFFER_BYTES = float(KIBI)  # of an array that has one of its own, however small it is (PHAZE)
FLEXIBLE = "flexible"


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """What an accelerator search turns: cores of each kind, and their size."""

    num_tensor: int
    num_rows: int  # of a tensor core's array
    num_cols: int
    num_vector: int
    num_lanes: int  # of a vector core

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 1:
                raise InvalidInput(f"{field.name} must be at least 1; got {getattr(self, field.name)}", field.name)

    def __str__(self) -> str:
        return f"{self.num_tensor} x ({self.num_rows}x{self.num_cols}) + {self.num_vector} x {self.num_lanes}"


def template_tiling(num_rows: int, num_cols: int) -> Tiling:
    """An array that holds weights or inputs, double-buffered, while rows stream past in groups of 8."""
    return Tiling(tiles=((num_rows, num_cols),), stationary=("weight", "input"), num_steps=8)


def template_tensor(
    num_units: int, num_rows: int, num_cols: int, clock_hz: float, dtypes: tuple[str, ...]
) -> TensorUnits:
    """Arrays that do one multiply-accumulate per element and clock, equally fast in each of `dtypes`."""
    peak_flop_per_s = 2 * num_units * num_rows * num_cols * clock_hz
    return TensorUnits(
        num_units=num_units,
        num_rows=num_rows,
        num_cols=num_cols,
        tiling=template_tiling(num_rows, num_cols),
        rates=tuple((dtype, peak_flop_per_s) for dtype in dtypes),
    )


def template_vector(num_units: int, num_lanes: int, clock_hz: float) -> VectorUnits:
    return VectorUnits(num_units=num_units, num_lanes=num_lanes, peak_flop_per_s=2 * num_units * num_lanes * clock_hz)


def template_chip(base: Chip, design: Design) -> Chip:
    """`base` with the cores of `design`: its clock, links, node, shared SRAM, HBM and dataflows as they are.

    What belongs to a core grows with it. A vector core has the base's registers per lane and its vector memory, as fast
    for each lane; an array has accumulators for its columns, and a buffer of its own for its multipliers where the
    base's have one; where the shared SRAM is the cores' own buffers, it is cut into as many as there are vector cores.
    So the base's own cores give the base.
    """
    own, tensor, vector = base.die, base.tensor, base.vector
    num_macs = design.num_rows * design.num_cols
    macs_ratio = design.num_tensor * num_macs / (tensor.num_units * tensor.num_rows * tensor.num_cols)
    lanes_ratio = design.num_vector * design.num_lanes / (vector.num_units * vector.num_lanes)
    return replace(
        base,
        name=f"{base.name}, {design}",
        tensor=replace(
            tensor,
            num_units=design.num_tensor,
            num_rows=design.num_rows,
            num_cols=design.num_cols,
            tiling=replace(tensor.tiling, tiles=((design.num_rows, design.num_cols),), is_array=True),
            rates=tuple((dtype, rate * macs_ratio) for dtype, rate in tensor.rates),
            buffer_bytes=tensor.buffer_bytes * (design.num_cols / tensor.num_cols),
        ),
        vector=VectorUnits(
            num_units=design.num_vector,
            num_lanes=design.num_lanes,
            peak_flop_per_s=vector.peak_flop_per_s * lanes_ratio,
        ),
        core_buffer_bytes=_core_buffer_bytes(base, design),
        vector_memory=_vector_memory(base, design.num_vector / vector.num_units, lanes_ratio),
        die=replace(
            own,
            register_bytes=own.register_bytes * (design.num_lanes / vector.num_lanes),
            num_schedulers=int(num_schedulers(base, design.num_tensor, design.num_vector)),
        ),
    )


def num_schedulers(base: Chip, num_tensor: Amount, num_vector: Amount) -> Amount:
    """Sequencers of a vector core: the base's, and as many more as it has more tensor cores to drive."""
    more = np.maximum(1.0, num_tensor / num_vector / (base.tensor.num_units / base.vector.num_units))
    return np.ceil(base.die.num_schedulers * more)


def register_bytes_per_lane(base: Chip) -> float:
    return base.die.register_bytes / base.vector.num_lanes


def has_own_buffers(base: Chip) -> bool:
    """Whether each tensor core has a buffer of its own, as PHAZE's have."""
    return base.die.buffered_units == "tensor"


def has_local_sram(base: Chip) -> bool:
    """Whether the shared SRAM is the vector cores' own buffers, so that only HBM's traffic crosses the die."""
    return base.die.buffered_units == "none"


def own_buffer_bytes(base: Chip, num_macs: Amount) -> Amount:
    """Of an array with a buffer of its own: as many bytes for each multiplier as the base's, and no fewer than some."""
    own = base.core_buffer_bytes
    per_array = base.tensor.num_rows * base.tensor.num_cols
    return np.maximum(min(LEAST_BUFFER_BYTES, own), own * (num_macs / per_array))


def _core_buffer_bytes(base: Chip, design: Design) -> float:
    if has_own_buffers(base):
        return float(own_buffer_bytes(base, design.num_rows * design.num_cols))
    if has_local_sram(base) and design.num_vector != base.vector.num_units:
        return base.sram.capacity_bytes / design.num_vector
    return base.core_buffer_bytes


def _vector_memory(base: Chip, cores_ratio: float, lanes_ratio: float) -> Memory | None:
    memory = base.vector_memory
    if memory is None:
        return None
    return Memory(
        capacity_bytes=memory.capacity_bytes * cores_ratio,
        bandwidth_bytes_per_s=memory.bandwidth_bytes_per_s * lanes_ratio,
    )


def design_of(chip: Chip) -> Design:
    """The cores that `chip` has."""
    return Design(
        num_tensor=chip.tensor.num_units,
        num_rows=chip.tensor.num_rows,
        num_cols=chip.tensor.num_cols,
        num_vector=chip.vector.num_units,
        num_lanes=chip.vector.num_lanes,
    )


def dataflow_code(stationary: tuple[str, ...]) -> int:
    """What an array can hold still as one number: a bit for each of `STATIONARY`."""
    return sum(1 << STATIONARY.index(held) for held in set(stationary))


def dataflow_of(code: float) -> tuple[str, ...]:
    """The operands of a `dataflow_code`."""
    return tuple(held for place, held in enumerate(STATIONARY) if int(code) >> place & 1)


def dataflow_word(code: float) -> str:
    """As people write it: weight, output, input, two of them with a plus, or flexible for all three."""
    held = dataflow_of(code)
    return FLEXIBLE if len(held) == len(STATIONARY) else "+".join(sorted(held, reverse=True))


def dataflow_codes() -> dict[str, int]:
    """Every dataflow that an array may have, by its word."""
    return {dataflow_word(code): code for code in range(1, 1 << len(STATIONARY))}


def check_array(base: Chip, noun: str) -> None:
    """Raises where nothing can be built on `base`: its units are no systolic arrays, or its area is not modelled."""
    if not base.tensor.tiling.is_array:
        message = f"{noun} are built on chips with systolic arrays, and {' '.join(base.name.split())} has none"
        raise InvalidInput(f"{message}; take a TPU, a template such as tpuv4-like, or a file with one as its base")
    if base.die.area_model != AREA_MODEL:
        message = f"designs are sized by the area model {AREA_MODEL}, and {base.name} by {base.die.area_model}"
        raise NotModelled(f"{message}; set area_model: {AREA_MODEL} for its die, or leave it out", "area_model")
