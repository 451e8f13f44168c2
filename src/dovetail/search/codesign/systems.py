"""Hypothetical systems: a template chip with its memories, clock and links, and how many; as columns, in one call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from dovetail.cost.area import Area, silicon
from dovetail.cost.columns import ChipColumns, varied
from dovetail.cost.engines import engines_mm2_and_w
from dovetail.cost.inventory import ACCUMULATOR_BYTES, Inventory, inventory
from dovetail.cost.power import VOLTAGE_POWER
from dovetail.cost.price import HBM_USD_PER_BYTE, packaged_usd
from dovetail.cost.tdp import Power, busy_power, part_energies
from dovetail.errors import InvalidInput
from dovetail.hardware.chip import STATIONARY, Chip
from dovetail.hardware.endpoints import endpoint_coded
from dovetail.hardware.memory import Memory
from dovetail.hardware.part_energy import HBM_J_PER_BYTE, slice_bytes
from dovetail.hardware.template import (
    Design,
    check_array,
    dataflow_code,
    dataflow_of,
    design_of,
    has_local_sram,
    has_own_buffers,
    num_schedulers,
    own_buffer_bytes,
    register_bytes_per_lane,
    template_chip,
)
from dovetail.search.codesign.networks import AS_GIVEN, parts_of
from dovetail.step.work import ChipRows, chip_rows
from dovetail.units import GIBI, GIGA, KIBI, MEBI, MEGA, Amount
from dovetail.workload.graph import BoolArray, FloatArray, IntArray

CORES = ("num_tensor", "num_rows", "num_cols", "num_vector", "num_lanes")
ON_CORES = ("dataflow", "register_bytes_per_lane", "core_buffer_kib", "vmem_mib", "vmem_bytes_per_clock")
AROUND = ("sram_mib", "sram_bytes_per_clock", "hbm_stacks", "stack_gib", "clock_mhz", "endpoint", "link_gb_per_s")
# All that a system is; dataflows, endpoints and networks by their codes.
KNOBS = (*CORES, *ON_CORES, *AROUND, "network", "num_devices")
NETWORK = ("endpoint", "link_gb_per_s", "network", "num_devices")  # of which plans and what they send depend
BY_SIZE = 0.0  # of core_buffer_kib: as the size of a core has it
NO_VMEM = 0.0
BY_LANES = 0.0  # of vmem_bytes_per_clock: as many for each lane as the base has
# Others begin at 1.
LEAST = {
    "core_buffer_kib": BY_SIZE,
    "vmem_mib": NO_VMEM,
    "vmem_bytes_per_clock": BY_LANES,
    "register_bytes_per_lane": 0.0,
    "network": float(AS_GIVEN),
}
# Of vector memory, where the base has none to go by: two words of fp32 loaded and one stored, by each lane and clock.
VMEM_BYTES_PER_LANE = 12.0
Columns = Mapping[str, FloatArray]


def system_of(base: Chip, num_devices: int) -> dict[str, float]:
    """What `base` is in the knobs' words, for knobs that are not turned."""
    cores, memory = design_of(base), base.vector_memory
    return {
        **{name: float(getattr(cores, name)) for name in CORES},
        "dataflow": float(dataflow_code(base.tensor.tiling.stationary)),
        "register_bytes_per_lane": register_bytes_per_lane(base),
        "core_buffer_kib": BY_SIZE,
        "vmem_mib": NO_VMEM if memory is None else memory.capacity_bytes / base.vector.num_units / MEBI,
        "vmem_bytes_per_clock": BY_LANES,
        "sram_mib": base.sram.capacity_bytes / MEBI,
        "sram_bytes_per_clock": base.sram.bandwidth_bytes_per_s / base.clock_hz,
        "hbm_stacks": float(base.die.num_hbm_stacks),
        "stack_gib": base.hbm.capacity_bytes / base.die.num_hbm_stacks / GIBI,
        "clock_mhz": base.clock_hz / MEGA,
        "endpoint": float(base.endpoint_kind.code),
        "link_gb_per_s": base.interconnect_bytes_per_s / GIGA,
        "network": float(AS_GIVEN),
        "num_devices": float(num_devices),
    }


