"""Endpoints: volumes on a torus, what each mechanism takes of the chip, ACE's engine, and chunks through a device."""

from __future__ import annotations

import pytest

from dovetail.comm.endpoint import (
    SM_RATES_BYTES_PER_S,
    Grant,
    fed_payload_bytes_per_s,
    network_bytes_per_s,
    use_of_phases,
)
from dovetail.comm.endpoint.ace_engine import (
    AceDesign,
    ace_mm2,
    ace_w,
    engine_payload_bytes_per_s,
    fsm_crews,
    partitions_bytes,
    simulated_network_bytes_per_s,
)
from dovetail.comm.endpoint.chunk_network import UNLIMITED, ChunkNetwork, Collective, Station, Stop
from dovetail.comm.themis import nested_phases, switched_s_per_byte, themis_s_per_byte
from dovetail.comm.torus import (
    ACE_SHAPES,
    Side,
    Torus,
    Work,
    ace_torus,
    all_reduce_phases,
    all_to_all_phases,
    ideal_injection_bytes_per_s,
    link_s_per_byte,
    reads_per_byte,
    sent_per_byte,
)
from dovetail.errors import InvalidInput, NotModelled
from dovetail.hardware.endpoints import endpoints
from dovetail.units import GIGA, MEBI

CUBE = ace_torus(4, 4, 4)
PHASES = all_reduce_phases(CUBE)


@pytest.mark.parametrize(
    ("num_devices", "sent", "injection", "ratio", "across"),
    [
        (16, 2.0, 400, 3.0, 2.5),
        (32, 2.125, 283.33, 3.1875, 3.0),
        (64, 2.25, 300, 3.375, 3.5),
        (128, 2.3125, 264.29, 3.46875, 4.5),
    ],
)
def test_volumes_are_those_of_the_paper(num_devices, sent, injection, ratio, across):
    torus = ace_torus(*ACE_SHAPES[num_devices])
    phases = all_reduce_phases(torus)
    assert sent_per_byte(phases) == pytest.approx(sent)
    assert ideal_injection_bytes_per_s(torus, phases) / GIGA == pytest.approx(injection, abs=0.01)
    assert reads_per_byte(phases) == pytest.approx(ratio)
    assert sent_per_byte(all_to_all_phases(torus)) == pytest.approx(across)


def test_a_baseline_of_450_gb_per_s_and_6_sms_fills_the_links_of_the_cube():
    assert network_bytes_per_s("sm", CUBE, PHASES, Grant(memory_bytes_per_s=450 * GIGA, num_sms=6)) == pytest.approx(
        300 * GIGA
    )


def test_a_baseline_of_128_gb_per_s_drives_85_and_ace_288():
    grant = Grant(memory_bytes_per_s=128 * GIGA, num_sms=2)
    assert network_bytes_per_s("sm", CUBE, PHASES, grant) / GIGA == pytest.approx(85.333, abs=0.01)
    assert network_bytes_per_s("ace", CUBE, PHASES, grant) / GIGA == pytest.approx(288)


def test_ace_needs_no_sms_and_a_baseline_without_them_sends_nothing():
    assert network_bytes_per_s("ace", CUBE, PHASES, Grant(num_sms=0)) == pytest.approx(300 * GIGA)
    assert network_bytes_per_s("sm", CUBE, PHASES, Grant(num_sms=0)) == 0


@pytest.mark.parametrize("name", sorted(set(endpoints.names()) - {"in-switch"}))
def test_more_memory_bandwidth_never_slows_any_endpoint(name):
    rates = [network_bytes_per_s(name, CUBE, PHASES, Grant(memory_bytes_per_s=m * GIGA)) for m in (50, 100, 200, 900)]
    assert rates == sorted(rates)
    assert rates[-1] <= 300.0001 * GIGA


def test_a_torus_cannot_reduce_in_its_switches():
    with pytest.raises(NotModelled):
        network_bytes_per_s("in-switch", CUBE, PHASES, Grant())


