"""Designs of a template chip as a space, and what silicon and power each of many takes, in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain

import numpy as np

from dovetail.cost.area import Area, silicon
from dovetail.cost.inventory import ACCUMULATOR_BYTES, Inventory, inventory
from dovetail.cost.price import HBM_USD_PER_BYTE, packaged_usd
from dovetail.cost.tdp import busy_power, part_energies
from dovetail.errors import InvalidInput, NotModelled
from dovetail.hardware.chip import Chip
from dovetail.hardware.part_energy import HBM_J_PER_BYTE, slice_bytes
from dovetail.hardware.template import Design, num_schedulers, register_bytes_per_lane, template_chip
from dovetail.search.space import Knob, Point, Space
from dovetail.workload.graph import FloatArray, IntArray

KNOBS = tuple(field.name for field in fields(Design))
SIDES = (4, 8, 16, 32, 64, 128, 256)  # of arrays, and lanes (WHAM)
COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
AREA_MODEL = "dovetail"  # that all designs are sized by


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


def check_area_model(base: Chip) -> None:
    """Raises where `base` is sized by a model that designs are not."""
    if base.die.area_model != AREA_MODEL:
        message = f"designs are sized by the area model {AREA_MODEL}, and {base.name} by {base.die.area_model}"
        raise NotModelled(f"{message}; say area_model: {AREA_MODEL} for its die, or leave it out", "area_model")


def silicon_of(base: Chip, designs: Sequence[Design]) -> Silicon:
    """As the models of area, power and price have it for each `template_chip(base, design)`."""
    return silicon_at(base, {name: np.array([getattr(design, name) for design in designs]) for name in KNOBS})


def design_columns(space: Space, points: Sequence[Point]) -> dict[str, IntArray]:
    """`design_at` of each of `points`, knob by knob: a design as an object costs as much as all of its bounds."""
    places = np.fromiter(chain.from_iterable(points), dtype=np.int64).reshape(-1, len(space.knobs))
    return {knob.name: np.array(knob.values)[places[:, index]] for index, knob in enumerate(space.knobs)}


def silicon_at(base: Chip, designs: Mapping[str, IntArray]) -> Silicon:
    """`silicon_of` designs given as columns."""
    check_area_model(base)
    column = {name: designs[name].astype(np.float64) for name in KNOBS}
    num_macs = column["num_rows"] * column["num_cols"]
    macs_per_s = column["num_tensor"] * num_macs * base.clock_hz
    parts = _inventories(base, column)
    area = silicon(parts)
    power = busy_power(
        parts,
        area.total_mm2,
        macs_per_s=macs_per_s,
        lane_macs_per_s=column["num_vector"] * column["num_lanes"] * base.clock_hz,
        num_macs_per_unit=num_macs,
        sram_bytes_per_s=base.sram.bandwidth_bytes_per_s,
        hbm_bytes_per_s=base.hbm.bandwidth_bytes_per_s,
        link_bytes_per_s=base.interconnect_bytes_per_s,
        vector_memory_bytes_per_s=parts.vector_memory_bytes_per_clock * base.clock_hz / built_ratio(base),
        link_j_per_byte=base.energy.link_j_per_byte,
    )
    energies = part_energies(parts, num_macs)
    same = np.ones(len(num_macs))
    return Silicon(
        area_mm2=np.asarray(area.total_mm2),
        power_w=np.asarray(power.total_w),
        static_w=np.asarray(power.static_w),
        tensor_j_per_flop=np.asarray((energies.mac_j + energies.operand_j) / 2),
        vector_j_per_flop=energies.lane_j / 2 * same,
        vector_memory_j_per_byte=energies.vector_memory_j_per_byte * same,
        sram_j_per_byte=energies.sram_j_per_byte * same,
        price_usd=_prices_usd(base, parts, area),
    )


def _inventories(base: Chip, column: dict[str, FloatArray]) -> Inventory:
    template = template_chip(base, Design(num_tensor=1, num_rows=1, num_cols=1, num_vector=1, num_lanes=1))
    num_vector, built = column["num_vector"], built_ratio(base)
    num_lanes = num_vector * column["num_lanes"] * built
    return replace(
        inventory(template),
        num_macs=column["num_tensor"] * column["num_rows"] * column["num_cols"] * built,
        num_lanes=num_lanes,
        num_fp64_lanes=num_vector * built * base.die.num_fp64_lanes,
        num_schedulers=num_schedulers(base, column["num_tensor"], num_vector) * num_vector * built,
        register_bytes=num_lanes * register_bytes_per_lane(base),
        buffer_bytes=_buffer_bytes(base, column) * built,
        **parts_of_cores(base, column, base.sram.capacity_bytes),
    )


def parts_of_cores(
    base: Chip, column: Mapping[str, FloatArray], sram_bytes: float | FloatArray
) -> dict[str, FloatArray]:
    """What `inventory` counts of memories that come with the cores of each `template_chip`."""
    own, num_vector, num_tensor = inventory(base), base.vector.num_units, base.tensor.num_units
    num_macs = num_tensor * base.tensor.num_rows * base.tensor.num_cols
    more = column["num_vector"] / num_vector
    holds_frac = column["num_tensor"] * column["num_rows"] * column["num_cols"] / num_macs
    holds_results, is_sliced = "output" in base.tensor.tiling.stationary, base.die.buffered_units == "none"
    return {
        "vector_memory_bytes": own.vector_memory_bytes * more,
        "vector_memory_bytes_per_clock": own.vector_memory_bytes_per_clock * more,
        "sram_slice_bytes": slice_bytes(sram_bytes, column["num_vector"]) if is_sliced else 0.0 * more,
        "accumulator_bytes": (ACCUMULATOR_BYTES * num_macs * built_ratio(base) if holds_results else 0.0) * holds_frac,
    }


def _buffer_bytes(base: Chip, column: dict[str, FloatArray]) -> FloatArray:
    """Of all cores of each `template_chip`: what `inventory` counts."""
    num_tensor, num_vector = column["num_tensor"], column["num_vector"]
    accumulators = num_tensor * base.tensor.buffer_bytes * column["num_cols"] / base.tensor.num_cols
    if base.die.buffered_units == "tensor":
        num_macs = base.tensor.num_rows * base.tensor.num_cols
        return num_tensor * base.core_buffer_bytes * column["num_rows"] * column["num_cols"] / num_macs
    if base.die.buffered_units == "vector" and base.vector_memory is None:
        return accumulators + num_vector * base.core_buffer_bytes
    return accumulators


def built_ratio(base: Chip) -> float:
    """Cores on the silicon over those in use, as `inventory` has it."""
    return 1 / (1 - base.die.spare_core_frac)


def _prices_usd(base: Chip, parts: Inventory, area: Area) -> FloatArray:
    price = packaged_usd(
        parts,
        area,
        num_stacks=base.die.num_hbm_stacks,
        hbm_bytes=base.hbm.capacity_bytes,
        hbm_usd_per_byte=HBM_USD_PER_BYTE[base.die.hbm_generation],
    )
    return np.asarray(price.total_usd)


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