def check_knobs(base: Chip, values: Mapping[str, tuple[float, ...]]) -> None:
    """Raises, with the name of the knob, where `base` has not what a knob would turn."""
    own = system_of(base, 1)

    def is_turned(name: str) -> bool:
        return any(value != own[name] for value in values.get(name, ()))

    if is_turned("core_buffer_kib") and not has_own_buffers(base):
        message = f"tensor cores of {base.name} have no buffers of their own, its shared SRAM is cut into buffers"
        if not has_local_sram(base):
            message = f"tensor cores of {base.name} have no buffers of their own, they work from vector memory"
        other = "sram_mib" if has_local_sram(base) else "vmem_mib"
        raise InvalidInput(
            f"{message}; choose {other} instead, or build on a chip with core buffers such as tpuv4-like",
            "core_buffer_kib",
        )
    for name, other in (("vmem_mib", "sram_mib"), ("vmem_bytes_per_clock", "sram_bytes_per_clock")):
        if is_turned(name) and has_local_sram(base):
            message = f"the shared SRAM of {base.name} is the vector memory of its cores"
            raise InvalidInput(f"{message}; choose {other} instead, or build on tpu-v4 or tpuv4-like", name)
    if is_turned("vmem_bytes_per_clock") and NO_VMEM in values.get("vmem_mib", (own["vmem_mib"],)):
        message = f"{base.name} has no vector memory to be fast or slow"
        raise InvalidInput(f"{message}; choose vmem_mib as well, at least 1 MiB", "vmem_bytes_per_clock")
    if base.vector_memory is not None and NO_VMEM in values.get("vmem_mib", ()):
        message = f"vector cores of {base.name} work from vector memory, so it cannot be left out"
        raise InvalidInput(f"{message}; choose at least 1 MiB, or build on tpuv4-like", "vmem_mib")


Network = tuple[float, int, int, int]  # links in the knob's unit, devices, codes of the endpoint and of the network


def network_of(system: Mapping[str, float]) -> Network:
    """What plans, and what they send and hide, depend on."""
    links, num_devices = float(system["link_gb_per_s"]), int(system["num_devices"])
    return links, num_devices, int(system["endpoint"]), int(system["network"])


def system_chip(base: Chip, system: Mapping[str, float]) -> Chip:
    """The chip of one system, with the power and energy that its parts come to; the base's own values give the base."""
    chip = template_chip(_around(base, system), Design(**{name: int(system[name]) for name in CORES}))
    if has_own_buffers(base) and system["core_buffer_kib"] != BY_SIZE:
        chip = replace(chip, core_buffer_bytes=system["core_buffer_kib"] * KIBI)
    if chip.vector_memory is not None and system["vmem_bytes_per_clock"] != BY_LANES:
        faster = replace(chip.vector_memory, bandwidth_bytes_per_s=system["vmem_bytes_per_clock"] * chip.clock_hz)
        chip = replace(chip, vector_memory=faster)
    built = built_systems(base, system_columns(system))
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


