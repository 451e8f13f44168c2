"""What the table beyond ACE compares: systems, jobs on them, and mechanisms with their arbitration."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dovetail.comm.endpoint import HOPPER_SM_BYTES_PER_S, SM_BYTES_PER_S, use_of_phases
from dovetail.comm.themis import nested_phases, switched_s_per_byte, themis_s_per_byte
from dovetail.comm.torus import Side, Torus, Work, ace_torus, link_s_per_byte
from dovetail.cost.chosen import num_clusters
from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import Chip
from dovetail.hardware.clusters import clusters
from dovetail.hardware.endpoints import endpoints
from dovetail.papers.ace_cases import COMPUTE_SCALE, ace_workloads
from dovetail.step.one_device.shared_chip import Cores, Load
from dovetail.step.one_device.shared_program import (
    Payloads,
    SharedProgram,
    data_parallel,
    fully_sharded,
    tensor_parallel,
)
from dovetail.step.one_device.training_program import program
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

NUM_DEVICES = 64
MOST_CORES_FRAC = 0.5
NUM_SPLITS = 20
FEEDS = tuple(part / NUM_SPLITS for part in range(NUM_SPLITS, 0, -1))  # of the links' rate, that a static split feeds


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A chip and the network it is on. With `has_two_ports` memory reads and writes do not share bandwidth (ACE).

    Where `is_contention_measured`, held cores cost each kernel what `one_device.contention` says; where that was not
    measured, as on ACE's NPU and on Trainium, they cost their share of the cores.
    """

    name: str
    chip: Chip
    network: Torus
    group: Torus  # where tensor parallelism lies
    sm_bytes_per_s: float
    has_two_ports: bool = False
    is_contention_measured: bool = False

    @property
    def hbm_bytes_per_s(self) -> float:
        return self.chip.hbm.bandwidth_bytes_per_s * self.chip.calibration.hbm_frac

    @property
    def is_switched(self) -> bool:
        return all(side.is_switched for side in self.network.sides)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanism:
    """A column of the table: who drives collectives, in which order of dimensions, and who yields to whom."""

    name: str
    endpoint: str
    arbitration: str
    is_themis: bool = False
    is_any_way: bool = False  # sends in the quickest of all ways: fixed order, Themis', and in switches where there are


MECHANISMS = (
    Mechanism(name="SM ring", endpoint="sm", arbitration="priority"),
    Mechanism(name="copy engine", endpoint="dma", arbitration="priority"),
    Mechanism(name="in-switch", endpoint="in-switch", arbitration="priority"),
    Mechanism(name="ACE", endpoint="ace", arbitration="static"),
    Mechanism(name="ACE+", endpoint="ace", arbitration="dynamic", is_themis=True),
    Mechanism(name="ideal", endpoint="ideal", arbitration="priority", is_any_way=True),
)
FREE = Mechanism(name="free", endpoint="ideal", arbitration="priority")  # ideal, but sends as the SM ring does


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A row of the table: a program on a system, and the network its collectives cross."""

    name: str
    system: System
    program: SharedProgram
    network: Torus


def _side(name: str, dimension_index: int, family: str) -> Side:
    dimension = clusters[family].build(NUM_DEVICES).topology.dimensions[dimension_index]
    return Side(
        name=name,
        num_devices=dimension.num_devices,
        bandwidth_bytes_per_s=dimension.link.bandwidth_bytes_per_s / dimension.oversubscription,
        latency_s=dimension.link.latency_s,
        is_both_ways=dimension.kind == "bidirectional-ring",
        is_switched=dimension.kind in ("switch", "fat-tree"),
    )


def systems() -> tuple[System, ...]:
    """ACE's NPU, and what is bought in 2026: 64 of each."""
    npu, h100, trainium = chips["ace-npu"](), chips["h100-sxm"](), chips["trainium2"]()
    nvlink, infiniband = _side("nvlink", 0, "dgx-h100"), _side("infiniband", 1, "dgx-h100")
    x, y, efa = (_side(name, index, "trn2") for index, name in enumerate(("x", "y", "efa")))
    cube = ace_torus(4, 4, 4, link_frac=0.94)
    share = h100.calibration.link_frac
    return (
        System(name="ACE NPU", chip=npu, network=cube, group=cube, sm_bytes_per_s=SM_BYTES_PER_S, has_two_ports=True),
        System(
            name="H100",
            chip=h100,
            network=Torus(sides=(nvlink, infiniband), link_frac=share),
            group=Torus(sides=(nvlink,), link_frac=share),
            sm_bytes_per_s=HOPPER_SM_BYTES_PER_S,
            is_contention_measured=True,  # on an H200, which has the same 132 SMs in the same groups
        ),
        System(
            name="Trainium2",
            chip=trainium,
            network=Torus(sides=(x, y, efa), link_frac=trainium.calibration.link_frac),
            group=Torus(sides=(x, y), link_frac=trainium.calibration.link_frac),
            sm_bytes_per_s=trainium.hbm.bandwidth_bytes_per_s / trainium.tensor.num_units,
        ),
    )


