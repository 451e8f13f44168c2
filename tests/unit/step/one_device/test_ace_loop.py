"""The training loop of ACE: programs from the cost model, chunks in flight, and waits."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from dovetail.comm.endpoint.ace_engine import AceDesign
from dovetail.comm.torus import ace_torus
from dovetail.hardware.catalog import chips
from dovetail.papers.ace_cases import ace_workloads
from dovetail.step.one_device.ace_loop import (
    CONFIGURATIONS,
    Fabric,
    mixed_injection_bytes_per_s,
    simulated_iteration,
)
from dovetail.step.one_device.training_program import Program, chip_share, program
from dovetail.units import GIGA, MEBI

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