def _around(base: Chip, system: Mapping[str, float]) -> Chip:
    """`base` with the cores that it has, and all else as the system has it."""
    own, tensor, die = system_of(base, 1), base.tensor, base.die

    def is_own(*names: str) -> bool:
        return all(system[name] == own[name] for name in names)

    clock_hz = base.clock_hz if is_own("clock_mhz") else system["clock_mhz"] * MEGA
    ratio = clock_hz / base.clock_hz
    sram_bytes = base.sram.capacity_bytes if is_own("sram_mib") else system["sram_mib"] * MEBI
    is_as_fast = is_own("sram_bytes_per_clock")
    stacks, hbm = int(system["hbm_stacks"]), base.hbm
    changed = replace(
        base,
        clock_hz=clock_hz,
        tensor=replace(
            tensor.scaled(ratio),
            tiling=tensor.tiling
            if is_own("dataflow")
            else replace(tensor.tiling, stationary=dataflow_of(system["dataflow"]), is_array=True),
        ),
        vector=replace(base.vector, peak_flop_per_s=base.vector.peak_flop_per_s * ratio),
        core_buffer_bytes=sram_bytes / base.vector.num_units
        if has_local_sram(base) and not is_own("sram_mib")
        else base.core_buffer_bytes,
        sram=Memory(
            capacity_bytes=sram_bytes,
            bandwidth_bytes_per_s=base.sram.bandwidth_bytes_per_s * ratio
            if is_as_fast
            else system["sram_bytes_per_clock"] * clock_hz,
        ),
        hbm=Memory(
            capacity_bytes=hbm.capacity_bytes
            if is_own("hbm_stacks", "stack_gib")
            else stacks * system["stack_gib"] * GIBI,
            bandwidth_bytes_per_s=hbm.bandwidth_bytes_per_s * (stacks / die.num_hbm_stacks),
        ),
        interconnect_bytes_per_s=base.interconnect_bytes_per_s
        if is_own("link_gb_per_s")
        else system["link_gb_per_s"] * GIGA,
        endpoint=endpoint_coded(system["endpoint"]).name,
        die=replace(
            die,
            register_bytes=die.register_bytes
            if is_own("register_bytes_per_lane")
            else system["register_bytes_per_lane"] * base.vector.num_lanes,
            num_hbm_stacks=stacks,
            num_link_lanes=int(_num_link_lanes(base, np.array(system["link_gb_per_s"] * GIGA))),
        ),
    )
    return _with_vector_memory(changed, base, system["vmem_mib"] * MEBI, ratio, is_own=is_own("vmem_mib"))


def _with_vector_memory(chip: Chip, base: Chip, vmem_bytes: float, clock_ratio: float, *, is_own: bool) -> Chip:
    """`chip`, which has the base's cores, with so much vector memory in each vector core."""
    memory = base.vector_memory
    if vmem_bytes == NO_VMEM:
        return replace(chip, vector_memory=None)
    capacity_bytes = memory.capacity_bytes if memory and is_own else vmem_bytes * base.vector.num_units
    is_core_buffer = base.die.buffered_units == "vector"
    core_buffer_bytes = chip.core_buffer_bytes
    if is_core_buffer and not is_own:
        before_bytes = memory.capacity_bytes if memory else base.core_buffer_bytes * base.vector.num_units
        core_buffer_bytes = core_buffer_bytes * (capacity_bytes / before_bytes)
    bandwidth = memory.bandwidth_bytes_per_s * clock_ratio if memory else _lane_bytes(base) * chip.clock_hz
    return replace(
        chip,
        core_buffer_bytes=core_buffer_bytes,
        energy=replace(chip.energy, vector_memory_j_per_byte=_vector_memory_j_per_byte(base)),
        vector_memory=Memory(capacity_bytes=capacity_bytes, bandwidth_bytes_per_s=bandwidth),
    )


def _lane_bytes(base: Chip) -> float:
    """Of all the base's lanes and a clock, from vector memory."""
    memory, num_lanes = base.vector_memory, base.vector.num_units * base.vector.num_lanes
    return VMEM_BYTES_PER_LANE * num_lanes if memory is None else memory.bandwidth_bytes_per_s / base.clock_hz


def _vector_memory_j_per_byte(base: Chip) -> float:
    """As the base's; where none is known, no less than the shared SRAM."""
    return base.energy.vector_memory_j_per_byte or base.energy.sram_j_per_byte


