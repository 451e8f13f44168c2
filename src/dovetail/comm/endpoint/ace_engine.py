"""ACE's own hardware: how its SRAM and FSMs are dealt to phases, what that sustains, its area and its power."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dovetail.comm.endpoint import REDUCED_FRAC, reduced_per_byte, use_of_phases
from dovetail.comm.endpoint.chunk_network import UNLIMITED, ChunkNetwork, Collective, Station, Stop
from dovetail.comm.torus import Phase, Torus, all_reduce_phases, sent_per_byte
from dovetail.errors import InvalidInput
from dovetail.hardware.endpoints import endpoints
from dovetail.units import BITS_PER_BYTE, GIGA, KIBI, MEBI, MICRO, NANO, PICO

ACE_CLOCK_HZ = 1.245 * GIGA  # ACE's NPU

# 28 nm, high density 6T cell 0.127 um2 (TSMC, recalled); periphery and banking halve the density of a macro.
SRAM_MM2_PER_BYTE = 0.127 * MICRO * BITS_PER_BYTE
SRAM_ARRAY_FRAC = 0.85  # of a compiled macro of 1 MB that is cells; estimate, so that 4 MB are 5.0 mm2
ADDER_MM2 = 1360 * MICRO  # one fp16 adder at 45 nm (Horowitz, ISSCC 2014)
LOGIC_45_TO_28 = (28 / 45) ** 2  # area of a gate
FSM_GATES = 5_000  # estimate: a programmable state machine with its counters and queues
GATE_MM2 = 0.5 * MICRO  # NAND2 at 28 nm (recalled)
BUFFER_MM2_PER_BYTE = 2 * SRAM_MM2_PER_BYTE  # port buffers are two-ported
ENERGY_45_TO_28 = 28 / 45 * 0.9**2  # capacitance with length, supply from 1.0 to 0.9 V
# Horowitz, ISSCC 2014, 45 nm: 10, 20 and 100 pJ for 8 bytes of an 8 KB, 32 KB and 1 MB memory, so as its square root.
SRAM_32K_J_PER_BYTE = 20 / 8 * PICO * ENERGY_45_TO_28
MACRO_BYTES = 128 * KIBI  # estimate: a bank of 1 MB is eight macros, of which an access opens one
FP16_ADD_J = 0.40 * PICO * ENERGY_45_TO_28  # Horowitz, ISSCC 2014
SRAM_LEAKAGE_W_PER_BYTE = 60 * NANO  # 28 nm; estimate, a quarter of a watt for 4 MB
FP16_BYTES = 2
SIZINGS = ("phase", "link", "residence")
NUM_CHIP_SERVERS = 4  # memory reads, memory writes, adders, SRAM banks


@dataclass(frozen=True, slots=True, kw_only=True)
class AceDesign:
    """The engine: memory, state machines, adders, and the grains it works in. Defaults are the paper's choice."""

    sram_bytes: float = 4 * MEBI
    num_fsms: int = 16
    num_alus: int = 4
    alu_bytes_per_clock: float = 64.0
    num_banks: int = 4
    bank_bytes_per_clock: float = 256.0  # four 64-byte ports, so that one bank feeds one ALU; estimate
    chunk_bytes: float = 64 * KIBI
    message_bytes: float = 8 * KIBI
    packet_bytes: float = 256.0
    num_ports: int = 6  # two local rings, two ways on each other side
    clock_hz: float = ACE_CLOCK_HZ
    sizing: str = "phase"  # what partitions grow with: see `partitions_bytes`

    def __post_init__(self) -> None:
        if self.sram_bytes < self.chunk_bytes or self.num_fsms < 1:
            raise InvalidInput(
                f"ACE needs an FSM and room for a chunk of {self.chunk_bytes:g} bytes; "
                f"got {self.num_fsms} FSMs and {self.sram_bytes:g} bytes"
            )
        if not self.packet_bytes <= self.message_bytes <= self.chunk_bytes:
            raise InvalidInput("packets must fit in messages and messages in chunks")
        if self.sizing not in SIZINGS:
            raise InvalidInput(f"partitions are sized by {', '.join(SIZINGS)}; got {self.sizing!r}", "sizing")

    @property
    def alu_bytes_per_s(self) -> float:
        return self.num_alus * self.alu_bytes_per_clock * self.clock_hz

    @property
    def sram_bytes_per_s(self) -> float:
        return self.num_banks * self.bank_bytes_per_clock * self.clock_hz


