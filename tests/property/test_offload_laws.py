"""Offload to the host: what more of it does to a step, what bounds of the planner rest on, and its twin in events.

Offload of activations only ever adds time. Offload of the optimizer takes the update from the device and adds the
host's: a step without its update never gets shorter, the whole step gets shorter where a host updates faster.
"""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dovetail.errors import InvalidInput
from dovetail.evaluate import memory_use, with_host
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.hardware.host import Host
from dovetail.hardware.link import Link
from dovetail.parallel.check import check_plan
from dovetail.parallel.plan import RECOMPUTE_POLICIES, Overlap, Plan, columns_of
from dovetail.parallel.sharding import shard
from dovetail.search.objectives import objectives
from dovetail.search.planners.plan_space import PlanSpace, batches
from dovetail.search.planners.planner import search_plans
from dovetail.search.planners.refine import Job, base_plans, refined
from dovetail.step.offload_events import LayerTimes, Pass, passes_end_s
from dovetail.step.pass_order import Kind
from dovetail.step.pipelines import check_schedule
from dovetail.step.step import Step, step_times, training_step, training_steps
from dovetail.units import GIBI, GIGA, TERA
from dovetail.workload.graph import Graph
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

NUM_DEVICES, NEAR = 16, 1e-9
MODELS = ("llama3-8b", "mixtral-8x7b", "gpt2-345m")
SPEEDS = st.floats(1 * GIGA, 500 * GIGA)


@cache
def workload(name: str, num_layers: int = 8) -> Workload:
    model = models[name]()
    short = replace(model, architecture=replace(model.architecture, num_layers=num_layers))  # type: ignore[type-var]
    return Workload(model=short, global_batch=64, seq=1024)


@cache
def graph(name: str) -> Graph:
    return workload(name).training_graph()


def cluster(link: float = 25 * GIGA, memory: float = 400 * GIGA, num_devices: int = NUM_DEVICES) -> Cluster:
    host = Host(
        num_devices=8,
        link=Link(bandwidth_bytes_per_s=link, latency_s=1e-5),
        memory_bytes=2 * TERA,
        memory_bytes_per_s=memory,
    )
    return replace(clusters["dgx-h100"].build(num_devices), host=host)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    tensor, stages = draw(st.sampled_from((1, 2, 4))), draw(st.sampled_from((1, 2, 4)))
    schedule = draw(st.sampled_from(("1f1b", "gpipe", "zb-h1"))) if stages > 1 else "1f1b"
    return Plan(
        tensor_parallel=tensor,
        sequence_parallel=tensor > 1,
        pipeline_parallel=stages,
        interleave=draw(st.sampled_from((1, 2))) if schedule == "1f1b" and stages > 1 else 1,
        data_parallel=NUM_DEVICES // (tensor * stages),
        zero_stage=draw(st.integers(0, 3)),
        microbatch=draw(st.sampled_from((1, 2))),
        recompute=(draw(st.sampled_from(RECOMPUTE_POLICIES)),),
        schedule=schedule,
        overlap=Overlap(data=draw(st.booleans()), pipeline=draw(st.booleans())),
    )


def step(name: str, plan: Plan, on: Cluster) -> Step:
    try:
        check_plan(plan, graph(name), NUM_DEVICES)
        check_schedule(plan, plan.num_microbatches(graph(name).batch))
    except InvalidInput:
        assume(False)
    return training_step(graph(name), plan, on, workload(name).precision)


def same(a: Step, b: Step) -> bool:
    return all(getattr(a, field.name) == getattr(b, field.name) for field in fields(Step))


@settings(max_examples=30, deadline=None)
@given(
    name=st.sampled_from(MODELS),
    plan=plans(),
    link=SPEEDS,
    fracs=st.tuples(st.floats(0, 1), st.floats(0, 1)),
)
def test_more_activations_on_the_host_never_make_a_step_shorter(
    name: str, plan: Plan, link: float, fracs: tuple[float, float]
):
    few, many = (step(name, replace(plan, offload_activations_frac=f), cluster(link)) for f in sorted(fracs))
    plain = step(name, plan, cluster(link))
    assert plain.step_s <= few.step_s * (1 + NEAR)
    assert few.step_s <= many.step_s * (1 + NEAR)
    assert few.offload.exposed_s + few.offload.hidden_s <= (many.offload.exposed_s + many.offload.hidden_s) * (1 + NEAR)
    assert many.update_s == plain.update_s


