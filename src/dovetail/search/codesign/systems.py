"""Hypothetical systems: a template chip with its memories, clock and links, and how many; as columns, in one call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from dovetail.cost.area import silicon
from dovetail.cost.columns import ChipColumns, varied
from dovetail.cost.engines import engines_mm2_and_w
from dovetail.cost.inventory import Inventory, inventory
from dovetail.cost.phaze_area import ELEMENTS_PER_KIBI
from dovetail.cost.power import VOLTAGE_POWER
from dovetail.cost.price import HBM_USD_PER_BYTE, packaged_usd
from dovetail.cost.tdp import Power, busy_power, part_energies
from dovetail.hardware.chip import Chip
from dovetail.hardware.endpoints import endpoint_coded
from dovetail.hardware.memory import Memory
from dovetail.hardware.part_energy import HBM_J_PER_BYTE
from dovetail.hardware.template import Design, design_of, num_schedulers, register_bytes_per_lane, template_chip
from dovetail.search.designs import built_ratio, check_area_model, parts_of_cores
from dovetail.step.work import ChipRows, chip_rows
from dovetail.units import GIBI, GIGA, KIBI, MEBI, MEGA
from dovetail.workload.graph import FloatArray, IntArray

CORES = ("num_tensor", "num_rows", "num_cols", "num_vector", "num_lanes")
AROUND = ("sram_mib", "hbm_stacks", "stack_gib", "clock_mhz", "endpoint", "link_gb_per_s")
KNOBS = (*CORES, "core_buffer_kib", *AROUND, "num_devices")  # all that a system is; an endpoint by its code
NETWORK = ("endpoint", "link_gb_per_s", "num_devices")  # of which plans and what they send depend
BY_SIZE = 0.0  # of core_buffer_kib: as the size of a core has it
Columns = Mapping[str, FloatArray]


def system_of(base: Chip, num_devices: int) -> dict[str, float]:
    """What `base` is in the knobs' words, for knobs that nobody turns."""
    cores = design_of(base)
    return {
        **{name: float(getattr(cores, name)) for name in CORES},
        "core_buffer_kib": BY_SIZE,
        "sram_mib": base.sram.capacity_bytes / MEBI,
        "hbm_stacks": float(base.die.num_hbm_stacks),
        "stack_gib": base.hbm.capacity_bytes / base.die.num_hbm_stacks / GIBI,
        "clock_mhz": base.clock_hz / MEGA,
        "endpoint": float(base.endpoint_kind.code),
        "link_gb_per_s": base.interconnect_bytes_per_s / GIGA,
        "num_devices": float(num_devices),
    }


Network = tuple[float, int, int]  # links in the knob's unit, devices, code of the endpoint


def network_of(system: Mapping[str, float]) -> Network:
    """What plans, and what they send and hide, depend on."""
    return float(system["link_gb_per_s"]), int(system["num_devices"]), int(system["endpoint"])


def system_chip(base: Chip, system: Mapping[str, float]) -> Chip:
    """The chip of one system, with the power and energy that its parts come to."""
    around = replace(
        base,
        clock_hz=system["clock_mhz"] * MEGA,
        sram=Memory(
            capacity_bytes=system["sram_mib"] * MEBI,
            bandwidth_bytes_per_s=_sram_bytes_per_clock(base) * system["clock_mhz"] * MEGA,
        ),
        hbm=Memory(
            capacity_bytes=system["hbm_stacks"] * system["stack_gib"] * GIBI,
            bandwidth_bytes_per_s=system["hbm_stacks"] * _stack_bytes_per_s(base),
        ),
        interconnect_bytes_per_s=system["link_gb_per_s"] * GIGA,
        endpoint=endpoint_coded(system["endpoint"]).name,
        die=replace(
            base.die,
            num_hbm_stacks=int(system["hbm_stacks"]),
            num_link_lanes=int(_num_link_lanes(base, np.array(system["link_gb_per_s"] * GIGA))),
        ),
    )
    cores = template_chip(around, Design(**{name: int(system[name]) for name in CORES}))
    chip = _with_buffers(cores, base, system)
    built = built_systems(base, {name: np.array([value]) for name, value in system.items()})
    energy = replace(
        chip.energy,
        tensor_j_per_flop=float(built.chips.tensor_j_per_flop[0]),
        vector_j_per_flop=float(built.chips.vector_j_per_flop[0]),
        vector_memory_j_per_byte=float(built.chips.vector_memory_j_per_byte[0]),
        sram_j_per_byte=float(built.chips.sram_j_per_byte[0]),
        hbm_j_per_byte=float(built.chips.hbm_j_per_byte[0]),
        idle_w=float(built.chips.idle_w[0]),
    )
    return replace(chip, energy=energy, tdp_w=float(built.power_w[0]))


def _with_buffers(chip: Chip, base: Chip, system: Mapping[str, float]) -> Chip:
    """`chip` with buffers as `base` has them: its tensor cores' own, or parts of the shared SRAM."""
    if not has_own_buffers(base):
        return chip
    return replace(
        chip,
        core_buffer_bytes=float(core_buffer_bytes(system)),
        die=replace(chip.die, buffered_units="tensor"),
    )


