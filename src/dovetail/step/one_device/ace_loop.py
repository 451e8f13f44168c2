"""Training iterations of one device, compute against chunks in flight, in the five configurations of the ACE paper."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from dovetail.comm.endpoint import SM_BYTES_PER_S
from dovetail.comm.endpoint.ace_engine import NUM_CHIP_SERVERS, AceDesign, ace_route, ace_station, phase_s
from dovetail.comm.endpoint.chunk_network import UNLIMITED, ChunkNetwork, Collective, Station, Stop
from dovetail.comm.torus import (
    Phase,
    Torus,
    all_reduce_phases,
    all_to_all_phases,
    link_s_per_byte,
    sent_per_byte,
)
from dovetail.step.one_device.training_program import Item, Program
from dovetail.units import GIGA, KIBI

NUM_SMS = 80
MEMORY_BYTES_PER_S = 900 * GIGA
URGENT, ORDINARY = 0, 1
NUM_PARTS = 40  # of an iteration, for utilisation over time
PART_TOLERANCE = 1e-9  # of a part: the least step, so that rounding never stands still
NUM_WARM_UP = 2  # iterations before the one that is measured; the second already repeats


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """How a device is divided: a static split, which compute keeps when no collective is in flight."""

    name: str
    endpoint: str
    memory_bytes_per_s: float
    num_sms: int
    compute_memory_bytes_per_s: float
    compute_sms: int
    overlaps: bool = True


CONFIGURATIONS = (
    Configuration(
        name="NoOverlap",
        endpoint="sm",
        memory_bytes_per_s=MEMORY_BYTES_PER_S,
        num_sms=NUM_SMS,
        compute_memory_bytes_per_s=MEMORY_BYTES_PER_S,
        compute_sms=NUM_SMS,
        overlaps=False,
    ),
    Configuration(
        name="CommOpt",
        endpoint="sm",
        memory_bytes_per_s=450 * GIGA,
        num_sms=6,
        compute_memory_bytes_per_s=450 * GIGA,
        compute_sms=74,
    ),
    Configuration(
        name="CompOpt",
        endpoint="sm",
        memory_bytes_per_s=128 * GIGA,
        num_sms=2,
        compute_memory_bytes_per_s=772 * GIGA,
        compute_sms=78,
    ),
    Configuration(
        name="ACE",
        endpoint="ace",
        memory_bytes_per_s=128 * GIGA,
        num_sms=0,
        compute_memory_bytes_per_s=772 * GIGA,
        compute_sms=80,
    ),
    Configuration(
        name="Ideal",
        endpoint="ideal",
        memory_bytes_per_s=0.0,
        num_sms=0,
        compute_memory_bytes_per_s=MEMORY_BYTES_PER_S,
        compute_sms=NUM_SMS,
    ),
)
BASELINES = ("NoOverlap", "CommOpt", "CompOpt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Iteration:
    """One iteration in steady state."""

    iteration_s: float
    compute_s: float
    sent_bytes: float
    active_s: float  # with a collective in flight or waiting
    link_bytes_per_s: float  # what the links could have carried of this mix of collectives
    profile_frac: tuple[float, ...] = ()  # utilisation in equal parts of the iteration

    @property
    def exposed_s(self) -> float:
        return self.iteration_s - self.compute_s

    @property
    def utilisation_frac(self) -> float:
        """Bytes sent over what links could carry while there was something to send."""
        return self.sent_bytes / (self.active_s * self.link_bytes_per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """Torus and endpoint as the event engine takes them."""

    torus: Torus
    configuration: Configuration
    design: AceDesign
    chunk_bytes: float = 64 * KIBI
    is_sram_partitioned: bool = True

    def station(self) -> Station:
        """ACE's partitions; for the others as many chunks in flight as would fill the same SRAM."""
        phases = all_reduce_phases(self.torus)
        num_servers, num_places = len(self.torus.sides) + NUM_CHIP_SERVERS, len(phases) + 1
        if self.configuration.endpoint == "ace" and self.is_sram_partitioned:
            return ace_station(self.design, self.torus, phases, self.configuration.memory_bytes_per_s)
        return Station(
            num_servers=num_servers,
            crews=(UNLIMITED,) * num_places,
            slots=(UNLIMITED,) * num_places,
            max_chunks=int(self.design.sram_bytes / self.chunk_bytes),
        )

    def collective(self, name: str, payload_bytes: float, phases: tuple[Phase, ...], urgency: int) -> Collective:
        num_chunks = max(1, math.ceil(payload_bytes / self.chunk_bytes))
        return Collective(
            name=name,
            num_chunks=num_chunks,
            route=self._route(phases, payload_bytes / num_chunks),
            sent_bytes=payload_bytes * sent_per_byte(phases),
            urgency=urgency,
        )

    def _route(self, phases: tuple[Phase, ...], chunk_bytes: float) -> tuple[Stop, ...]:
        share = self.configuration
        if share.endpoint == "ace":
            return self._ace_route(phases, chunk_bytes)
        feed, stops = len(self.torus.sides), []
        for index, phase in enumerate(phases):
            hold_s, delay_s = phase_s(self.torus, phase, chunk_bytes)
            holds = [(phase.side, hold_s)]
            if share.endpoint == "sm":
                rate = min(share.memory_bytes_per_s, share.num_sms * SM_BYTES_PER_S)
                holds.insert(0, (feed, chunk_bytes * phase.sent_frac * phase.num_reads / rate))
            stops.append(Stop(holds=tuple(holds), delay_s=delay_s, crew=index, partition=index))
        return tuple(stops)

    def _ace_route(self, phases: tuple[Phase, ...], chunk_bytes: float) -> tuple[Stop, ...]:
        """All-to-all has one phase a side; it takes the places of the all-reduce's phases on those sides."""
        route = ace_route(self.design, self.torus, phases, chunk_bytes, self.configuration.memory_bytes_per_s)
        last = len(all_reduce_phases(self.torus))
        if len(phases) == last:
            return route
        move = {len(phases): last}
        return tuple(
            replace(
                stop,
                crew=move.get(stop.crew, stop.crew),
                partition=move.get(stop.partition, stop.partition),
            )
            for stop in route
        )


