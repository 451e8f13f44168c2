"""A step as events: what each event says of itself, and operators against the costs they are told from."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

import pytest

from dovetail.cost.op_cost import LIMITS
from dovetail.hardware.clusters import clusters
from dovetail.parallel.plan import Overlap, Plan
from dovetail.step.pass_detail import UNITS, WAITS, Spell
from dovetail.step.stage_operators import StageOperator, stage_operators
from dovetail.step.step_events import BACK, ON, PIPELINE, Event, StepEvents, _dealt, step_events
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

CLUSTER = clusters["dgx-h100"].build(8)
PLAN = Plan(pipeline_parallel=2, data_parallel=4, tensor_parallel=1, recompute=("none",))
NUM_MICROBATCHES = 4


@cache
def workload() -> Workload:
    model = models["gpt2-345m"]()
    short = replace(model, architecture=replace(model.architecture, num_layers=4))  # type: ignore[type-var]
    return Workload(model=short, global_batch=4 * NUM_MICROBATCHES, seq=1024, kernels="fused")


@cache
def events(plan: Plan = PLAN) -> StepEvents:
    return step_events(workload().training_graph(), plan, CLUSTER, workload().precision)


def stage(number: int, plan: Plan = PLAN) -> list[Event]:
    return list(events(plan).stage(number))


@pytest.mark.parametrize("number", [0, 1])
def test_operators_of_the_microbatch_are_those_of_the_stage_each_as_often_as_its_block_repeats(number):
    told: Counter[tuple[str, str, str]] = Counter()
    told_s: Counter[tuple[str, str, str]] = Counter()
    for event in stage(number):
        if event.track in UNITS.values():
            notes = dict(event.notes)
            key = (str(notes["pass"]), str(notes["block"]), event.name)
            told[key] += 1
            told_s[key] += event.end_s - event.begin_s  # type: ignore[assignment]
            assert notes["limited_by"] in LIMITS
            assert event.category == event.track
    full: Counter[tuple[str, str, str]] = Counter()
    full_s: Counter[tuple[str, str, str]] = Counter()
    for one in operators(number):
        if one.phase != "update":
            key = ("forward" if one.phase == "forward" else "backward", one.block, one.name)
            full[key] += one.num_runs // NUM_MICROBATCHES
            full_s[key] += one.total_s / NUM_MICROBATCHES  # type: ignore[assignment]
    assert told == full
    for key, own_s in full_s.items():  # at the clock that power leaves, which is at most full
        assert own_s <= told_s[key] * (1 + 1e-9) < 2 * own_s


def operators(number: int) -> tuple[StageOperator, ...]:
    return stage_operators(workload().training_graph(), PLAN, CLUSTER, number, workload().precision)


@pytest.mark.parametrize("number", [0, 1])
def test_operators_of_a_stage_run_once_a_microbatch_and_layer_and_updates_once_a_layer(number):
    num_layers = {"layer": 2} | dict.fromkeys({one.block for one in operators(number)} - {"layer"}, 1)
    for one in operators(number):
        assert one.num_runs == num_layers[one.block] * (1 if one.phase == "update" else NUM_MICROBATCHES)
        assert one.compute_s > 0
        assert one.total_s == one.num_runs * one.compute_s
        assert one.limit in LIMITS


def test_what_takes_no_time_is_no_operator_of_a_stage():
    graph = workload().training_graph()
    chip = CLUSTER.chip
    free = replace(CLUSTER, chip=replace(chip, calibration=replace(chip.calibration, launch_s=0.0)))
    [index] = [i for i, block in enumerate(graph.blocks) if block.is_layer]
    ops = graph.blocks[index].ops
    row = ops.names.index("norm_1")
    extents = ops.extents.copy()
    extents[row] = 0
    blocks = list(graph.blocks)
    blocks[index] = replace(blocks[index], ops=replace(ops, extents=extents))
    before, after = (
        [one for one in stage_operators(each, PLAN, free, 0, workload().precision) if one.name == "norm_1"]
        for each in (graph, replace(graph, blocks=tuple(blocks)))
    )
    assert len(after) == len(before) - 1


def test_stages_hand_on_every_microbatch_as_its_pass_ends_and_nothing_beyond_the_ends():
    plan = replace(PLAN, overlap=Overlap(pipeline=True))
    transfer_s = float(events(plan).assembly.transfer_s[0])
    assert transfer_s > 0
    for number, track, other, word in ((0, ON, 1, "forward"), (1, BACK, 0, "backward")):
        passes = {dict(event.notes)["microbatch"]: event for event in stage(number, plan) if event.category == word}
        sent = [
            event for event in stage(number, plan) if event.track in (ON, BACK) and "microbatch" in dict(event.notes)
        ]
        assert {event.track for event in sent} == {track}
        assert sorted(dict(event.notes)["microbatch"] for event in sent) == list(range(NUM_MICROBATCHES))
        for event in sent:
            notes = dict(event.notes)
            assert notes["to_stage"] == other
            assert event.begin_s == passes[notes["microbatch"]].end_s
            assert event.end_s == event.begin_s + transfer_s


def test_transfers_that_are_waited_for_are_part_of_passes_and_no_events_of_their_own():
    plan = replace(PLAN, overlap=Overlap(pipeline=False))
    found = stage(0, plan)
    assert not [event for event in found if event.track in (ON, BACK) and "microbatch" in dict(event.notes)]
    handed_s = [e.end_s - e.begin_s for e in found if e.track == WAITS and e.name == "handing on"]
    assert handed_s == pytest.approx([float(events(plan).assembly.transfer_s[0])] * 2)


def test_a_spell_across_passes_is_cut_at_their_ends_and_the_last_may_run_over():
    spell = Spell(name="x", track="t", begin_s=1.5, end_s=7.0, block="layer", limit="hbm")
    found = list(_dealt(spell, [(10.0, 12.0), (20.0, 22.0), (30.0, 32.0)], "forward"))
    assert [(event.begin_s, event.end_s) for event in found] == [(11.5, 12.0), (20.0, 22.0), (30.0, 33.0)]
    assert {event.notes for event in found} == {(("pass", "forward"), ("block", "layer"), ("limited_by", "hbm"))}
    bare = replace(spell, begin_s=2.0, end_s=4.0, block="", limit="")
    [event] = _dealt(bare, [(10.0, 12.0), (20.0, 22.0), (30.0, 32.0)], "backward")
    assert (event.begin_s, event.end_s, event.notes) == (20.0, 22.0, (("pass", "backward"),))


def test_the_step_ends_with_what_is_exchanged_once_and_the_update_one_after_the_other():
    found, assembly = events(), events().assembly
    pipeline_s = found.timeline.pipeline_s
    for number in (0, 1):
        own = [e for e in stage(number) if e.track == PIPELINE and e.begin_s >= pipeline_s]
        ends = [event.name for event in own]
        assert ends[-1] == "update"
        assert own[-1].begin_s == pytest.approx(pipeline_s + float((assembly.tied_s + assembly.synced_s)[0]))
    assert max(e.end_s for n in (0, 1) for e in stage(n)) == pytest.approx(found.end_s)


@pytest.mark.parametrize("number", [0, 1])
def test_what_of_a_gradient_sync_is_hidden_ends_with_the_last_pass_and_the_rest_is_waited_for(number):
    plan = replace(PLAN, zero_stage=1)
    found, assembly = events(plan), events(plan).assembly
    run = assembly.group.stage_run[number]
    hidden_s, exposed_s = float(assembly.hidden_s[0, run]), float(assembly.exposed_s[0, run])
    assert hidden_s > 0
    synced = [event for event in stage(number, plan) if event.category == "dp"]
    passes_end_s = max(event.end_s for event in stage(number, plan) if event.category == "backward")
    [beside] = [event for event in synced if event.track != "dp"]
    assert (beside.begin_s, beside.end_s) == pytest.approx((passes_end_s - hidden_s, passes_end_s))
    begin_s = found.timeline.pipeline_s + float(assembly.tied_s[0])
    waited = [(event.begin_s, event.end_s) for event in synced if event.track == "dp"]
    assert waited == [(begin_s, begin_s + exposed_s)] * (exposed_s > 0)


def test_a_step_played_out_ends_as_much_later_as_its_pipeline_does():
    found = events()
    pipeline_s = float(found.assembly.pipeline_s[0])
    assert found.later_s == pytest.approx(found.timeline.pipeline_s - pipeline_s, abs=1e-9 * pipeline_s)
    assert found.num_passes(0) == 2 * NUM_MICROBATCHES
    assert found.microbatch == NUM_MICROBATCHES // 2
