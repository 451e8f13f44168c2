"""Laws of measured times: what was predicted anyway changes nothing, and the best plan is the best under them too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.accuracy.profiled import measured_on, predicted_run_s, profiled
from dovetail.cost.costs import op_costs
from dovetail.cost.overrides import NO_KEY, row_keys
from dovetail.evaluate import Infeasible, Outcome, evaluate
from dovetail.hardware.catalog import chips
from dovetail.hardware.measured import BACKWARD, FORWARD, LeftOut, Measured, MeasuredOp, Profile
from dovetail.parallel.sharding import shard
from dovetail.search.objectives import objectives
from dovetail.search.planners.plan_space import batches
from dovetail.search.planners.planner import search_plans
from dovetail.step.measured_share import measured_share
from dovetail.workload.graph import Phase
from dovetail.workload.operators import DTYPES, OPERATORS, Unit
from tests.property.test_search_laws import CLUSTER, NUM_DEVICES, WORKLOAD, graph, some_choices, space_of

FEW = settings(max_examples=8, deadline=None)
CHIP = chips["h200-sxm"]()


def cool(cluster):
    """A cluster of equal devices that no power limit slows: measured times have their clock in them, predicted not."""
    chip = cluster.chip
    alike = replace(chip.calibration, clock_spread_frac=0.0)
    return replace(cluster, chip=replace(chip, tdp_w=1000 * chip.tdp_w, calibration=alike))


def measured_of(plan, chip, factors):
    """Every operator of a step by `plan`, with what we predict times a factor.

    Left out is what differs by more than a profile can see: a gradient that is added to one that stands takes longer
    than one of the same shape that is not.
    """
    found: dict[Any, Any] = {}
    unlike: set[Any] = set()
    cut = shard(WORKLOAD.training_graph(), plan)
    for stage in range(cut.num_stages):
        for _, block in cut.held(stage):
            ops = block.ops
            for row, (key, time_s) in enumerate(zip(row_keys(ops), op_costs(ops, chip).compute_s, strict=True)):
                if key != NO_KEY and time_s > 0 and ops.phase[row] != Phase.UPDATE:
                    _, _, before_s = found.setdefault(key, (ops, row, float(time_s)))
                    unlike |= {key} if abs(before_s / time_s - 1) > 1e-12 else set()
    measured = [
        _measured(ops, row, time_s * factors[index % len(factors)])
        for index, (key, (ops, row, time_s)) in enumerate(found.items())
        if key not in unlike
    ]
    return Measured(source="trace", ops=tuple(measured))


def _measured(ops, row, time_s):
    is_tensor = OPERATORS[ops.kind[row]].unit == Unit.TENSOR
    return MeasuredOp(
        kind=OPERATORS[ops.kind[row]].name,
        phase=FORWARD if ops.phase[row] in (Phase.FORWARD, Phase.RECOMPUTE) else BACKWARD,
        dtype=DTYPES[ops.math[row] if is_tensor else ops.dtype[row]],
        extents=tuple(ops.extents[row].tolist()),
        work_frac=float(ops.work_frac[row]),
        stride=int(ops.stride[row]),
        time_s=time_s,
    )


@st.composite
def some_plans(draw):
    space = space_of(draw(some_choices()))
    batch = draw(st.sampled_from(list(batches(space, graph(), NUM_DEVICES))))
    return space, batch.plan(draw(st.integers(0, len(batch) - 1)))


@FEW
@given(some_plans())
def test_times_that_are_what_is_predicted_change_nothing(drawn):
    _, plan = drawn
    on = cool(CLUSTER)
    before = evaluate(WORKLOAD, on, plan, has_changes=False)
    if isinstance(before, Infeasible):
        return
    measured = measured_of(plan, on.chip, (1.0,))
    profiled_too = replace(on, chip=replace(on.chip, measured=measured))
    after = evaluate(WORKLOAD, profiled_too, plan, has_changes=False)
    assert isinstance(after, Outcome)
    assert after.step.step_s == pytest.approx(before.step.step_s, rel=1e-9)
    assert measured_share(WORKLOAD.training_graph(), plan, profiled_too).measured_frac > 0.5


@FEW
@given(some_plans(), st.sampled_from([0.5, 2.0]))
def test_slower_operators_never_make_a_step_faster(drawn, factor):
    _, plan = drawn
    on = cool(CLUSTER)
    if isinstance(evaluate(WORKLOAD, on, plan, has_changes=False), Infeasible):
        return
    steps_s = []
    for times in (1.0, factor):
        measured = measured_of(plan, on.chip, (times,))
        cluster = replace(on, chip=replace(on.chip, measured=measured))
        found = evaluate(WORKLOAD, cluster, plan, has_changes=False)
        assert isinstance(found, Outcome)
        steps_s.append(found.step.step_s)
    assert (steps_s[1] - steps_s[0]) * (factor - 1) >= 0


@settings(max_examples=5, deadline=None)
@given(some_plans(), some_plans(), st.lists(st.floats(0.2, 5), min_size=3, max_size=7))
def test_no_plan_is_better_than_the_best_whatever_was_measured(drawn, other, factors):
    (space, plan), (_, profiled_plan) = drawn, other
    measured = measured_of(profiled_plan, CLUSTER.chip, factors)
    on = replace(CLUSTER, chip=replace(CLUSTER.chip, measured=measured))
    found = search_plans(WORKLOAD, on, space, objectives["time"], num_best=1, cluster_usd=1.0, progress=lambda *_: None)
    result = evaluate(WORKLOAD, on, plan, has_changes=False)
    if isinstance(result, Infeasible):
        return
    best = found.best[0]
    said = evaluate(WORKLOAD, on, best.plan, has_changes=False)
    assert isinstance(said, Outcome)
    assert best.step_s == pytest.approx(said.step.step_s, rel=1e-9)
    assert best.step_s <= result.step.step_s * (1 + 1e-9)


@FEW
@given(some_plans())
def test_the_share_that_was_measured_and_the_rest_are_all_of_compute(drawn):
    _, plan = drawn
    measured = measured_of(plan, CLUSTER.chip, (1.3,))
    some = replace(measured, ops=measured.ops[::2])
    on = replace(CLUSTER, chip=replace(CLUSTER.chip, measured=some))
    share = measured_share(WORKLOAD.training_graph(), plan, on)
    rest_s = sum(one.total_s for one in share.not_measured)
    assert share.measured_s + rest_s == pytest.approx(share.compute_s)
    assert 0 < share.measured_frac < 1
    assert share.num_unused == 0


KINDS = ("linear", "rmsnorm", "gelu", "softmax", "attention")


@st.composite
def profiles(draw):
    ops = []
    for kind in draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=6)):
        m, n, k = (draw(st.sampled_from([64, 256, 1024])) for _ in range(3))
        extents = (8, m, n, 64, 64) if kind == "attention" else (1, m, n, k if kind == "linear" else 1, 1)
        took_s, runs = draw(st.floats(1e-6, 1e-2)), draw(st.integers(1, 9))
        phase = draw(st.sampled_from([FORWARD, BACKWARD]))
        ops.append(
            MeasuredOp(
                kind=kind, phase=phase, dtype="bf16", extents=extents, time_s=took_s, num_runs=runs, num_kernels=runs
            )
        )
    left = LeftOut(name="aten::cat", why="not ours", total_s=draw(st.floats(0, 1e-2)), num_runs=1)
    return Profile(source="trace", device="NVIDIA H200", ops=tuple(ops), left_out=(left,))


@settings(max_examples=20, deadline=None)
@given(profiles())
def test_all_the_time_of_a_profile_is_compared_or_left_out(profile):
    found = profiled(profile, CHIP)
    left_s = sum(one.total_s for one in found.left_out) + sum(one.total_s for one in found.collectives)
    assert found.measured_s + left_s == pytest.approx(profile.busy_s)
    assert sum(row.op.num_runs for row in found.rows) == sum(op.num_runs for op in profile.ops)


@settings(max_examples=20, deadline=None)
@given(profiles())
def test_a_step_has_what_passes_between_kernels_and_a_profile_has_not(profile):
    measured = measured_on(profile, CHIP)
    for before, after in zip(sorted(profile.ops, key=_shape), sorted(measured.ops, key=_shape), strict=False):
        assert after.time_s >= min(op.time_s for op in profile.ops if _shape(op) == _shape(after))
        assert before.num_kernels > 0
    assert (predicted_run_s(measured.ops, CHIP) > 0).all()


def _shape(op):
    return (op.kind, op.phase, op.extents)