@dataclass(slots=True)
class _Loop:
    """One device that runs `work` again and again."""

    work: Program
    fabric: Fabric
    is_improved: bool
    network: ChunkNetwork
    _made: dict[str, Collective] = field(default_factory=dict)

    def __post_init__(self) -> None:
        phases = all_reduce_phases(self.fabric.torus)
        for name, size in self.work.gradient_bytes:
            self._made[name] = self.fabric.collective(name, size, phases, ORDINARY)
        if self.work.all_to_all_bytes:
            across = all_to_all_phases(self.fabric.torus)
            for name in ("all-to-all", "all-to-all:dx"):
                self._made[name] = self.fabric.collective(name, self.work.all_to_all_bytes, across, URGENT)

    def iterate(self) -> None:
        held = [name for item in (*self.work.forward, *self.work.backward) if (name := self._run(item))]
        for name in held:
            self.network.issue(self._made[name])
        for name in held:
            self.network.wait(name)

    def _run(self, item: Item) -> str:
        """Waits, computes, issues; the name of a collective that is put off to the end of the iteration, or ''."""
        is_put_off = self.is_improved and item.waits == "all-to-all:dx"
        if item.waits and not is_put_off:
            self.network.wait(item.waits)
        self.network.advance(self.network.now_s + item.compute_s)
        if not item.issues:
            return ""
        is_gradient = not item.issues.startswith("all-to-all")
        if is_gradient and not self.fabric.configuration.overlaps:
            return item.issues
        self.network.issue(self._made[item.issues])
        if not self.fabric.configuration.overlaps:
            self.network.wait(item.issues)
        return ""


def simulated_iteration(work: Program, fabric: Fabric, *, is_improved: bool = False) -> Iteration:
    """An iteration of `work` in steady state: the forward pass of a layer waits for its gradients' all-reduce.

    `is_improved`: the embedding update does not wait for the gradient all-to-all (it works on the one before).
    """
    network = ChunkNetwork(fabric.station())
    loop = _Loop(work, fabric, is_improved, network)
    for _ in range(NUM_WARM_UP):
        loop.iterate()
    start_s, start_active_s, start_bytes = network.now_s, network.active_s, network.sent_bytes
    network.does_record = True
    loop.iterate()
    link_bytes_per_s = mixed_injection_bytes_per_s(work, fabric.torus)
    return Iteration(
        iteration_s=network.now_s - start_s,
        compute_s=work.compute_s,
        sent_bytes=network.sent_bytes - start_bytes,
        active_s=network.active_s - start_active_s,
        link_bytes_per_s=link_bytes_per_s,
        profile_frac=_profile_frac(network, fabric.torus, start_s, link_bytes_per_s),
    )


def mixed_injection_bytes_per_s(work: Program, torus: Torus) -> float:
    """Bytes a device sends per second when the side that all collectives of `work` together load most never idles."""
    reduced_bytes = sum(size for _, size in work.gradient_bytes)
    mix = ((reduced_bytes, all_reduce_phases(torus)), (2 * work.all_to_all_bytes, all_to_all_phases(torus)))
    sent_bytes = sum(size * sent_per_byte(phases) for size, phases in mix)
    sides = [link_s_per_byte(torus, phases) for _, phases in mix]
    busy_s = [
        sum(mix[i][0] * s_per_byte[side] for i, s_per_byte in enumerate(sides)) for side in range(len(torus.sides))
    ]
    return sent_bytes / max(busy_s)


def _profile_frac(network: ChunkNetwork, torus: Torus, start_s: float, link_bytes_per_s: float) -> tuple[float, ...]:
    """Utilisation of the links in NUM_PARTS equal parts since `start_s`; what ends later is the next iteration's."""
    part_s = (network.now_s - start_s) / NUM_PARTS
    sent_bytes = [0.0] * NUM_PARTS
    rates = [torus.rate_bytes_per_s(side) for side in range(len(torus.sides))]
    for server, from_s, to_s in network.spans:
        if server >= len(rates):
            continue
        at_s = from_s
        while at_s < to_s:
            index = int((at_s - start_s) / part_s)
            until_s = min(to_s, max(start_s + (index + 1) * part_s, at_s + part_s * PART_TOLERANCE))
            sent_bytes[index % NUM_PARTS] += (until_s - at_s) * rates[server]
            at_s = until_s
    return tuple(sent / (part_s * link_bytes_per_s) for sent in sent_bytes)