def has_own_buffers(base: Chip) -> bool:
    """Whether each tensor core has a buffer beside the shared SRAM, as PHAZE's have; else that is cut into buffers."""
    return base.die.buffered_units == "tensor"


def core_buffer_bytes(systems: Columns | Mapping[str, float]) -> FloatArray:
    """Of a tensor core with a buffer of its own: as its knob says, or BY_SIZE a KiB for every 64 multipliers (PHAZE).

    That is at least one KiB.
    """
    chosen, num_macs = np.asarray(systems["core_buffer_kib"]), systems["num_rows"] * systems["num_cols"]
    by_size_bytes = np.maximum(1.0, num_macs / ELEMENTS_PER_KIBI) * KIBI
    return np.asarray(np.where(chosen == BY_SIZE, by_size_bytes, chosen * KIBI))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Built:
    """Many systems: their chips as the costs read them, and what each device takes and costs to make."""

    chips: ChipColumns
    rows: ChipRows
    area_mm2: FloatArray
    power_w: FloatArray
    price_usd: FloatArray
    hbm_bytes: FloatArray

    def at(self, rows: IntArray) -> Built:
        """Some of the systems."""
        return Built(**{field.name: _taken(getattr(self, field.name), rows) for field in fields(self)})


def _taken(column: FloatArray | ChipColumns | ChipRows, rows: IntArray) -> Any:
    return column[rows] if isinstance(column, np.ndarray) else column.at(rows)


def built_systems(base: Chip, systems: Columns) -> Built:
    """All of `systems`, each knob an array, in one call."""
    check_area_model(base)
    parts = _inventories(base, systems)
    area = silicon(parts)
    power = _power(base, systems, parts, np.asarray(area.total_mm2))
    hbm_bytes = systems["hbm_stacks"] * systems["stack_gib"] * GIBI
    price = packaged_usd(
        parts,
        area,
        num_stacks=systems["hbm_stacks"],
        hbm_bytes=hbm_bytes,
        hbm_usd_per_byte=HBM_USD_PER_BYTE[base.die.hbm_generation],
    )
    chips = _columns(base, systems, parts, power)
    return Built(
        chips=chips,
        rows=chip_rows(chips, base),
        area_mm2=np.asarray(area.total_mm2),
        power_w=np.asarray(power.total_w),
        price_usd=np.asarray(price.total_usd),
        hbm_bytes=hbm_bytes,
    )


def _macs_per_s(systems: Columns) -> FloatArray:
    num_macs = systems["num_tensor"] * systems["num_rows"] * systems["num_cols"]
    return np.asarray(num_macs * systems["clock_mhz"] * MEGA)


def _power(base: Chip, systems: Columns, parts: Inventory, area_mm2: FloatArray) -> Power:
    """With everything busy; a clock above the base's needs a higher voltage."""
    clock_hz = systems["clock_mhz"] * MEGA
    voltage_ratio, num_lanes = _voltage_ratio(base, clock_hz), systems["num_vector"] * systems["num_lanes"]
    return busy_power(
        parts,
        area_mm2,
        macs_per_s=_macs_per_s(systems) * voltage_ratio,
        lane_macs_per_s=num_lanes * clock_hz * voltage_ratio,
        num_macs_per_unit=systems["num_rows"] * systems["num_cols"],
        sram_bytes_per_s=parts.sram_bytes_per_clock * clock_hz,
        hbm_bytes_per_s=systems["hbm_stacks"] * _stack_bytes_per_s(base),
        link_bytes_per_s=systems["link_gb_per_s"] * GIGA,
        vector_memory_bytes_per_s=parts.vector_memory_bytes_per_clock * clock_hz / built_ratio(base),
        link_j_per_byte=base.energy.link_j_per_byte,
    )


