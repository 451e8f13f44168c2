"""Chips on paper: another chip's memory, network and node around tensor and vector cores of any number and size."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from dovetail.errors import InvalidInput
from dovetail.hardware.chip import Chip, VectorUnits
from dovetail.hardware.memory import Memory
from dovetail.units import Amount


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


def template_chip(base: Chip, design: Design) -> Chip:
    """`base` with the cores of `design`: its clock, links, node, shared SRAM, HBM and dataflows as they are.

    What belongs to a core grows with it. A vector core has the base's registers per lane and its share of vector
    memory; an array has accumulators for its columns, and a buffer of its own for its multipliers where the base's have
    one; where the shared SRAM is the cores' own buffers, it is cut into as many as there are vector cores. So the
    base's own cores give the base.
    """
    own, tensor, vector = base.die, base.tensor, base.vector
    num_macs = design.num_rows * design.num_cols
    macs_ratio = design.num_tensor * num_macs / (tensor.num_units * tensor.num_rows * tensor.num_cols)
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
            buffer_bytes=tensor.buffer_bytes * design.num_cols / tensor.num_cols,
        ),
        vector=VectorUnits(
            num_units=design.num_vector,
            num_lanes=design.num_lanes,
            peak_flop_per_s=vector.peak_flop_per_s
            * (design.num_vector * design.num_lanes / (vector.num_units * vector.num_lanes)),
        ),
        core_buffer_bytes=_core_buffer_bytes(base, design),
        vector_memory=_vector_memory(base, design),
        die=replace(
            own,
            register_bytes=register_bytes_per_lane(base) * design.num_lanes,
            num_schedulers=int(num_schedulers(base, design.num_tensor, design.num_vector)),
        ),
    )


def num_schedulers(base: Chip, num_tensor: Amount, num_vector: Amount) -> Amount:
    """Sequencers of a vector core: the base's, and as many more as it has more tensor cores to drive."""
    more = np.maximum(1.0, num_tensor / num_vector / (base.tensor.num_units / base.vector.num_units))
    return np.ceil(base.die.num_schedulers * more)


def register_bytes_per_lane(base: Chip) -> float:
    return base.die.register_bytes / base.vector.num_lanes


def _core_buffer_bytes(base: Chip, design: Design) -> float:
    if base.die.buffered_units == "tensor":
        return base.core_buffer_bytes * own_buffer_ratio(base, design)
    if base.die.buffered_units == "vector":
        return base.core_buffer_bytes
    return base.sram.capacity_bytes / design.num_vector


def own_buffer_ratio(base: Chip, design: Design) -> float:
    """Buffer of an array over the base's: as many bytes for each multiplier."""
    return design.num_rows * design.num_cols / (base.tensor.num_rows * base.tensor.num_cols)


def _vector_memory(base: Chip, design: Design) -> Memory | None:
    """As much of it, and as fast, for each vector core as the base's have."""
    memory, ratio = base.vector_memory, design.num_vector / base.vector.num_units
    if memory is None:
        return None
    return Memory(
        capacity_bytes=memory.capacity_bytes * ratio, bandwidth_bytes_per_s=memory.bandwidth_bytes_per_s * ratio
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
