"""Designs of a template chip as a space, and what silicon and power each of many takes, in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain

import numpy as np

from dovetail.errors import InvalidInput
from dovetail.hardware.chip import Chip
from dovetail.hardware.part_energy import HBM_J_PER_BYTE
from dovetail.hardware.template import Design, design_of, template_chip
from dovetail.search.codesign.systems import built_systems, system_of
from dovetail.search.space import Knob, Point, Space
from dovetail.workload.graph import FloatArray, IntArray

KNOBS = tuple(field.name for field in fields(Design))
SIDES = (4, 8, 16, 32, 64, 128, 256)  # of arrays, and lanes (WHAM)
CLOSE_FRAC = 1e-9  # style: a tolerance, of what the base takes; sums in another order differ by less
COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def design_space(
    sides: tuple[int, ...] = SIDES, lanes: tuple[int, ...] = SIDES, counts: tuple[int, ...] = COUNTS
) -> Space:
    """All designs of arrays with these sides, so many lanes, and so many of both."""
    choices = dict.fromkeys(KNOBS, sides) | {"num_tensor": counts, "num_vector": counts, "num_lanes": lanes}
    return Space(knobs=tuple(Knob(name=name, values=choices[name]) for name in KNOBS))


def design_at(space: Space, point: Point) -> Design:
    values = zip((knob.name for knob in space.knobs), space.values(point), strict=True)
    return Design(**{name: int(value) for name, value in values})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a chip may take at most."""

    area_mm2: float
    power_w: float

    def __post_init__(self) -> None:
        for label in ("area_mm2", "power_w"):
            if not getattr(self, label) > 0:
                raise InvalidInput(f"the limit {label} must be positive; got {getattr(self, label):g}", label)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Silicon:
    """Of each of many designs: its area, what it draws with everything busy, and what it costs to make."""

    area_mm2: FloatArray
    power_w: FloatArray
    static_w: FloatArray
    tensor_j_per_flop: FloatArray  # small arrays fetch more operands for each product
    vector_j_per_flop: FloatArray
    vector_memory_j_per_byte: FloatArray
    sram_j_per_byte: FloatArray
    price_usd: FloatArray

    def at(self, rows: IntArray) -> Silicon:
        """Of some of the designs."""
        return Silicon(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    def excess_frac(self, limits: Limits) -> FloatArray:
        """How far each is beyond the limit it breaks most; 0 where it keeps both."""
        over = np.maximum(self.area_mm2 / limits.area_mm2, self.power_w / limits.power_w)
        return np.maximum(over - 1.0, 0.0)


def base_limits(base: Chip) -> Limits:
    """What the base chip itself takes."""
    own = silicon_of(base, (design_of(base),))
    return Limits(area_mm2=float(own.area_mm2[0]) * (1 + CLOSE_FRAC), power_w=float(own.power_w[0]) * (1 + CLOSE_FRAC))


def silicon_of(base: Chip, designs: Sequence[Design]) -> Silicon:
    """As the models of area, power and price have it for each `template_chip(base, design)`."""
    return silicon_at(base, {name: np.array([getattr(design, name) for design in designs]) for name in KNOBS})


def design_columns(space: Space, points: Sequence[Point]) -> dict[str, IntArray]:
    """`design_at` of each of `points`, knob by knob: a design as an object costs as much as all of its bounds."""
    places = np.fromiter(chain.from_iterable(points), dtype=np.int64).reshape(-1, len(space.knobs))
    return {knob.name: np.array(knob.values)[places[:, index]] for index, knob in enumerate(space.knobs)}


def silicon_at(base: Chip, designs: Mapping[str, IntArray]) -> Silicon:
    """`silicon_of` designs given as columns: systems that differ from the base in their cores alone."""
    built = built_systems(base, systems_of_cores(base, designs))
    return Silicon(
        area_mm2=built.area_mm2,
        power_w=built.power_w,
        static_w=built.chips.idle_w,
        tensor_j_per_flop=built.chips.tensor_j_per_flop,
        vector_j_per_flop=built.chips.vector_j_per_flop,
        vector_memory_j_per_byte=built.chips.vector_memory_j_per_byte,
        sram_j_per_byte=built.chips.sram_j_per_byte,
        price_usd=built.price_usd,
    )


def systems_of_cores(base: Chip, designs: Mapping[str, IntArray]) -> dict[str, FloatArray]:
    """Designs as systems of one device: all but their cores as the base has it."""
    num = len(designs["num_tensor"])
    rest = {name: np.full(num, value) for name, value in system_of(base, 1).items()}
    return rest | {name: designs[name].astype(np.float64) for name in KNOBS}


def mined_chips(base: Chip, designs: Sequence[Design], silicon: Silicon) -> list[Chip]:
    """`template_chip` of each, with the energy and power that the power model gives its cores."""
    found = []
    for row, design in enumerate(designs):
        chip = template_chip(base, design)
        energy = replace(
            chip.energy,
            tensor_j_per_flop=float(silicon.tensor_j_per_flop[row]),
            vector_j_per_flop=float(silicon.vector_j_per_flop[row]),
            vector_memory_j_per_byte=float(silicon.vector_memory_j_per_byte[row]),
            sram_j_per_byte=float(silicon.sram_j_per_byte[row]),
            hbm_j_per_byte=HBM_J_PER_BYTE,
            idle_w=float(silicon.static_w[row]),
        )
        found.append(replace(chip, energy=energy, tdp_w=float(silicon.power_w[row])))
    return found