def test_an_unknown_endpoint_is_refused_with_a_hint():
    with pytest.raises(InvalidInput, match="did you mean"):
        fed_payload_bytes_per_s("sm-rings", PHASES, Grant())


def test_partitions_share_all_of_the_sram():
    assert sum(partitions_bytes(AceDesign(), CUBE, PHASES, 128 * GIGA)) == pytest.approx(4 * MEBI)
    assert sum(fsm_crews(AceDesign(), CUBE, PHASES)) == 16


def test_the_knee_of_sram_and_fsms_is_at_4_mib_and_16():
    torus = ace_torus(4, 4, 4, link_frac=0.94)

    def rate(mib: int, num_fsms: int) -> float:
        return simulated_network_bytes_per_s(AceDesign(sram_bytes=mib * MEBI, num_fsms=num_fsms), torus, 128 * GIGA)

    assert rate(4, 16) > 1.3 * rate(2, 16)
    assert rate(4, 16) > 1.5 * rate(4, 8)
    assert rate(8, 16) < 1.01 * rate(4, 16)
    assert rate(4, 32) < 1.01 * rate(4, 16)


@pytest.mark.parametrize("num_devices", ACE_SHAPES)
@pytest.mark.parametrize(("mib", "num_fsms"), [(1, 16), (2, 16), (4, 8), (4, 16), (8, 32)])
def test_what_partitions_and_fsms_keep_going_in_closed_form_is_what_events_pass(num_devices, mib, num_fsms):
    torus = ace_torus(*ACE_SHAPES[num_devices], link_frac=0.94)
    phases, design = all_reduce_phases(torus), AceDesign(sram_bytes=mib * MEBI, num_fsms=num_fsms)
    payload = min(128 * GIGA, engine_payload_bytes_per_s(design, torus, phases, 128 * GIGA))
    closed = min(ideal_injection_bytes_per_s(torus, phases), payload * sent_per_byte(phases))
    assert simulated_network_bytes_per_s(design, torus, 128 * GIGA) == pytest.approx(closed, rel=0.05)


def test_partitions_by_the_bandwidth_of_links_starve_a_ring_of_eight_and_those_of_phases_do_not():
    torus = ace_torus(4, 8, 4, link_frac=0.94)
    by_link, by_phase = (
        simulated_network_bytes_per_s(AceDesign(sizing=sizing), torus, 128 * GIGA) for sizing in ("link", "phase")
    )
    links = ideal_injection_bytes_per_s(torus, all_reduce_phases(torus))
    assert by_link < 0.5 * links
    assert by_phase > 0.85 * links


def test_area_and_power_are_near_the_papers():
    assert ace_mm2(AceDesign()) == pytest.approx(5.3, rel=0.05)
    assert ace_w(AceDesign(), CUBE, 300 * GIGA) == pytest.approx(4.3, rel=0.15)


def test_a_collective_alone_takes_at_least_its_link_time_and_events_agree_with_the_closed_form():
    torus = ace_torus(4, 4, 4)
    rate = simulated_network_bytes_per_s(AceDesign(), torus, 128 * GIGA)
    assert rate <= 288 * GIGA
    assert rate == pytest.approx(288 * GIGA, rel=0.05)


def _one_server() -> ChunkNetwork:
    return ChunkNetwork(Station(num_servers=1, crews=(UNLIMITED,), slots=(UNLIMITED,), max_chunks=1))


def _of(name: str, num_chunks: int, urgency: int = 1) -> Collective:
    stop = Stop(holds=((0, 1.0),), delay_s=0.0, crew=0, partition=0)
    return Collective(name=name, num_chunks=num_chunks, route=(stop,), sent_bytes=1.0, urgency=urgency)


def test_the_last_issued_goes_first_but_a_started_chunk_is_not_interrupted():
    network = _one_server()
    network.issue(_of("early", 3))
    network.issue(_of("late", 2))
    network.wait("late")
    assert network.now_s == 3.0
    network.wait("early")
    assert network.now_s == 5.0