def partitions_bytes(
    design: AceDesign, torus: Torus, phases: tuple[Phase, ...], drain_bytes_per_s: float
) -> tuple[float, ...]:
    """SRAM of each phase and of the terminal partition: in proportion to phase bandwidth x phase chunk size.

    Sized by phase, the bandwidth is what the phase sends while the same payload streams through all of them. By link,
    it is what its links could carry: a side that two phases use gives each its half, and `drain_bytes_per_s` empties
    the terminal partition. By residence it is not the paper's rule but chunk size x time in the phase, as an engine
    built for its network would have it, where phases of small chunks have long ways.
    """
    if design.sizing == "phase":
        weights = [phase.sent_frac * phase.compute_slowdown_frac for phase in phases] + [1.0]
    elif design.sizing == "residence":
        weights = [phase.compute_slowdown_frac * sum(phase_s(torus, phase, design.chunk_bytes)) for phase in phases]
        weights.append(design.chunk_bytes / drain_bytes_per_s)
    else:
        uses = [sum(other.side == phase.side for other in phases) for phase in phases]
        rates = [torus.sides[phase.side].bandwidth_bytes_per_s / n for phase, n in zip(phases, uses, strict=True)]
        weights = [rate * phase.compute_slowdown_frac for rate, phase in zip(rates, phases, strict=True)]
        weights.append(drain_bytes_per_s)
    return tuple(design.sram_bytes * weight / sum(weights) for weight in weights)


def partition_slots(
    design: AceDesign, torus: Torus, phases: tuple[Phase, ...], drain_bytes_per_s: float
) -> tuple[int, ...]:
    """Chunks that each partition holds, at least one."""
    sizes = partitions_bytes(design, torus, phases, drain_bytes_per_s)
    chunks = [design.chunk_bytes * phase.compute_slowdown_frac for phase in phases] + [design.chunk_bytes]
    return tuple(max(1, int(size / chunk)) for size, chunk in zip(sizes, chunks, strict=True))


def phase_s(torus: Torus, phase: Phase, chunk_bytes: float) -> tuple[float, float]:
    """(time on the links, latency of its dependent steps) of one chunk that is alone in a phase."""
    hold_s = chunk_bytes * phase.sent_frac / torus.rate_bytes_per_s(phase.side)
    return hold_s, phase.num_steps * torus.sides[phase.side].latency_s


def fsm_crews(design: AceDesign, torus: Torus, phases: tuple[Phase, ...]) -> tuple[int, ...]:
    """FSMs of each phase: one each, the rest one by one to the phase whose chunks in flight lack most of them.

    In flight at full rate are residence x rate chunks (Little). With fewer FSMs than phases, some serve none: raises.
    """
    if design.num_fsms < len(phases):
        raise InvalidInput(f"{len(phases)} phases need as many FSMs; got {design.num_fsms}", "num_fsms")
    needs = [sum(phase_s(torus, phase, design.chunk_bytes)) for phase in phases]
    crews = [1] * len(phases)
    for _ in range(design.num_fsms - len(phases)):
        lacking = max(range(len(phases)), key=lambda i: needs[i] / crews[i])
        crews[lacking] += 1
    return tuple(crews)


def ace_station(design: AceDesign, torus: Torus, phases: tuple[Phase, ...], memory_bytes_per_s: float) -> Station:
    """Servers: links, memory reads, writes, adders, SRAM banks. Crews and partitions: one a phase, then DMA's."""
    return Station(
        num_servers=len(torus.sides) + NUM_CHIP_SERVERS,
        crews=(*fsm_crews(design, torus, phases), UNLIMITED),
        slots=partition_slots(design, torus, phases, memory_bytes_per_s),
    )