def jobs() -> tuple[Job, ...]:
    """Three workloads on three systems, and Llama-3-70B twice on the two of 2026."""
    npu, *modern = systems()
    found = []
    for workload in ace_workloads():
        for system in (npu, *modern):
            scale = COMPUTE_SCALE[workload.name] if system is npu else 1.0
            made = data_parallel(program(workload, system.chip, held_counts(system, system.network)).scaled(scale))
            found.append(Job(name=workload.name, system=system, program=made, network=system.network))
    model = models["llama3-70b"]()
    one = Workload(model=model, global_batch=1, seq=model.seq)
    for system in modern:
        made = fully_sharded(one, system.chip, held_counts(system, system.network))
        found.append(Job(name="llama3-70b FSDP", system=system, program=made, network=system.network))
    for system in modern:
        counts = held_counts(system, system.group)
        made = tensor_parallel(one, system.chip, system.group.num_devices, counts)
        found.append(Job(name="llama3-70b TP+SP", system=system, program=made, network=system.group))
    return tuple(found)


def loads(payloads: Payloads, system: System, network: Torus, mechanism: Mechanism) -> dict[str, Load]:
    """Every collective of a program as `mechanism` runs it on `system`."""
    of_work = {work: _load_of(work, system, network, mechanism) for work in {work for work, _ in payloads.values()}}
    made = {}
    for name, (work, size) in payloads.items():
        s_per_byte, latency_s, hbm, cores = of_work[work]
        made[name] = Load(
            link_s=size * s_per_byte,
            latency_s=latency_s,
            hbm_frac=hbm,
            core_frac=cores.frac,
            num_units=cores.num_units,
        )
    return made


def held_counts(system: System, network: Torus) -> tuple[int, ...]:
    """Units that some mechanism holds, or a static split of it; none where contention is not measured."""
    if not system.is_contention_measured:
        return ()
    cores = [
        _load_of(work, system, network, mechanism)[3]
        for work in Work
        for mechanism in MECHANISMS
        if _fits(mechanism, network)
    ]
    wholes = {held.num_units for held in cores if held.num_units}
    return tuple(sorted({math.ceil(feed_frac * count) for count in wholes for feed_frac in FEEDS}))


def _fits(mechanism: Mechanism, network: Torus) -> bool:
    return mechanism.endpoint != "in-switch" or all(side.is_switched for side in network.sides)


def _load_of(
    work: Work, system: System, network: Torus, mechanism: Mechanism
) -> tuple[float, float, float, Cores]:  # style: (seconds on the links per byte, latency, share of HBM, cores)
    phases = nested_phases(network, work)
    s_per_byte, latency_s = _way_s(work, network, mechanism)
    use = use_of_phases(endpoints[mechanism.endpoint], phases)
    memory = max(use.read_bytes, use.write_bytes) if system.has_two_ports else use.memory_bytes
    num_cores = math.ceil(use.sm_bytes / s_per_byte / system.sm_bytes_per_s)
    num_held = min(num_cores, int(MOST_CORES_FRAC * system.chip.tensor.num_units))
    cores = Cores(frac=min(MOST_CORES_FRAC, _slowdown_frac(system.chip, num_cores)), num_units=num_held)
    return s_per_byte, latency_s, memory / s_per_byte / system.hbm_bytes_per_s, cores


def _way_s(
    work: Work, network: Torus, mechanism: Mechanism
) -> tuple[float, float]:  # style: (seconds on the links per byte, latency)
    phases = nested_phases(network, work)
    chained_s = sum(phase.num_steps * network.sides[phase.side].latency_s for phase in phases)
    can_add = all(side.is_switched for side in network.sides)
    ways = []
    if mechanism.endpoint == "in-switch" or (mechanism.is_any_way and can_add):
        up_and_down_s = sum(2 * side.latency_s for side in network.sides)
        ways.append((switched_s_per_byte(network, work), up_and_down_s))
    if mechanism.is_any_way or mechanism.is_themis:
        ways.append((themis_s_per_byte(network, work), chained_s))
    if mechanism.is_any_way or not ways:
        ways.append((max(link_s_per_byte(network, phases)), chained_s))
    rates, latencies = zip(*ways, strict=True)
    return min(rates), min(latencies)


def _slowdown_frac(chip: Chip, num_cores: int) -> float:
    """Share of the cores that products lose: those held, and those of clusters that they break (measured, H200)."""
    units = chip.tensor.num_units
    whole, left = (num_clusters(units, min(held, units), chip.tensor.tiling) for held in (0, num_cores))
    return 1 - left / whole