def test_an_urgent_collective_passes_later_ordinary_ones():
    network = _one_server()
    network.issue(_of("exchange", 2, urgency=0))
    network.issue(_of("late", 2))
    network.wait("exchange")
    assert network.now_s == 2.0


def test_too_few_adders_bind():
    torus = ace_torus(4, 4, 4)
    few, many = (simulated_network_bytes_per_s(AceDesign(num_alus=n), torus, 128 * GIGA) for n in (1, 4))
    reduced = sum(p.sent_frac * {Work.REDUCE_SCATTER: 1.0, Work.ALL_REDUCE: 0.5}.get(p.work, 0.0) for p in PHASES)
    assert few == pytest.approx(AceDesign(num_alus=1).alu_bytes_per_s / reduced * sent_per_byte(PHASES), rel=0.05)
    assert many > 1.5 * few


def test_too_few_sram_banks_bind():
    torus = ace_torus(4, 4, 4)
    design = AceDesign(num_banks=1)
    bound = design.sram_bytes_per_s / use_of_phases(endpoints["ace"], PHASES).sram_bytes * sent_per_byte(PHASES)
    assert simulated_network_bytes_per_s(design, torus, 128 * GIGA) == pytest.approx(bound, rel=0.05)


def test_an_all_gather_by_ace_only_writes_and_a_reduce_scatter_only_reads():
    gather, scatter = (nested_phases(CUBE, work) for work in (Work.ALL_GATHER, Work.REDUCE_SCATTER))
    assert (
        use_of_phases(endpoints["ace"], gather).read_bytes,
        use_of_phases(endpoints["ace"], gather).write_bytes,
    ) == (0.0, 1.0)
    assert (
        use_of_phases(endpoints["ace"], scatter).read_bytes,
        use_of_phases(endpoints["ace"], scatter).write_bytes,
    ) == (1.0, 0.0)


@pytest.mark.parametrize("name", endpoints.names())
def test_every_endpoint_takes_nothing_negative_and_sends_something(name):
    for work in Work:
        use = use_of_phases(endpoints[name], nested_phases(CUBE, work))
        assert use.link_bytes > 0
        assert min(use.read_bytes, use.write_bytes, use.sm_bytes, use.sram_bytes) >= 0


@pytest.mark.parametrize("work", list(Work))
def test_an_order_for_each_chunk_never_makes_the_busiest_side_busier(work):
    for shape in ACE_SHAPES.values():
        torus = ace_torus(*shape)
        assert themis_s_per_byte(torus, work) <= max(link_s_per_byte(torus, nested_phases(torus, work))) * (1 + 1e-12)


def test_nested_phases_send_what_any_all_reduce_must():
    phases = nested_phases(CUBE, Work.ALL_REDUCE)
    assert sent_per_byte(phases) == pytest.approx(2 * 63 / 64)


def _switched(*sizes: int) -> Torus:
    sides = [
        Side(name=str(i), num_devices=n, bandwidth_bytes_per_s=GIGA, latency_s=0.0, is_both_ways=True, is_switched=True)
        for i, n in enumerate(sizes)
    ]
    return Torus(sides=tuple(sides))


def test_a_switch_that_adds_halves_an_all_reduce_between_many_devices():
    torus = _switched(1024)
    ring = max(link_s_per_byte(torus, nested_phases(torus, Work.ALL_REDUCE)))
    assert ring / switched_s_per_byte(torus, Work.ALL_REDUCE) == pytest.approx(2, rel=0.01)


@pytest.mark.parametrize(
    ("work", "up", "down"), [(Work.ALL_REDUCE, 1.0, 1.0), (Work.REDUCE_SCATTER, 1.0, 0.0), (Work.ALL_GATHER, 0.0, 1.0)]
)
def test_a_payload_goes_up_to_a_switch_that_adds_once_and_comes_down_once_both_ways_at_a_time(work, up, down):
    use = use_of_phases(endpoints["in-switch"], nested_phases(_switched(8), work))
    assert (use.link_bytes, use.read_bytes, use.write_bytes) == (1.0, up, down)