def ace_route(
    design: AceDesign, torus: Torus, phases: tuple[Phase, ...], chunk_bytes: float, memory_bytes_per_s: float
) -> tuple[Stop, ...]:
    """Into the first partition by DMA, phase by phase, out of the terminal partition by DMA.

    A phase's messages stream: its links, the adders and the SRAM banks work at once, and the slowest sets its time.
    """
    read, dma = len(torus.sides), len(phases)
    write, adders, banks = read + 1, read + 2, read + 3
    dma_s, bank_s = chunk_bytes / memory_bytes_per_s, chunk_bytes / design.sram_bytes_per_s
    stops = [Stop(holds=((read, dma_s), (banks, bank_s)), delay_s=0.0, crew=dma, partition=0, does_stream=True)]
    for index, phase in enumerate(phases):
        hold_s, delay_s = phase_s(torus, phase, chunk_bytes)
        sent_bytes = chunk_bytes * phase.sent_frac
        add_s = sent_bytes * REDUCED_FRAC.get(phase.work, 0.0) / design.alu_bytes_per_s
        access_s = sent_bytes * (phase.num_reads + 1) / design.sram_bytes_per_s
        holds = ((phase.side, hold_s), (adders, add_s), (banks, access_s))
        stops.append(Stop(holds=holds, delay_s=delay_s, crew=index, partition=index, does_stream=True))
    out = ((write, dma_s), (banks, bank_s))
    stops.append(Stop(holds=out, delay_s=0.0, crew=dma, partition=len(phases), does_stream=True))
    return tuple(stops)


def engine_payload_bytes_per_s(
    design: AceDesign, torus: Torus, phases: tuple[Phase, ...], memory_bytes_per_s: float
) -> float:
    """Payload per second that the engine passes: least of SRAM banks, adders, and what partitions and FSMs keep going.

    Of a phase as many chunks are under way as its partition holds and it has FSMs for, each for the time it is on the
    links and waits for their latency (Little): on long ways that is less than the links could carry.
    """
    slots = partition_slots(design, torus, phases, memory_bytes_per_s)
    crews = fsm_crews(design, torus, phases)
    rates = [design.sram_bytes_per_s / use_of_phases(endpoints["ace"], phases).sram_bytes]
    reduced = reduced_per_byte(phases)
    rates += [design.alu_bytes_per_s / reduced] if reduced else []
    for phase, num_slots, num_fsms in zip(phases, slots[:-1], crews, strict=True):
        rates.append(min(num_slots, num_fsms) * design.chunk_bytes / sum(phase_s(torus, phase, design.chunk_bytes)))
    return min(rates)


def simulated_network_bytes_per_s(
    design: AceDesign, torus: Torus, memory_bytes_per_s: float, payload_bytes: float = 64 * MEBI
) -> float:
    """Bytes sent per second during one all-reduce of `payload_bytes`, pipeline fill and drain included."""
    phases = all_reduce_phases(torus)
    network = ChunkNetwork(ace_station(design, torus, phases, memory_bytes_per_s))
    route = ace_route(design, torus, phases, design.chunk_bytes, memory_bytes_per_s)
    sent = payload_bytes * sent_per_byte(phases)
    num_chunks = round(payload_bytes / design.chunk_bytes)
    network.issue(Collective(name="all-reduce", num_chunks=num_chunks, route=route, sent_bytes=sent))
    network.drain()
    return sent / network.now_s


def ace_mm2(design: AceDesign) -> float:
    """Silicon at 28 nm: SRAM macros, adders, state machines and two messages of buffer at every port."""
    sram = design.sram_bytes * SRAM_MM2_PER_BYTE / SRAM_ARRAY_FRAC
    adders = design.num_alus * design.alu_bytes_per_clock / FP16_BYTES * ADDER_MM2 * LOGIC_45_TO_28
    fsms = design.num_fsms * FSM_GATES * GATE_MM2
    ports = 2 * design.num_ports * design.message_bytes * BUFFER_MM2_PER_BYTE
    return sram + adders + fsms + ports


def access_j_per_byte(memory_bytes: float) -> float:
    """Energy to read or write one byte of a memory of that size, at 28 nm."""
    return SRAM_32K_J_PER_BYTE * math.sqrt(memory_bytes / (32 * KIBI))


def ace_w(design: AceDesign, torus: Torus, network_bytes_per_s: float) -> float:
    """Power at 28 nm while sending `network_bytes_per_s`: SRAM and port buffers, additions, leakage.

    A byte sent and a byte received each go into a port's buffer and out of it.
    """
    phases = all_reduce_phases(torus)
    payload = network_bytes_per_s / sent_per_byte(phases)
    sram = payload * use_of_phases(endpoints["ace"], phases).sram_bytes * access_j_per_byte(MACRO_BYTES)
    ports = 4 * network_bytes_per_s * access_j_per_byte(2 * design.message_bytes)
    adds = network_bytes_per_s / 2 / FP16_BYTES * FP16_ADD_J
    return sram + ports + adds + design.sram_bytes * SRAM_LEAKAGE_W_PER_BYTE


ACE_NETWORK_BYTES_PER_S = 300 * GIGA  # the link limit of 4x4x4, at which the paper sizes the engine
