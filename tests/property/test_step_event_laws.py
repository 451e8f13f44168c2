"""A step as events: whatever the plan, they add up to what the step is told to take, and no track does two things."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dovetail.errors import InvalidInput
from dovetail.evaluate import Infeasible, Outcome, evaluate
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.hardware.heterogeneous import AnyCluster, HeterogeneousCluster
from dovetail.hardware.host import Host
from dovetail.hardware.link import Link
from dovetail.parallel.plan import RECOMPUTE_POLICIES, Overlap, Plan
from dovetail.parallel.ranks import first_device, stage_of
from dovetail.report.step_tracks import step_tracks
from dovetail.step.pass_detail import UNITS, WAITS
from dovetail.step.pipelines import pipelines
from dovetail.step.step_events import PASSES, PIPELINE, StepEvents, step_events
from dovetail.units import GIGA, TERA
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

NUM_DEVICES, NEAR = 16, 1e-9
SCHEDULES = {"1f1b": 1, "interleaved": 2, "gpipe": 1, "zb-h1": 1, "zb-v": 2, "dualpipe": 2}
MODELS = ("llama3-8b", "mixtral-8x7b", "gpt2-345m")


@cache
def workload(name: str) -> Workload:
    model = models[name]()
    short = replace(model, architecture=replace(model.architecture, num_layers=8))  # type: ignore[type-var]
    return Workload(model=short, global_batch=64, seq=1024)


@cache
def cluster() -> Cluster:
    link = Link(bandwidth_bytes_per_s=25 * GIGA, latency_s=1e-5)
    host = Host(num_devices=8, link=link, memory_bytes=2 * TERA, memory_bytes_per_s=400 * GIGA)
    return replace(clusters["dgx-h100"].build(NUM_DEVICES), host=host)


@cache
def mixed() -> HeterogeneousCluster:
    parts = (clusters["dgx-h100"].build(8), clusters["dgx-a100"].build(8))
    return HeterogeneousCluster(
        name="mixed", pools=parts, between=Link(bandwidth_bytes_per_s=10 * GIGA, latency_s=1e-5)
    )


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    schedule = draw(st.sampled_from(sorted(SCHEDULES)))
    pp = draw(st.sampled_from((2, 4)))
    tp = draw(st.sampled_from((1, 2)))
    cp = draw(st.sampled_from((1, 2)))
    overlaps = {name: draw(st.booleans()) for name in ("data", "tensor", "context", "pipeline", "host")}
    return Plan(
        tensor_parallel=tp,
        sequence_parallel=tp > 1 and draw(st.booleans()),
        context_parallel=cp,
        context_comm_type=draw(st.sampled_from(("gather", "ring", "all-to-all"))) if cp > 1 else "gather",
        pipeline_parallel=pp,
        data_parallel=NUM_DEVICES // (pp * tp * cp),
        interleave=SCHEDULES[schedule] if schedule != "dualpipe" else 1,
        schedule="1f1b" if schedule == "interleaved" else schedule,
        zero_stage=draw(st.sampled_from((0, 1))),
        microbatch=draw(st.sampled_from((1, 2))),
        recompute=(draw(st.sampled_from(RECOMPUTE_POLICIES)),),
        offload_optimizer=draw(st.booleans()),
        overlap=Overlap(**overlaps),
    )


def outcome_of(name: str, plan: Plan, on: AnyCluster) -> Outcome:
    try:
        found = evaluate(workload(name), on, plan, has_changes=False)
    except InvalidInput:  # a schedule that cannot be so
        assume(False)
        raise
    assume(not isinstance(found, Infeasible))
    assert isinstance(found, Outcome)
    return found


def events_of(outcome: Outcome) -> StepEvents:
    graph = outcome.workload.training_graph()
    return step_events(graph, outcome.plan, outcome.cluster, outcome.workload.precision)


def check(outcome: Outcome) -> None:
    events = events_of(outcome)
    step_s = outcome.step.step_s
    worst_frac = max(pipelines[events.assembly.group.name].worst_short_frac)
    assert -NEAR * step_s <= events.later_s <= (worst_frac + NEAR) * step_s
    last_s = 0.0
    for stage in range(events.num_stages):
        found = list(events.stage(stage))
        own = [event for event in found if event.track == PIPELINE and event.category in PASSES]
        busy_s = sum(event.end_s - event.begin_s for event in own)
        assert busy_s == pytest.approx(events.timeline.busy_s[stage], rel=NEAR)
        last_s = max(last_s, *(event.end_s for event in found))
        check_operators(events, stage)
    assert last_s == pytest.approx(events.end_s, rel=NEAR)
    assert events.end_s - events.later_s == pytest.approx(step_s, rel=NEAR)


def check_operators(events: StepEvents, stage: int) -> None:
    """Operators and waits of the one microbatch take as long as its passes."""
    rows = events.timeline.order.devices[stage]
    mine = (rows[:, 2] == events.microbatch).nonzero()[0]
    detailed = [event for event in events.stage(stage) if event.track in (*UNITS.values(), WAITS)]
    told_s = sum(event.end_s - event.begin_s for event in detailed)
    run = events.assembly.group.stage_run[stage]
    forward_s, backward_s, _ = (float(s[0, run]) for s in events.assembly.stage_times(is_transfer_free=False).by_run)
    passed = len(mine) / (3 if any(rows[mine, 0] >= 2) else 2) / events.timeline.order.chunks_per_device
    assert passed == pytest.approx(1.0)
    assert told_s == pytest.approx(forward_s + backward_s, rel=NEAR)


def check_tracks(outcome: Outcome) -> None:
    """No slice of a track begins before the one before it ends."""
    for process in step_tracks(outcome).processes:
        assert len({track.name for track in process.tracks}) == len(process.tracks)
        for track in process.tracks:
            for one, following in zip(track.slices, track.slices[1:], strict=False):
                assert one.end_s <= following.begin_s
            assert all(one.begin_s >= 0 and one.end_s >= one.begin_s for one in track.slices)


@settings(max_examples=15)
@given(st.sampled_from(MODELS), plans())
def test_events_of_any_plan_add_up_to_its_step(name: str, plan: Plan) -> None:
    outcome = outcome_of(name, plan, cluster())
    check(outcome)
    check_tracks(outcome)


@settings(max_examples=10)
@given(plans())
def test_events_on_parts_of_a_cluster_add_up_too(plan: Plan) -> None:
    outcome = outcome_of("llama3-8b", replace(plan, offload_optimizer=False, schedule="1f1b", interleave=1), mixed())
    check(outcome)
    check_tracks(outcome)


@pytest.mark.parametrize("schedule", sorted(SCHEDULES))
def test_every_schedule_has_a_timeline(schedule: str) -> None:
    plan = Plan(
        tensor_parallel=2,
        pipeline_parallel=4,
        data_parallel=2,
        interleave=SCHEDULES[schedule] if schedule != "dualpipe" else 1,
        schedule="1f1b" if schedule == "interleaved" else schedule,
        zero_stage=1,
        microbatch=2,
    )
    outcome = evaluate(workload("llama3-8b"), cluster(), plan, has_changes=False)
    assert isinstance(outcome, Outcome)
    check(outcome)
    check_tracks(outcome)


@given(st.permutations(("tp", "cp", "dp", "pp")))
def test_the_first_device_of_a_stage_is_of_that_stage_and_stages_are_as_large(order: list[str]) -> None:
    plan = Plan(tensor_parallel=2, context_parallel=2, data_parallel=2, pipeline_parallel=2, axis_order=tuple(order))
    counts = [0, 0]
    for device in range(NUM_DEVICES):
        counts[stage_of(plan, cluster(), device)] += 1
    assert counts == [8, 8]
    for stage in range(2):
        first = first_device(plan, cluster(), stage)
        assert stage_of(plan, cluster(), first) == stage
        assert all(stage_of(plan, cluster(), device) != stage for device in range(first))