def test_rings_cannot_add():
    with pytest.raises(NotModelled):
        switched_s_per_byte(CUBE, Work.ALL_REDUCE)


def test_an_all_to_all_through_a_switch_takes_one_hop():
    assert sent_per_byte(all_to_all_phases(_switched(8))) == pytest.approx(7 / 8)


@pytest.mark.parametrize("work", list(Work))
def test_switches_that_add_take_neither_cores_nor_sram(work):
    use = use_of_phases(endpoints["in-switch"], nested_phases(_switched(8), work))
    assert (use.sm_bytes, use.sram_bytes) == (0.0, 0.0)


def test_an_all_to_all_has_nothing_for_switches_to_add():
    use = use_of_phases(endpoints["in-switch"], all_to_all_phases(_switched(8)))
    assert use.read_bytes == use.write_bytes == use.link_bytes == pytest.approx(7 / 8)
    assert switched_s_per_byte(_switched(8), Work.ALL_TO_ALL) == pytest.approx(7 / 8 / GIGA)


def test_a_server_is_busy_for_as_long_as_chunks_hold_it():
    network = _one_server()
    network.issue(_of("early", 3))
    network.wait("early")
    network.advance(10.0)
    assert network.busy_s == [3.0]


def test_twice_the_state_machines_take_as_many_gates_more():
    more_mm2 = ace_mm2(AceDesign(num_fsms=32)) - ace_mm2(AceDesign(num_fsms=16))
    assert more_mm2 == pytest.approx(16 * 5000 * 0.5e-6)  # style: gates of half a um2 at 28 nm, in mm2


@pytest.mark.parametrize(
    "more", [{"sram_bytes": 8 * MEBI}, {"num_alus": 8}, {"num_ports": 12}, {"message_bytes": 16 * 1024.0}], ids=str
)
def test_more_of_any_part_of_ace_takes_more_silicon(more):
    assert ace_mm2(AceDesign(**more)) > ace_mm2(AceDesign())


def test_a_side_that_two_phases_use_gives_each_partition_half_of_its_links():
    """Two phases of the cube's all-reduce are local; others, and the drain, have a side or a memory of their own."""
    drain_bytes_per_s = 100 * GIGA
    sizes = partitions_bytes(AceDesign(sizing="link"), CUBE, PHASES, drain_bytes_per_s)
    num_uses = [sum(1 for other in PHASES if other.side == phase.side) for phase in PHASES]
    assert sorted(num_uses) == [1, 1, 2, 2]
    rates = [CUBE.sides[phase.side].bandwidth_bytes_per_s / num for phase, num in zip(PHASES, num_uses, strict=True)]
    weights = [rate * phase.compute_slowdown_frac for rate, phase in zip(rates, PHASES, strict=True)]
    for size, weight in zip(sizes, [*weights, drain_bytes_per_s], strict=True):
        assert size == pytest.approx(4 * MEBI * weight / (sum(weights) + drain_bytes_per_s))


def test_a_core_of_hopper_reads_two_thirds_of_what_its_copies_move():
    for chip in ("h100-sxm", "h200-sxm"):
        assert SM_RATES_BYTES_PER_S[chip] == pytest.approx(35.27 * GIGA, rel=1e-3)  # 52.9 GB/s measured on one H200


def test_themis_gives_two_equal_sides_as_much_to_do():
    """Of two sides of four, the first of an order sends 3/4 and the second 3/4 of a quarter; chunks take turns."""
    for work in (Work.REDUCE_SCATTER, Work.ALL_GATHER):
        assert themis_s_per_byte(_switched(4, 4), work) == pytest.approx((3 / 4 + 3 / 16) / 2 / GIGA)