def _columns(base: Chip, systems: Columns, parts: Inventory, power: Power) -> ChipColumns:
    """What costs read of each `system_chip`."""
    energies = part_energies(parts, systems["num_rows"] * systems["num_cols"])
    clock_hz, sram_bytes = systems["clock_mhz"] * MEGA, systems["sram_mib"] * MEBI
    flop_per_s, num_lanes = 2 * _macs_per_s(systems), systems["num_vector"] * systems["num_lanes"]
    num_macs, is_known = systems["num_rows"] * systems["num_cols"], varied(base, 1).dtype_flop_per_s > 0
    has_vector_memory = base.vector_memory is not None
    nearest_j_per_byte = energies.vector_memory_j_per_byte if has_vector_memory else energies.sram_j_per_byte
    return varied(
        base,
        len(num_macs),
        num_units=systems["num_tensor"].astype(np.float64),
        tile_rows=systems["num_rows"][None].astype(np.float64),
        tile_cols=systems["num_cols"][None].astype(np.float64),
        dtype_flop_per_s=np.where(is_known, flop_per_s, 0.0),
        num_lanes=num_lanes,
        vector_flop_per_s=2 * num_lanes * clock_hz,
        clock_hz=clock_hz,
        core_buffer_bytes=core_buffer_bytes(systems) if has_own_buffers(base) else sram_bytes / systems["num_vector"],
        sram_bytes=sram_bytes,
        sram_bytes_per_s=_sram_bytes_per_clock(base) * clock_hz,
        hbm_bytes_per_s=systems["hbm_stacks"] * _stack_bytes_per_s(base),
        tdp_w=np.asarray(power.total_w),
        tensor_j_per_flop=np.asarray((power.arithmetic_w + power.operand_w) / flop_per_s),
        vector_j_per_flop=energies.lane_j / 2 * _voltage_ratio(base, clock_hz),
        vector_memory_j_per_byte=np.asarray(nearest_j_per_byte + 0.0 * clock_hz),
        sram_j_per_byte=np.asarray(energies.sram_j_per_byte + 0.0 * clock_hz),
        hbm_j_per_byte=np.full(len(num_macs), HBM_J_PER_BYTE),
        idle_w=np.asarray(power.static_w),
    )


def _inventories(base: Chip, systems: Columns) -> Inventory:
    """What is on the silicon of each `system_chip`; where the SRAM is the cores' buffers, only HBM crosses the die."""
    template = template_chip(base, Design(num_tensor=1, num_rows=1, num_cols=1, num_vector=1, num_lanes=1))
    num_tensor, num_vector = systems["num_tensor"], systems["num_vector"]
    built = built_ratio(base)
    num_lanes = num_vector * systems["num_lanes"] * built
    is_own, clock_hz = has_own_buffers(base), systems["clock_mhz"] * MEGA
    own_bytes = base.tensor.buffer_bytes * systems["num_cols"] / base.tensor.num_cols
    buffer_bytes = core_buffer_bytes(systems) if is_own else own_bytes
    hbm_bytes_per_s = systems["hbm_stacks"] * _stack_bytes_per_s(base)
    crossing = np.full(len(num_tensor), _sram_bytes_per_clock(base)) if is_own else hbm_bytes_per_s / clock_hz
    parts = inventory(template)
    endpoint_mm2, endpoint_w = _engines(systems, float(parts.io_node_m))
    return replace(
        parts,
        num_macs=num_tensor * systems["num_rows"] * systems["num_cols"] * built,
        num_lanes=num_lanes,
        num_fp64_lanes=num_vector * built * base.die.num_fp64_lanes,
        num_schedulers=num_schedulers(base, num_tensor, num_vector) * num_vector * built,
        register_bytes=num_lanes * register_bytes_per_lane(base),
        sram_bytes=systems["sram_mib"] * MEBI / (1 - base.die.spare_sram_frac),
        buffer_bytes=num_tensor * built * buffer_bytes,
        noc_bytes_per_clock=crossing,
        num_hbm_phys=systems["hbm_stacks"] + base.die.num_spare_hbm_phys,
        num_link_lanes=_num_link_lanes(base, systems["link_gb_per_s"] * GIGA),
        endpoint_mm2=endpoint_mm2,
        endpoint_w=endpoint_w,
        sram_bytes_per_clock=np.full(len(num_tensor), _sram_bytes_per_clock(base)),
        **parts_of_cores(base, systems, systems["sram_mib"] * MEBI),
    )


def _engines(systems: Columns, node_m: float) -> FloatArray:
    """Area and watts of what runs the collectives of each system, on the node that has the links."""
    rates, rate = np.unique(systems["link_gb_per_s"], return_inverse=True)
    found = np.zeros((2, len(rate)))
    for code in np.unique(systems["endpoint"]).tolist():
        by_rate = [engines_mm2_and_w(endpoint_coded(code), links * GIGA, node_m) for links in rates.tolist()]
        rows = systems["endpoint"] == code
        found[:, rows] = np.array(by_rate).T[:, rate[rows]]
    return found


def _num_link_lanes(base: Chip, link_bytes_per_s: FloatArray) -> FloatArray:
    """As many more as the links are faster than the base's."""
    more = link_bytes_per_s / base.interconnect_bytes_per_s
    return np.asarray(np.ceil(base.die.num_link_lanes * more * (1 - np.finfo(np.float64).eps * 8)))


def _voltage_ratio(base: Chip, clock_hz: FloatArray) -> FloatArray:
    """Energy of the cores over that at the base's clock: a faster one needs a higher voltage."""
    return np.asarray((clock_hz / base.clock_hz) ** VOLTAGE_POWER)


def _stack_bytes_per_s(base: Chip) -> float:
    return base.hbm.bandwidth_bytes_per_s / base.die.num_hbm_stacks


def _sram_bytes_per_clock(base: Chip) -> float:
    return base.sram.bandwidth_bytes_per_s / base.clock_hz


def taken(systems: Columns, rows: IntArray) -> dict[str, FloatArray]:
    """Some of `systems`."""
    return {name: column[rows] for name, column in systems.items()}
