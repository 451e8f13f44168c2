"""The training loop of ACE: programs from the cost model, chunks in flight, and waits."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from dovetail.comm.endpoint.ace_engine import AceDesign
from dovetail.comm.endpoint.chunk_network import UNLIMITED, ChunkNetwork
from dovetail.comm.torus import Side, Torus, ace_torus, all_reduce_phases, all_to_all_phases
from dovetail.hardware.catalog import chips
from dovetail.papers.ace_cases import ace_workloads
from dovetail.step.one_device.ace_loop import (
    CONFIGURATIONS,
    Fabric,
    mixed_injection_bytes_per_s,
    simulated_iteration,
)
from dovetail.step.one_device.training_program import Item, Program, chip_share, program
from dovetail.units import GIGA, KIBI, MEBI

RESNET, _, DLRM = range(3)


@cache
def work_of(index: int, name: str) -> Program:
    share = next(configuration for configuration in CONFIGURATIONS if configuration.name == name)
    chip = chip_share(chips["ace-npu"](), share.compute_memory_bytes_per_s, share.compute_sms)
    return program(ace_workloads()[index], chip)


def test_gradient_bytes_are_those_of_the_paper():
    sizes = {
        workload.name: sum(size for _, size in work_of(index, "ACE").gradient_bytes)
        for index, workload in enumerate(ace_workloads())
    }
    assert sizes["resnet-50"] == 51_005_824
    assert sizes["dlrm"] == 114_823_168
    assert sizes["gnmt"] / 2e6 == pytest.approx(160.7, abs=0.05)


def test_fifty_four_layers_of_resnet_are_reduced():
    assert len(work_of(RESNET, "ACE").gradient_bytes) == 54


def test_an_iteration_without_overlap_is_compute_and_then_the_collectives():
    work = work_of(RESNET, "NoOverlap").scaled(0.03)
    torus = ace_torus(4, 4, 4)
    fabric = Fabric(torus=torus, configuration=CONFIGURATIONS[0], design=AceDesign())
    exposed = simulated_iteration(work, fabric).exposed_s
    assert exposed == pytest.approx(51_005_824 * 2.25 / (300 * GIGA), rel=0.05)


def test_not_waiting_for_the_gradient_exchange_does_not_slow_compopt_on_128():
    work = work_of(DLRM, "CompOpt").scaled(0.2)
    fabric = Fabric(torus=ace_torus(4, 8, 4), configuration=CONFIGURATIONS[2], design=AceDesign())
    assert work.compute_s == pytest.approx(sum(item.compute_s for item in (*work.forward, *work.backward)))
    standard, improved = (simulated_iteration(work, fabric, is_improved=improved) for improved in (False, True))
    assert {item.waits for item in work.backward} == {"", "all-to-all:dx"}
    assert improved.iteration_s <= standard.iteration_s


def test_the_links_of_a_mix_are_full_when_its_busiest_side_is():
    work, torus = work_of(DLRM, "ACE"), ace_torus(4, 8, 4)
    mixed = mixed_injection_bytes_per_s(work, torus)
    reduced_bytes, across_bytes = 114_823_168, 2 * 4_194_304
    vertical_s = (reduced_bytes * 2 * 7 / 8 / 4 + across_bytes * 2.0) / (50 * GIGA)  # ring of 8: two hops a byte
    assert mixed == pytest.approx((reduced_bytes * 2.3125 + across_bytes * 4.5) / vertical_s)
    alone = mixed_injection_bytes_per_s(work_of(RESNET, "ACE"), torus)
    assert alone == pytest.approx(264.29 * GIGA, rel=1e-4)
    assert mixed < alone


def test_an_ace_of_one_chunk_in_every_partition_is_slower_than_one_without_partitions():
    work = work_of(RESNET, "ACE").scaled(0.03)
    torus, small = ace_torus(4, 4, 4), AceDesign(sram_bytes=MEBI, num_fsms=4)
    fabric = Fabric(torus=torus, configuration=CONFIGURATIONS[3], design=small)
    pooled = replace(fabric, is_sram_partitioned=False)
    assert simulated_iteration(work, fabric).iteration_s > 1.5 * simulated_iteration(work, pooled).iteration_s


def test_two_exchanges_and_every_gradient_are_issued_once_an_iteration():
    work = work_of(DLRM, "ACE")
    issued = [item.issues for item in (*work.forward, *work.backward) if item.issues]
    assert sorted(issued) == sorted([*(name for name, _ in work.gradient_bytes), "all-to-all", "all-to-all:dx"])


SMALL = Torus(
    sides=(
        Side(name="a", num_devices=4, bandwidth_bytes_per_s=400 * GIGA, latency_s=1e-6, is_both_ways=False),
        Side(name="b", num_devices=2, bandwidth_bytes_per_s=50 * GIGA, latency_s=2e-6, is_both_ways=True),
    )
)


def fabric_of(name: str) -> Fabric:
    [configuration] = [one for one in CONFIGURATIONS if one.name == name]
    return Fabric(torus=SMALL, configuration=configuration, design=AceDesign())


@pytest.mark.parametrize(
    ("name", "fed_bytes_per_s"), [("NoOverlap", 900 * GIGA), ("CommOpt", 450 * GIGA), ("CompOpt", 128 * GIGA)]
)
def test_cores_feed_a_chunk_from_memory_before_each_phase(name, fed_bytes_per_s):
    """Three chunks of 130 KiB: three quarters are read twice to scatter, a quarter 1.5 times to sum, and then once."""
    made = fabric_of(name).collective("x", 130 * KIBI, all_reduce_phases(SMALL), 1)
    assert (made.num_chunks, made.urgency) == (3, 1)
    assert made.sent_bytes == pytest.approx(130 * KIBI * 1.75)
    chunk = 130 * KIBI / 3
    parts = ((0, 0.75, 2.0, 400, 3e-6), (1, 0.25, 1.5, 50, 4e-6), (0, 0.75, 1.0, 400, 3e-6))
    for index, (stop, (side, sent, reads, giga, delay_s)) in enumerate(zip(made.route, parts, strict=True)):
        assert [server for server, _ in stop.holds] == [2, side]
        expected_s = (chunk * sent * reads / fed_bytes_per_s, chunk * sent / (giga * GIGA))
        assert [hold_s for _, hold_s in stop.holds] == pytest.approx(expected_s)
        assert stop.delay_s == pytest.approx(delay_s)
        assert (stop.crew, stop.partition) == (index, index)


def test_an_ideal_endpoint_takes_the_links_alone_and_a_payload_is_one_chunk_at_least():
    made = fabric_of("Ideal").collective("x", 10.0, all_reduce_phases(SMALL), 0)
    assert made.num_chunks == 1
    assert [[server for server, _ in stop.holds] for stop in made.route] == [[0], [1], [0]]


def test_an_all_to_all_by_ace_takes_the_places_of_phases_and_leaves_by_the_last():
    made = fabric_of("ACE").collective("x", 64 * KIBI, all_to_all_phases(SMALL), 0)
    assert [(stop.crew, stop.partition) for stop in made.route] == [(3, 0), (0, 0), (1, 1), (3, 3)]
    plain = fabric_of("ACE").collective("x", 64 * KIBI, all_reduce_phases(SMALL), 0)
    assert [(stop.crew, stop.partition) for stop in plain.route] == [(3, 0), (0, 0), (1, 1), (2, 2), (3, 3)]


def test_other_endpoints_have_as_many_chunks_in_flight_as_would_fill_the_sram_of_ace():
    station = fabric_of("CommOpt").station()
    assert station.max_chunks == 64  # 4 MiB of 64 KiB
    assert station.num_servers == 2 + 4
    assert station.crews == station.slots == (UNLIMITED,) * 4
    assert fabric_of("ACE").station().max_chunks == UNLIMITED


def program_of(*, waits: str = "w", issues: str = "w") -> Program:
    return Program(
        forward=(Item(name="f", compute_s=1e-3, waits=waits),),
        backward=(Item(name="b", compute_s=2e-3, issues=issues), Item(name="c", compute_s=1e-3)),
        gradient_bytes=(("w", 64.0 * KIBI),),
        all_to_all_bytes=0.0,
    )


def alone_s(name: str) -> float:
    fabric = fabric_of(name)
    network = ChunkNetwork(fabric.station())
    network.issue(fabric.collective("w", 64.0 * KIBI, all_reduce_phases(SMALL), 1))
    network.drain()
    return network.now_s


@pytest.mark.parametrize(("name", "exposed_frac"), [("NoOverlap", 1.0), ("Ideal", 0.0), ("ACE", 0.0)])
def test_an_iteration_waits_for_what_its_compute_does_not_cover(name, exposed_frac):
    found = simulated_iteration(program_of(), fabric_of(name))
    assert found.compute_s == pytest.approx(4e-3)
    assert found.exposed_s == pytest.approx(exposed_frac * alone_s(name))
    assert found.active_s == pytest.approx(alone_s(name))
    assert found.sent_bytes == pytest.approx(64 * KIBI * 1.75)
    assert found.link_bytes_per_s == pytest.approx(1.75 / max(1.5 / (400 * GIGA), 0.25 / (50 * GIGA)))
    assert found.utilisation_frac == pytest.approx(found.sent_bytes / (found.active_s * found.link_bytes_per_s))


def test_what_is_issued_last_is_waited_for_by_the_next_iteration():
    late = replace(program_of(), backward=(Item(name="b", compute_s=2e-3, issues="w"),))
    found = simulated_iteration(late, fabric_of("Ideal"))
    assert found.exposed_s == pytest.approx(alone_s("Ideal"))