@settings(max_examples=30, deadline=None)
@given(name=st.sampled_from(MODELS), plan=plans(), link=SPEEDS, memory=SPEEDS)
def test_an_update_on_the_host_changes_nothing_else_but_what_waits_for_its_gradients(
    name: str, plan: Plan, link: float, memory: float
):
    on = cluster(link, memory)
    here, there = step(name, plan, on), step(name, replace(plan, offload_optimizer=True), on)
    assert there.step_s - there.update_s >= (here.step_s - here.update_s) * (1 - NEAR)
    assert there.step_s - there.update_s - there.offload.exposed_s == pytest.approx(here.step_s - here.update_s)
    assert (there.compute_s, there.bubble_s, there.comm) == (here.compute_s, here.bubble_s, here.comm)


@settings(max_examples=20, deadline=None)
@given(name=st.sampled_from(MODELS), plan=plans(), frac=st.floats(0, 1), optimizer=st.booleans())
def test_a_faster_host_never_makes_a_step_longer_and_parts_add_up(name: str, plan: Plan, frac: float, optimizer: bool):
    plan = replace(plan, offload_activations_frac=frac, offload_optimizer=optimizer)
    slow = step(name, plan, cluster())
    for faster in (cluster(link=50 * GIGA), cluster(memory=800 * GIGA)):
        assert step(name, plan, faster).step_s <= slow.step_s * (1 + NEAR)
    waits_s = sum(comm.exposed_s for comm in slow.comm) + slow.offload.exposed_s
    parts_s = slow.compute_s + slow.host_s + waits_s + slow.bubble_s + slow.update_s
    assert parts_s == pytest.approx(slow.step_s)
    assert min(slow.offload.exposed_s, slow.offload.hidden_s) >= -NEAR


@settings(max_examples=20, deadline=None)
@given(name=st.sampled_from(MODELS), plan=plans(), link=SPEEDS)
def test_nothing_offloaded_is_no_offload_whatever_the_host(name: str, plan: Plan, link: float):
    without = clusters["dgx-h100"].build(NUM_DEVICES)
    assert same(step(name, plan, cluster(link)), step(name, plan, without))


@settings(max_examples=15, deadline=None)
@given(
    name=st.sampled_from(MODELS),
    some=st.lists(plans(), min_size=2, max_size=6),
    frac=st.sampled_from((0.0, 0.4)),
    optimizer=st.booleans(),
)
def test_many_plans_at_once_offload_as_each_does_alone(name: str, some: list[Plan], frac: float, optimizer: bool):
    chosen, alone = [], []
    for plan in some:
        plan = replace(plan, offload_activations_frac=frac, offload_optimizer=optimizer)
        try:
            check_plan(plan, graph(name), NUM_DEVICES)
            check_schedule(plan, plan.num_microbatches(graph(name).batch))
        except InvalidInput:
            continue
        chosen.append(plan)
        alone.append(step(name, plan, cluster()))
    assume(chosen)
    asked = (graph(name), columns_of(chosen), cluster(), workload(name).precision)
    times, together = step_times(*asked), training_steps(*asked)
    assert times.step_s == pytest.approx([one.step_s for one in alone], rel=NEAR)
    assert times.energy_j == pytest.approx([one.energy_j for one in alone], rel=NEAR)
    for index, one in enumerate(alone):
        assert together.offload.exposed_s[index] == pytest.approx(one.offload.exposed_s, rel=NEAR, abs=NEAR)
        assert together.offload.hidden_s[index] == pytest.approx(one.offload.hidden_s, rel=NEAR, abs=NEAR)
        assert together.update_s[index] == pytest.approx(one.update_s, rel=NEAR)


SPACE = PlanSpace(
    recompute=("none", "full"),
    tensor_parallel=(1, 2),
    pipeline_parallel=(1, 2),
    context_parallel=(1,),
    zero_stage=(0, 1),
    microbatch=(1, 2),
    interleave=(1,),
)


def small(hbm_bytes: float, host_bytes: float = 2 * TERA) -> Cluster:
    on = cluster(num_devices=4)
    assert isinstance(on.host, Host)
    chip = replace(on.chip, hbm=replace(on.chip.hbm, capacity_bytes=hbm_bytes))
    return replace(on, chip=chip, host=replace(on.host, memory_bytes=host_bytes))