def core_buffer_bytes(base: Chip, systems: Columns | Mapping[str, float]) -> FloatArray:
    """Of each core that owns one: a tensor core's as its knob says or by its size, else a vector core's."""
    own = system_of(base, 1)
    if has_own_buffers(base):
        chosen, num_macs = np.asarray(systems["core_buffer_kib"]), systems["num_rows"] * systems["num_cols"]
        return np.asarray(np.where(chosen == BY_SIZE, own_buffer_bytes(base, num_macs), chosen * KIBI))
    if has_local_sram(base):
        sram_bytes, num_vector = np.asarray(systems["sram_mib"]) * MEBI, np.asarray(systems["num_vector"])
        is_own = (sram_bytes == own["sram_mib"] * MEBI) & (num_vector == own["num_vector"])
        return np.where(is_own, base.core_buffer_bytes, sram_bytes / num_vector)
    vmem_bytes, own_bytes = np.asarray(systems["vmem_mib"]) * MEBI, own["vmem_mib"] * MEBI
    grown = np.where(vmem_bytes == own_bytes, 1.0, vmem_bytes / (own_bytes or base.core_buffer_bytes))
    return np.asarray(grown * base.core_buffer_bytes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Built:
    """Many systems: their chips as the costs read them, and what each device takes and costs to make.

    NICs, switches and optics count for each device, and in what all devices come to.
    """

    chips: ChipColumns
    rows: ChipRows
    area_mm2: FloatArray
    power_w: FloatArray
    price_usd: FloatArray
    hbm_bytes: FloatArray
    network_w: FloatArray  # of parts between devices, for each device
    network_usd: FloatArray  # nan where a part has no known price

    @property
    def joined_w(self) -> FloatArray:
        """Of a device and its share of the network."""
        return self.power_w + self.network_w

    @property
    def joined_usd(self) -> FloatArray:
        return self.price_usd + self.network_usd

    def at(self, rows: IntArray) -> Built:
        """Some of the systems."""
        return Built(**{field.name: _taken(getattr(self, field.name), rows) for field in fields(self)})


def _taken(column: FloatArray | ChipColumns | ChipRows, rows: IntArray) -> Any:
    return column[rows] if isinstance(column, np.ndarray) else column.at(rows)


def built_systems(base: Chip, systems: Columns) -> Built:
    """All of `systems`, each knob an array, in one call."""
    check_array(base, "systems")
    parts, area, power = sized(base, systems)
    hbm_bytes = systems["hbm_stacks"] * systems["stack_gib"] * GIBI
    price = packaged_usd(
        parts,
        area,
        num_stacks=systems["hbm_stacks"],
        hbm_bytes=hbm_bytes,
        hbm_usd_per_byte=HBM_USD_PER_BYTE[base.die.hbm_generation],
    )
    chips = _columns(base, systems, parts, power)
    network_w, network_usd = _network(systems, np.asarray(power.total_w), np.asarray(price.total_usd))
    return Built(
        chips=chips,
        rows=chip_rows(chips, base),
        area_mm2=np.asarray(area.total_mm2),
        power_w=np.asarray(power.total_w),
        price_usd=np.asarray(price.total_usd),
        hbm_bytes=hbm_bytes,
        network_w=network_w,
        network_usd=network_usd,
    )


def network_j(network_w: Amount, num_devices: Amount, step_s: Amount) -> FloatArray:
    """What joins all devices draws in a step; nothing where there is nothing, however long that takes."""
    return np.asarray(network_w * num_devices * np.where(np.asarray(network_w) > 0, step_s, 0.0))


def _network(systems: Columns, power_w: FloatArray, price_usd: FloatArray) -> FloatArray:
    """Watts and dollars of what joins each device of a system."""
    found = np.zeros((2, len(power_w)))
    for code in np.unique(systems["network"]).tolist():
        parts, rows = parts_of(code), np.flatnonzero(systems["network"] == code)
        links, num_devices = systems["link_gb_per_s"][rows] * GIGA, systems["num_devices"][rows]
        found[0, rows] = parts.device_w(links, num_devices, power_w[rows])
        found[1, rows] = parts.device_usd(links, num_devices, price_usd[rows])
    return found


def sized(base: Chip, systems: Columns) -> tuple[Inventory, Area, Power]:
    """What is on the silicon of each `system_chip`, its area, and what it draws with everything busy."""
    parts = inventories(base, systems)
    area = silicon(parts)
    return parts, area, _power(base, systems, parts, np.asarray(area.total_mm2))


def _power(base: Chip, systems: Columns, parts: Inventory, area_mm2: FloatArray) -> Power:
    """With everything busy; a clock above the base's needs a higher voltage."""
    clock_hz, num_macs = systems["clock_mhz"] * MEGA, systems["num_rows"] * systems["num_cols"]
    voltage_ratio = _voltage_ratio(base, clock_hz)
    return busy_power(
        parts,
        area_mm2,
        macs_per_s=systems["num_tensor"] * num_macs * clock_hz * voltage_ratio,
        lane_macs_per_s=_vector_flop_per_s(base, systems) / 2 * voltage_ratio,
        num_macs_per_unit=num_macs,
        sram_bytes_per_s=parts.sram_bytes_per_clock * clock_hz,
        hbm_bytes_per_s=systems["hbm_stacks"] * _stack_bytes_per_s(base),
        link_bytes_per_s=systems["link_gb_per_s"] * GIGA,
        vector_memory_bytes_per_s=vector_memory_bytes_per_clock(base, systems) * clock_hz,
        link_j_per_byte=base.energy.link_j_per_byte,
    )


def vector_memory_bytes_per_clock(base: Chip, systems: Columns) -> FloatArray:
    """As the knob says, or as many for each lane as the base's have; none without vector memory."""
    lanes_ratio = systems["num_vector"] * systems["num_lanes"] / (base.vector.num_units * base.vector.num_lanes)
    chosen = systems["vmem_bytes_per_clock"]
    bytes_per_clock = np.where(chosen == BY_LANES, _lane_bytes(base) * lanes_ratio, chosen)
    return np.where(systems["vmem_mib"] > NO_VMEM, bytes_per_clock, 0.0)


def _clock_ratio(base: Chip, systems: Columns) -> FloatArray:
    return np.asarray(systems["clock_mhz"] * MEGA / base.clock_hz)


def _vector_flop_per_s(base: Chip, systems: Columns) -> FloatArray:
    num_lanes = base.vector.num_units * base.vector.num_lanes
    more = systems["num_vector"] * systems["num_lanes"] / num_lanes
    return np.asarray(base.vector.peak_flop_per_s * more * _clock_ratio(base, systems))


def _columns(base: Chip, systems: Columns, parts: Inventory, power: Power) -> ChipColumns:
    """What costs read of each `system_chip`."""
    energies = part_energies(parts, systems["num_rows"] * systems["num_cols"])
    own, tensor = varied(base, 1), base.tensor
    clock_hz, sram_bytes = systems["clock_mhz"] * MEGA, systems["sram_mib"] * MEBI
    num_tensor, num_macs = systems["num_tensor"], systems["num_rows"] * systems["num_cols"]
    macs_ratio = num_tensor * num_macs / (tensor.num_units * tensor.num_rows * tensor.num_cols)
    sram_bytes_per_s = systems["sram_bytes_per_clock"] * clock_hz
    has_vmem = systems["vmem_mib"] > NO_VMEM
    buffers_bytes = core_buffer_bytes(base, systems)
    fed_bytes_per_s = vector_memory_bytes_per_clock(base, systems) * clock_hz
    return varied(
        base,
        len(num_macs),
        dataflows=_dataflows(systems),
        num_units=num_tensor.astype(np.float64),
        tile_rows=systems["num_rows"][None].astype(np.float64),
        tile_cols=systems["num_cols"][None].astype(np.float64),
        dtype_flop_per_s=own.dtype_flop_per_s * (macs_ratio * _clock_ratio(base, systems)),
        array_buffer_bytes=buffers_bytes
        if has_own_buffers(base)
        else tensor.buffer_bytes * systems["num_cols"] / tensor.num_cols,
        num_lanes=systems["num_vector"] * systems["num_lanes"],
        register_bytes_per_lane=systems["register_bytes_per_lane"].astype(np.float64),
        vector_flop_per_s=_vector_flop_per_s(base, systems),
        clock_hz=clock_hz,
        core_buffer_bytes=buffers_bytes,
        has_vmem=has_vmem,
        vector_memory_bytes=np.where(has_vmem, systems["vmem_mib"] * MEBI * systems["num_vector"], sram_bytes),
        vector_memory_bytes_per_s=np.where(has_vmem, fed_bytes_per_s, sram_bytes_per_s),
        vector_memory_j_per_byte=np.where(has_vmem, energies.vector_memory_j_per_byte, energies.sram_j_per_byte),
        sram_j_per_byte=energies.sram_j_per_byte * np.ones(len(num_macs)),
        hbm_j_per_byte=np.full(len(num_macs), HBM_J_PER_BYTE),
        sram_bytes=sram_bytes,
        sram_bytes_per_s=sram_bytes_per_s,
        hbm_bytes_per_s=systems["hbm_stacks"] * _stack_bytes_per_s(base),
        tdp_w=np.asarray(power.total_w),
        tensor_j_per_flop=np.asarray((power.arithmetic_w + power.operand_w) / (2 * num_tensor * num_macs * clock_hz)),
        vector_j_per_flop=energies.lane_j / 2 * _voltage_ratio(base, clock_hz),
        idle_w=np.asarray(power.static_w),
    )


def _dataflows(systems: Columns) -> BoolArray:
    """A row for each of `STATIONARY`."""
    code = systems["dataflow"].astype(np.int64)
    return np.stack([(code >> place & 1).astype(bool) for place in range(len(STATIONARY))])


def inventories(base: Chip, systems: Columns) -> Inventory:
    """What is on the silicon of each `system_chip`; where the SRAM is the cores' buffers, only HBM crosses the die."""
    template = template_chip(base, Design(num_tensor=1, num_rows=1, num_cols=1, num_vector=1, num_lanes=1))
    num_tensor, num_vector = systems["num_tensor"], systems["num_vector"]
    built = 1 / (1 - base.die.spare_core_frac)
    num_lanes, clock_hz = num_vector * systems["num_lanes"] * built, systems["clock_mhz"] * MEGA
    num_macs = num_tensor * systems["num_rows"] * systems["num_cols"] * built
    hbm_bytes_per_s = systems["hbm_stacks"] * _stack_bytes_per_s(base)
    parts = inventory(template)
    endpoint_mm2, endpoint_w = _engines(systems, float(parts.io_node_m))
    holds_results = _dataflows(systems)[STATIONARY.index("output")]
    return replace(
        parts,
        num_macs=num_macs,
        accumulator_bytes=np.where(holds_results, ACCUMULATOR_BYTES * num_macs, 0.0),
        num_lanes=num_lanes,
        num_fp64_lanes=num_vector * built * base.die.num_fp64_lanes,
        num_schedulers=num_schedulers(base, num_tensor, num_vector) * num_vector * built,
        register_bytes=num_lanes * systems["register_bytes_per_lane"],
        sram_bytes=systems["sram_mib"] * MEBI / (1 - base.die.spare_sram_frac),
        buffer_bytes=_buffers_bytes(base, systems) * built,
        noc_bytes_per_clock=hbm_bytes_per_s / clock_hz if has_local_sram(base) else systems["sram_bytes_per_clock"],
        num_hbm_phys=systems["hbm_stacks"] + base.die.num_spare_hbm_phys,
        num_link_lanes=_num_link_lanes(base, systems["link_gb_per_s"] * GIGA),
        endpoint_mm2=endpoint_mm2,
        endpoint_w=endpoint_w,
        vector_memory_bytes=systems["vmem_mib"] * MEBI * num_vector * built,
        vector_memory_bytes_per_clock=vector_memory_bytes_per_clock(base, systems) * built,
        sram_bytes_per_clock=systems["sram_bytes_per_clock"],
        sram_slice_bytes=slice_bytes(systems["sram_mib"] * MEBI, num_vector) if has_local_sram(base) else 0.0,
        vector_memory_slice_bytes=slice_bytes(systems["vmem_mib"] * MEBI * num_vector, num_vector),
    )


def _buffers_bytes(base: Chip, systems: Columns) -> FloatArray:
    """Of all cores in use: what `inventory` counts as buffers."""
    num_tensor, num_vector = systems["num_tensor"], systems["num_vector"]
    if has_own_buffers(base):
        return np.asarray(num_tensor * core_buffer_bytes(base, systems))
    accumulators = num_tensor * base.tensor.buffer_bytes * systems["num_cols"] / base.tensor.num_cols
    if has_local_sram(base):
        return np.asarray(accumulators)
    cores_bytes = num_vector * core_buffer_bytes(base, systems)  # vector memory itself where there is some
    return np.asarray(accumulators + np.where(systems["vmem_mib"] > NO_VMEM, 0.0, cores_bytes))


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


def system_columns(system: Mapping[str, float]) -> dict[str, FloatArray]:
    """One system, as columns of one."""
    return {name: np.array([value], dtype=np.float64) for name, value in system.items()}


def taken(systems: Columns, rows: IntArray) -> dict[str, FloatArray]:
    """Some of `systems`."""
    return {name: column[rows] for name, column in systems.items()}
