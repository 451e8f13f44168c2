"""ACE's engine on a torus of four times two devices, by hand: partitions, state machines, and a chunk's way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.comm.endpoint.ace_engine import (
    ACE_CLOCK_HZ,
    AceDesign,
    access_j_per_byte,
    ace_mm2,
    ace_route,
    ace_station,
    engine_payload_bytes_per_s,
    fsm_crews,
    partition_slots,
    partitions_bytes,
    phase_s,
)
from dovetail.comm.endpoint.chunk_network import UNLIMITED, ChunkNetwork, Collective, Station, Stop
from dovetail.comm.torus import Side, Torus, Work, all_reduce_phases, all_to_all_phases, link_s_per_byte
from dovetail.units import KIBI, MEBI

TORUS = Torus(
    sides=(
        Side(name="a", num_devices=4, bandwidth_bytes_per_s=800.0, latency_s=1.0, is_both_ways=False),
        Side(name="b", num_devices=2, bandwidth_bytes_per_s=100.0, latency_s=2.0, is_both_ways=True),
    ),
    link_frac=0.5,
)
PHASES = all_reduce_phases(TORUS)
DESIGN = AceDesign(
    sram_bytes=8000.0, num_fsms=7, num_alus=2, alu_bytes_per_clock=0.5, num_banks=4, bank_bytes_per_clock=0.5,
    chunk_bytes=800.0, message_bytes=80.0, packet_bytes=8.0, clock_hz=100.0,
)  # fmt: skip
MEMORY = 100.0  # bytes/s


def test_an_all_reduce_scatters_inside_sums_across_a_share_and_gathers_inside():
    assert [phase.work for phase in PHASES] == [Work.REDUCE_SCATTER, Work.ALL_REDUCE, Work.ALL_GATHER]
    assert [phase.side for phase in PHASES] == [0, 1, 0]
    assert [phase.sent_frac for phase in PHASES] == [0.75, 2 * 0.5 / 4, 0.75]
    assert [phase.num_steps for phase in PHASES] == [3, 2, 3]
    assert [phase_s(TORUS, phase, 800.0) for phase in PHASES] == [(1.5, 3.0), (4.0, 4.0), (1.5, 3.0)]
    assert link_s_per_byte(TORUS, PHASES) == pytest.approx((2 * 0.75 / 400, 0.25 / 50))


def test_a_torus_has_the_product_of_its_sides():
    assert (TORUS.num_devices, TORUS.shape) == (8, "4x2")
    assert [TORUS.rate_bytes_per_s(side) for side in (0, 1)] == [400.0, 50.0]


def test_an_all_to_all_goes_its_hops_on_every_side():
    found = all_to_all_phases(TORUS)
    assert [phase.sent_frac for phase in found] == [(1 + 2 + 3) / 4, 1 / 2]
    assert [phase.num_steps for phase in found] == [3, 1]


@pytest.mark.parametrize(
    ("sizing", "weights"),
    [
        ("phase", (0.75, 0.25 / 4, 0.75, 1.0)),
        ("link", (400.0, 100.0 / 4, 400.0, MEMORY)),
        ("residence", (4.5, 8.0 / 4, 4.5, 800.0 / MEMORY)),
    ],
)
def test_partitions_take_their_share_of_the_sram(sizing, weights):
    design = AceDesign(sram_bytes=8000.0, chunk_bytes=800.0, message_bytes=80.0, packet_bytes=8.0, sizing=sizing)
    found = partitions_bytes(design, TORUS, PHASES, MEMORY)
    assert found == pytest.approx([8000 * weight / sum(weights) for weight in weights])
    chunks = (800, 200, 800, 800)
    slots = [max(1, int(size // chunk)) for size, chunk in zip(found, chunks, strict=True)]
    assert list(partition_slots(design, TORUS, PHASES, MEMORY)) == slots


def test_state_machines_go_where_a_chunk_stays_longest():
    assert fsm_crews(DESIGN, TORUS, PHASES) == (2, 3, 2)  # 4.5, 8 and 4.5 s of one chunk
    station = ace_station(DESIGN, TORUS, PHASES, MEMORY)
    assert station.num_servers == 2 + 4
    assert station.crews == (2, 3, 2, UNLIMITED)
    assert station.slots == partition_slots(DESIGN, TORUS, PHASES, MEMORY)


def test_a_chunk_goes_in_by_dma_through_all_phases_and_out_by_dma():
    """800 bytes: 8 s of memory and 4 of banks each way; adders take 100 bytes/s, banks 200, reads beside a write."""
    into, scatter, inner, gather, out = ace_route(DESIGN, TORUS, PHASES, 800.0, MEMORY)
    read, write, adders, banks = 2, 3, 4, 5
    assert into.holds == ((read, 8.0), (banks, 4.0))
    assert scatter.holds == ((0, 1.5), (adders, 6.0), (banks, 600 * 3 / 200))
    assert inner.holds == ((1, 4.0), (adders, 1.0), (banks, 200 * 2.5 / 200))
    assert gather.holds == ((0, 1.5), (adders, 0.0), (banks, 600 * 2 / 200))
    assert out.holds == ((write, 8.0), (banks, 4.0))
    route = (into, scatter, inner, gather, out)
    assert [stop.delay_s for stop in route] == [0.0, 3.0, 4.0, 3.0, 0.0]
    assert [stop.crew for stop in route] == [3, 0, 1, 2, 3]
    assert [stop.partition for stop in route] == [0, 0, 1, 2, 3]
    assert all(stop.does_stream for stop in route)


def test_the_engine_passes_what_its_slowest_part_does():
    """Banks 200 bytes/s over 6.125 of a byte: in and out, 1.75 sent and 2.625 read. Adders 25 over 0.875."""
    wide = replace(DESIGN, alu_bytes_per_clock=100.0, bank_bytes_per_clock=100.0)
    few_banks, few_adders = replace(wide, bank_bytes_per_clock=0.5), replace(wide, alu_bytes_per_clock=0.25, num_alus=1)

    def passed_bytes_per_s(design: AceDesign) -> float:
        return engine_payload_bytes_per_s(design, TORUS, PHASES, MEMORY)

    assert passed_bytes_per_s(few_banks) == pytest.approx(200 / (2 + 1.75 + 0.75 * 2 + 0.25 * 1.5 + 0.75))
    assert passed_bytes_per_s(few_adders) == pytest.approx(25 / (0.75 + 0.25 / 2))
    slots = partition_slots(DESIGN, TORUS, PHASES, MEMORY)
    crews = (2, 3, 2)
    under_way = [min(slot, crew) for slot, crew in zip(slots[:3], crews, strict=True)]
    assert passed_bytes_per_s(wide) == pytest.approx(
        min(n * 800 / s for n, s in zip(under_way, (4.5, 8.0, 4.5), strict=True))
    )


@pytest.mark.parametrize("does_stream", [False, True])
def test_chunks_hold_servers_in_turn_or_at_once_and_wait_for_latency(does_stream):
    """Two chunks over servers of 2 and 3 s, then 5 s of latency, with one worker or two."""
    stop = Stop(holds=((0, 2.0), (1, 3.0)), delay_s=5.0, crew=0, partition=0, does_stream=does_stream)
    for num_workers, end_s in ((1, 16.0 if does_stream else 20.0), (2, 11.0 if does_stream else 13.0)):
        network = ChunkNetwork(Station(num_servers=2, crews=(num_workers,), slots=(2,)))
        network.issue(Collective(name="a", num_chunks=2, route=(stop,), sent_bytes=7.0))
        network.drain()
        assert network.now_s == network.active_s == end_s
        assert network.busy_s == [4.0, 6.0]
        assert network.sent_bytes == 7.0


def test_silicon_is_sram_adders_state_machines_and_two_messages_a_port():
    """Cells of 0.127 um2 at 85 %, adders of 1360 um2 shrunk from 45 nm, 5000 gates of 0.5 um2, two-ported buffers."""
    um2 = 1e-6  # in mm2
    sram = 4 * MEBI * 8 * 0.127 * um2 / 0.85
    adders = 4 * 64 / 2 * 1360 * um2 * (28 / 45) ** 2
    fsms, ports = 16 * 5000 * 0.5 * um2, 2 * 6 * 8 * KIBI * 2 * 8 * 0.127 * um2
    assert ace_mm2(AceDesign()) == pytest.approx(sram + adders + fsms + ports)


def test_an_access_costs_more_with_the_root_of_the_memory():
    small = access_j_per_byte(32 * KIBI)
    assert small == pytest.approx(20e-12 / 8 * 28 / 45 * 0.81)
    assert access_j_per_byte(MEBI) == pytest.approx(small * 32**0.5)


def test_an_engine_moves_its_width_each_clock():
    assert AceDesign().alu_bytes_per_s == pytest.approx(4 * 64 * ACE_CLOCK_HZ)
    assert AceDesign().sram_bytes_per_s == pytest.approx(4 * 256 * ACE_CLOCK_HZ)