@pytest.mark.parametrize(
    ("optimizer", "frac", "hbm_gib"), [((True,), (0.0,), 24), ((False, True), (0.0, 0.5), 12)], ids=["24", "12"]
)
def test_the_planner_finds_the_best_of_all_even_plans_that_device_and_host_hold(
    optimizer: tuple[bool, ...], frac: tuple[float, ...], hbm_gib: int
):
    of, on = workload("llama3-8b", 4), small(hbm_gib * GIBI, 8 * 12 * GIBI)
    space = replace(SPACE, offload_optimizer=optimizer, offload_activations_frac=frac)
    found = search_plans(of, on, space, objectives["time"], num_best=1, cluster_usd=1.0, progress=lambda *_: None)
    whole, best_s, num_out = of.training_graph(), np.inf, 0
    for part in space.by_offload:
        for table in batches(part, whole, on.num_devices):
            for row in range(len(table)):
                plan = table.plan(row)
                use = with_host(memory_use(shard(whole, plan), of.precision, on.usable_bytes), plan, on)
                num_out += use.need_bytes <= use.limit_bytes and not use.fits_host
                if use.fits:
                    best_s = min(best_s, training_step(whole, plan, on, of.precision).step_s)
    assert num_out > 0  # the host's memory matters here
    assert found.best
    assert found.best[0].step_s <= best_s * (1 + NEAR)
    assert found.bound_s <= found.best[0].step_s * (1 + NEAR)
    plan = found.best[0].plan
    assert with_host(memory_use(shard(whole, plan), of.precision, on.usable_bytes), plan, on).fits


@pytest.mark.parametrize("hbm_gib", [10, 14, 40])
def test_bounds_hold_where_the_optimizer_is_on_the_host(hbm_gib: int):
    of, on = workload("llama3-8b", 5), small(hbm_gib * GIBI)
    whole = of.training_graph()
    job = Job(graph=whole, cluster=on, precision=of.precision, policies=(0, RECOMPUTE_POLICIES.index("full")))
    for base in (Plan(pipeline_parallel=2, data_parallel=2), Plan(pipeline_parallel=4, microbatch=2)):
        plan = replace(base, offload_optimizer=True, zero_stage=1 if base.data_parallel > 1 else 0)
        bases = base_plans(job, columns_of([plan]), np.inf)
        found = refined(job, bases, np.inf, num_most=1)
        for each in found.found:
            assert bases.bounds_s[0] <= each.step_s
            alone = training_step(whole, each.plan, on, of.precision)
            assert each.step_s == pytest.approx(alone.step_s, rel=NEAR)
            assert with_host(memory_use(shard(whole, each.plan), of.precision, on.usable_bytes), each.plan, on).fits


def in_turns(num_ahead: int, num_microbatches: int) -> list[Pass]:
    """1F1B on a stage with so many microbatches ahead; with all of them ahead it is GPipe."""
    num_ahead = min(num_ahead, num_microbatches)
    order: list[Pass] = [(Kind.FORWARD, index) for index in range(num_ahead)]
    for index in range(num_microbatches):
        order.append((Kind.BACKWARD, index))
        order += [(Kind.FORWARD, num_ahead + index)] if num_ahead + index < num_microbatches else []
    return order


@settings(max_examples=150, deadline=None)
@given(
    num_layers=st.integers(1, 12),
    num_microbatches=st.integers(1, 10),
    num_ahead=st.integers(1, 10),
    layer_s=st.tuples(st.floats(0.1, 3), st.floats(0.1, 3)),
    copy_s=st.floats(0, 4),
)
def test_copies_played_out_layer_by_layer_agree_with_the_longer_of_compute_and_copies(
    num_layers: int, num_microbatches: int, num_ahead: int, layer_s: tuple[float, float], copy_s: float
):
    """Within two layers' waits a pass, which the closed form counts and buffers in transit spare, and one layer's way
    down and up again.
    """
    times = LayerTimes(num_layers=num_layers, forward_s=layer_s[0], backward_s=layer_s[1], copy_s=copy_s)
    played_s = passes_end_s(in_turns(num_ahead, num_microbatches), times)
    closed_form_s = num_microbatches * num_layers * sum(max(each_s, copy_s) for each_s in layer_s)
    spared_s = 2 * num_microbatches * sum(max(0.0, copy_s - each_s) for each_s in layer_s)
    assert closed_form_s - spared_s - NEAR <= played_s <= closed_form_s + 2 * copy_s + NEAR


@given(num_layers=st.integers(2, 12), num_microbatches=st.integers(2, 10), share=st.floats(0, 1))
def test_copies_that_take_no_longer_than_a_layer_are_hidden_when_played_out_too(
    num_layers: int, num_microbatches: int, share: float
):
    times = LayerTimes(num_layers=num_layers, forward_s=1.0, backward_s=2.0, copy_s=share)
    played_s = passes_end_s(in_turns(num_microbatches, num_microbatches), times)
    assert played_s == pytest.approx(num_microbatches * num_layers * 3.0)
