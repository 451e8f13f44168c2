"""Chips on paper: another chip's memory, network and node around tensor and vector cores of any number and size."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from dovetail.errors import InvalidInput
from dovetail.hardware.catalog._templates import template_tensor, template_vector
from dovetail.hardware.chip import Chip

REGISTER_BYTES_PER_LANE = 12  # PHAZE's vector core: three operands of 4 bytes a lane


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
    """`base` with the cores of `design`, its memories, clock, links and node as they are.

    The shared SRAM is the cores' own buffers, so it is cut into as many as there are vector cores. A sequencer drives
    a tensor core together with a vector core; where there are more tensor cores, each of those has its own.
    """
    dtypes = tuple(dtype for dtype, _ in base.tensor.rates)
    tensor = template_tensor(design.num_tensor, design.num_rows, design.num_cols, base.clock_hz, dtypes)
    return replace(
        base,
        name=f"{base.name}, {design}",
        tensor=tensor,
        vector=template_vector(design.num_vector, design.num_lanes, base.clock_hz),
        core_buffer_bytes=base.sram.capacity_bytes / design.num_vector,
        die=replace(
            base.die,
            register_bytes=REGISTER_BYTES_PER_LANE * design.num_lanes,
            num_schedulers=-(-max(design.num_tensor, design.num_vector) // design.num_vector),
            buffered_units="none",
        ),
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
