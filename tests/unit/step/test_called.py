"""Collectives of a step: what the library selects for each, in events and in records, with the seconds of `network`."""

from __future__ import annotations

from typing import Any

import pytest

import dovetail as dv
from dovetail.hardware.clusters import clusters
from dovetail.parallel.plan import Plan
from dovetail.step.called import step_collectives
from dovetail.step.pass_detail import WAITS
from dovetail.step.step import assembly_of
from dovetail.step.step_events import PIPELINE, step_events
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

CLUSTER = clusters["dgx-h100"].build(16)
PLANS = {
    "tp 8": Plan(tensor_parallel=8, sequence_parallel=True, data_parallel=2, zero_stage=1),
    "zero 3": Plan(data_parallel=16, zero_stage=3),
    "pp 2": Plan(tensor_parallel=4, pipeline_parallel=2, data_parallel=2),
    "ring attention": Plan(context_parallel=8, context_comm_type="ring", data_parallel=2),
}


def workload() -> Workload:
    return Workload(model=models["gpt2-345m"](), global_batch=32, seq=1024, kernels="fused")


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_slices_of_collectives_have_algorithm_protocol_channels_and_bytes(plan):
    graph, precision = workload().training_graph(), workload().precision
    events = list(step_events(graph, plan, CLUSTER, precision).stage(0))
    told = [event for event in events if event.track not in (WAITS, PIPELINE) and "unit" not in event.track]
    assert told
    for event in told:
        notes = dict(event.notes)
        keys = {key.removesuffix(" 1") for key in notes}
        assert {"collective", "bytes", "num_ranks", "algorithm", "protocol"} <= keys, (event.name, notes)
        algorithm = notes.get("algorithm", notes.get("algorithm 1"))
        assert ("num_channels" in keys) == (algorithm != "p2p"), (event.name, notes)
        assert notes.get("protocol", notes.get("protocol 1")) in ("LL", "LL128", "Simple")


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_collectives_of_a_step_add_up_to_its_communication(plan):
    graph, precision = workload().training_graph(), workload().precision
    assembly = assembly_of(graph, plan, CLUSTER, precision)
    found = step_collectives(assembly, 0)
    assert len({(one.axis, one.collective, one.payload_bytes, one.num_ranks) for one in found}) == len(found)
    [columns], run = [assembly.columns], assembly.group.stage_run[0]
    work = columns.works.at(int(columns.work_of[0]), run)
    in_passes_s = sum(
        float(sum(way.blocking_s) + sum(way.overlappable_s)) for way in (work.forward, work.backward)
    ) * float(assembly.num_passes[0])
    sync_s = float(columns.grad_sync.reduce_s[0, run] + columns.grad_sync.gather_s[0, run])
    once_s = sync_s + float(assembly.tied_s[0])
    assert sum(one.num_calls * one.time_s for one in found) == pytest.approx(in_passes_s + once_s, rel=1e-9)


@pytest.mark.parametrize("plan", ["zero3", {"tensor_parallel": 8, "sequence_parallel": True, "zero_stage": 1}])
def test_network_gives_the_seconds_and_the_selection_of_the_collectives_in_a_step(plan: Any):
    answer = dv.simulate(model="gpt2-345m", cluster="dgx-h100", devices=8, plan=plan, global_batch=32, seq=1024)
    rows = answer.record["collectives"]
    assert rows
    for row in rows:
        one = dv.network(row["collective"], size=f"{row['size_bytes']:.0f} B", topology="dgx-h100x8").record
        for key in ("algorithm", "protocol", "num_channels", "num_ranks", "size_bytes"):
            assert one[key] == row[key], row
        assert one["time_s"] == pytest.approx(row["time_s"], rel=1e-9)


def test_where_links_alone_decide_nothing_is_selected():
    answer = dv.simulate(model="gpt2-345m", cluster="tpu-v4-pod", devices=8, plan="zero3", global_batch=32, seq=1024)
    assert answer.record["collectives"]
    for row in answer.record["collectives"]:
        assert row["algorithm"] is row["protocol"] is row["num_channels"] is None


def test_a_timeline_of_network_has_what_the_library_selects(tmp_path):
    file = tmp_path / "one.pftrace"
    dv.network("all-reduce", size="1 GiB", topology="dgx-h100x8", engine="events").to_perfetto(file)
    written = file.read_bytes()
    for words in (b"all-reduce: NVLS, Simple, 16 channels", b"num_channels", b"by the library"):
        assert words in written
    dv.network("all-reduce", size="1 GiB", topology="ring:8@50GB/s,500ns", engine="events").to_perfetto(file)
    assert b"by the library" not in file.read_bytes()
