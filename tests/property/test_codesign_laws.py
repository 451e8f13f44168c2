"""Chip and plan together: many chips cost what each does, no bound is above what it bounds, pruning loses nothing."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.cost.area import silicon
from dovetail.cost.columns import chip_columns
from dovetail.cost.inventory import inventory
from dovetail.cost.price import price
from dovetail.cost.tdp import tdp
from dovetail.errors import InvalidInput
from dovetail.evaluate import memory_use
from dovetail.hardware.catalog import chips
from dovetail.plan.check import check_plan
from dovetail.plan.plan import Overlap, Plan
from dovetail.plan.shard import shard
from dovetail.schedule.step import even_times, training_step
from dovetail.search.codesign.answers import base_answer, only_plan, separate, thumb_plans, with_reference
from dovetail.search.codesign.joint import Hands, joint_search, own_hands
from dovetail.search.codesign.networks import NETWORKS
from dovetail.search.codesign.question import Budget, JointQuestion, places_of, system_space, systems_at
from dovetail.search.codesign.refining import RefinedSystem, refined_system, system_at
from dovetail.search.codesign.rows import Rows, refined_of, score_of
from dovetail.search.codesign.scoring import Scorer, SystemScore
from dovetail.search.codesign.systems import (
    BY_SIZE,
    NETWORK,
    built_systems,
    has_own_buffers,
    network_of,
    system_chip,
    system_of,
)
from dovetail.search.metrics import ChipFigures, metrics
from dovetail.search.space import Point
from tests.codesign_questions import BASES, CASES, PLANS, VALUES, known_to, question, some_values

ROUNDING = 1e-9
SEARCHED = ("dense", "tied", "experts")  # short to search; of images, plans are bounded and timed alone
SEEDS = st.integers(0, 2**20)


@cache
def wide(case: str, base: str, network: str, metric: str = "throughput") -> Scorer:
    """Of a space that random systems are drawn from."""
    values = {name: some[1:3] if name != "num_devices" else some for name, some in VALUES.items()}
    return Scorer(question((case,), values, base=base, network=network, metric=metric))


def sampled(scorer: Scorer, rng: Random, num: int) -> list[Point]:
    return [scorer.question.space.sample(rng) for _ in range(num)]


# --- many chips at once are one chip at a time ------------------------------------------------------------------------


@settings(max_examples=10)
@given(case=st.sampled_from(CASES), base=st.sampled_from(BASES), network=st.sampled_from(sorted(NETWORKS)), seed=SEEDS)
def test_plans_on_many_chips_at_once_take_what_each_takes_alone(case, base, network, seed):
    scorer, rng = wide(case, base, network), Random(seed)
    asked = scorer.question
    points = sampled(scorer, rng, 3)
    one = system_at(asked, points[0])
    same = {name: one[name] for name in NETWORK}
    systems = [system_at(asked, point) | same for point in points]
    frame = scorer.frame(0, *network_of(one))
    built = built_systems(asked.base, {name: np.array([one[name] for one in systems]) for name in systems[0]})
    base_rows = np.array(rng.sample(range(len(frame.bases)), min(3, len(frame.bases))))
    plans, first = frame.some(base_rows)
    policy = rng.randrange(len(frame.policies))
    works = plans.on(built.chips, built.rows)
    chip = np.array([rng.randrange(len(points)) for _ in base_rows])
    times = even_times(plans.pairs(works, first + policy, chip, frame.cluster))
    for row, at in enumerate(chip):
        plan = frame.plans.plan(int(base_rows[row]) * len(frame.policies) + policy)
        alone = training_step(
            frame.graph, plan, frame.on(system_chip(asked.base, systems[at])), frame.workload.precision
        )
        assert times.step_s[row] == pytest.approx(alone.step_s, rel=ROUNDING)
        assert times.energy_j[row] == pytest.approx(alone.energy_j, rel=ROUNDING)


@settings(max_examples=60)
@given(base=st.sampled_from((*BASES, "nvdla-like")), seed=SEEDS)
def test_a_system_in_columns_is_its_chip_field_by_field(base, seed):
    chip, rng = chips[base](), Random(seed)
    systems = [{name: float(rng.choice(values)) for name, values in VALUES.items()} for _ in range(4)]
    systems[0]["core_buffer_kib"] = BY_SIZE
    built = built_systems(chip, {name: np.array([one[name] for one in systems]) for name in VALUES})
    alone = [system_chip(chip, one) for one in systems]
    columns = chip_columns(alone)
    for field in fields(columns):
        ours, theirs = getattr(built.chips, field.name), getattr(columns, field.name)
        if field.name == "calibration":
            assert ours.keys() == theirs.keys()
            assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
        elif isinstance(ours, np.ndarray):
            np.testing.assert_allclose(ours, theirs, rtol=ROUNDING, err_msg=field.name)
        else:
            assert ours == theirs, field.name
    for row, one in enumerate(alone):
        assert built.area_mm2[row] == pytest.approx(silicon(inventory(one)).total_mm2, rel=ROUNDING)
        assert built.price_usd[row] == pytest.approx(price(one).total_usd, rel=ROUNDING)
        assert built.hbm_bytes[row] == one.hbm.capacity_bytes
        assert built.power_w[row] == one.tdp_w
    same_clock = [row for row, one in enumerate(alone) if one.clock_hz == chip.clock_hz]
    for row in same_clock:  # another clock has another voltage, which `tdp` does not know of
        assert built.power_w[row] == pytest.approx(tdp(alone[row]).total_w, rel=ROUNDING)


@pytest.mark.parametrize("base", [*BASES, "nvdla-like"])
def test_a_system_as_the_base_has_it_is_the_base(base):
    chip = chips[base]()
    built = system_chip(chip, system_of(chip, 8))
    assert (built.tensor.num_units, built.tensor.num_rows, built.tensor.num_cols) == (
        chip.tensor.num_units,
        chip.tensor.num_rows,
        chip.tensor.num_cols,
    )
    for name in ("sram", "hbm", "clock_hz", "interconnect_bytes_per_s"):
        assert getattr(built, name) == getattr(chip, name)
    assert has_own_buffers(built) == has_own_buffers(chip)


# --- no bound is above what it bounds ---------------------------------------------------------------------------------


@pytest.mark.parametrize("base", BASES)
def test_no_system_with_very_many_lanes_is_better_than_its_low(base):
    """Attention over long sequences waits for lanes, however many there are."""
    cores = {"num_tensor": (64, 128), "num_rows": (128, 256), "num_vector": (1, 64, 128), "num_lanes": (2048, 4096)}
    asked = question(("dense",), {**cores, "hbm_stacks": (16,), "stack_gib": (1024,)}, base=base)
    [case] = asked.cases
    long = replace(case, workload=replace(case.workload, global_batch=8, seq=131_072))
    scorer = Scorer(replace(asked, cases=(long,)))
    points = list(asked.space.points())
    lows, _ = scorer.lows(places_of(points))
    found = np.array([score.loss for score in scorer.score(points, np.inf)])
    assert np.isfinite(found).all()
    assert (lows <= found * (1 + ROUNDING)).all()


def uneven(rng: Random, plan: Plan, num_layers: int) -> Plan:
    """`plan` with any layers by stage and any recompute of PLANS by stage."""
    stages = plan.pipeline_parallel
    ends = [0, *sorted(rng.sample(range(1, num_layers), stages - 1)), num_layers]
    return replace(
        plan,
        layers_per_stage=tuple(end - start for start, end in pairwise(ends)),
        recompute=tuple(rng.choice(PLANS.recompute) for _ in range(stages)),
    )


def loss_of(scorer: Scorer, point: Point, plan: Plan) -> float:
    """What one plan comes to on one system, evaluated by itself; infinite where it does not fit."""
    asked, system = scorer.question, system_at(scorer.question, point)
    frame = scorer.frame(0, *network_of(system))
    chip = system_chip(asked.base, system)
    cluster, precision = frame.on(chip), frame.workload.precision
    check_plan(plan, frame.graph, cluster.num_devices)
    if not memory_use(shard(frame.graph, plan), precision, cluster.hbm_bytes).fits:
        return float("inf")
    step = training_step(frame.graph, plan, cluster, precision)
    figures = ChipFigures(
        step_s=step.step_s,
        energy_j=step.energy_j,
        power_w=chip.tdp_w,
        price_usd=price(chip).total_usd,
        num_devices=cluster.num_devices,
        num_samples=frame.graph.num_tokens,
    )
    return float(asked.metric.loss(figures))


@settings(max_examples=10)
@given(
    case=st.sampled_from(CASES),
    base=st.sampled_from(BASES),
    network=st.sampled_from(sorted(NETWORKS)),
    metric=st.sampled_from(metrics.names()),
    seed=SEEDS,
)
def test_no_plan_even_or_not_is_better_than_the_lows_of_its_system(case, base, network, metric, seed):
    scorer, rng = wide(case, base, network, metric), Random(seed)
    points = sampled(scorer, rng, 2)
    lows, [num_systems, num_beyond, num_uncut, num_unfit] = scorer.lows(places_of(points))
    scores = scorer.score(points, np.inf)
    assert (num_systems, num_beyond, num_uncut + num_unfit) == (2, 0, int(np.isinf(lows).sum()))
    for low, score, point in zip(lows, scores, points, strict=True):
        assert low <= score.low * (1 + ROUNDING)
        assert score.low <= score.loss
        system = system_at(scorer.question, point)
        frame = scorer.frame(0, *network_of(system))
        for plan in [frame.plans.plan(rng.randrange(len(frame.plans))) for _ in range(3)]:
            assert loss_of(scorer, point, plan) >= score.loss * (1 - ROUNDING)
            if case != "vision" and plan.pipeline_parallel > 1:
                try:
                    other = loss_of(scorer, point, uneven(rng, plan, frame.graph.num_layers))
                except InvalidInput:
                    continue
                assert other >= score.low * (1 - ROUNDING)


@settings(max_examples=10)
@given(
    case=st.sampled_from(SEARCHED),
    base=st.sampled_from(BASES),
    network=st.sampled_from(sorted(NETWORKS)),
    metric=st.sampled_from(metrics.names()),
    seed=SEEDS,
)
def test_refinement_is_never_worse_than_even_plans_nor_below_a_low(case, base, network, metric, seed):
    scorer = wide(case, base, network, metric)
    [point] = sampled(scorer, Random(seed), 1)
    [score] = scorer.score([point], np.inf)
    refined = refined_system(scorer, score, np.inf)
    assert score.low * (1 - ROUNDING) <= refined.loss <= score.loss
    assert score.low * (1 - ROUNDING) <= refined.low <= refined.loss
    if np.isfinite(refined.loss):
        assert loss_of(scorer, point, refined.cases[0].plan) == pytest.approx(refined.loss, rel=1e-8)


@settings(max_examples=8)
@given(case=st.sampled_from(SEARCHED), base=st.sampled_from(BASES), seed=SEEDS)
def test_what_is_only_bounded_is_no_better_than_what_was_asked_for(case, base, seed):
    scorer, rng = wide(case, base, "torus"), Random(seed)
    points = sampled(scorer, rng, 5)
    whole = scorer.score(points, np.inf)
    finite = sorted(score.loss for score in whole if np.isfinite(score.loss))
    worst = rng.choice(finite) if finite else 1.0
    for full, asked in zip(whole, scorer.score(points, worst), strict=True):
        assert asked.loss >= full.loss
        assert asked.loss == full.loss or full.loss >= worst * (1 - ROUNDING)
        assert asked.low <= full.loss * (1 + ROUNDING)


def test_lows_are_not_idle():
    """A bound of nothing would keep the laws above."""
    near = []
    for case in SEARCHED:
        scorer = wide(case, "tpuv4-like", "torus")
        points = sampled(scorer, Random(3), 30)
        lows, _ = scorer.lows(places_of(points))
        near += [low / one.loss for low, one in zip(lows, scorer.score(points, np.inf), strict=True) if one.loss < 1e9]
    assert len(near) > 30
    assert sum(near) / len(near) > 0.4


# --- the search -------------------------------------------------------------------------------------------------------


def searched(asked: JointQuestion, **more: bool):
    scorer = Scorer(asked)
    return joint_search(scorer, own_hands(scorer), **more)


def a_question(seed: int) -> JointQuestion:
    """A small space of anything, sometimes of two models, and sometimes with limits that bind."""
    rng = Random(seed)
    base, names = rng.choice(BASES), tuple(rng.sample(SEARCHED, rng.choice((1, 1, 2))))
    values = known_to(base, {"stack_gib": (4, 16), **some_values(rng, 3)})
    chip = chips[base]()
    everything = systems_at(system_space(chip, 8, values), _all_places(system_space(chip, 8, values)))
    built = built_systems(chip, everything)
    budget = Budget()
    if rng.random() < 0.6:
        total_w = built.power_w * everything["num_devices"]
        budget = Budget(
            area_mm2=float(np.quantile(built.area_mm2, 0.7)), total_power_w=float(np.quantile(total_w, 0.8))
        )
    return question(
        names,
        values,
        base=base,
        network=rng.choice(sorted(NETWORKS)),
        metric=rng.choice(metrics.names()),
        budget=budget,
        weights=tuple(rng.choice((1.0, 3.0)) for _ in names),
    )


def _all_places(space):
    return places_of(list(space.points()))


@settings(max_examples=4)
@given(seed=SEEDS)
def test_what_bounds_leave_out_is_never_the_best(seed):
    asked = a_question(seed)
    pruned, every = searched(asked), searched(asked, is_exhaustive=True)
    assert (pruned is None) == (every is None)
    if pruned is None or every is None:
        return
    assert pruned.best.loss == pytest.approx(every.best.loss, rel=ROUNDING)
    assert pruned.bound <= every.best.loss * (1 + ROUNDING)
    for found in (pruned, every):
        census = found.census
        closed = (census.num_beyond, census.num_uncut, census.num_unfit, census.num_bounded_away, census.num_scored)
        assert sum(closed) == census.num_systems == asked.space.num_points
        assert (found.gap_frac == 0) == (census.num_open == 0)
    assert every.census.num_bounded_away == 0


@settings(max_examples=4)
@given(case=st.sampled_from(SEARCHED), base=st.sampled_from(BASES), seed=SEEDS)
def test_the_best_endpoint_is_that_of_every_system_scored(case, base, seed):
    """Where everything may hide, so that endpoints matter on every axis."""
    rng = Random(seed)
    values = known_to(base, some_values(rng, 1) | {"core_buffer_kib": rng.choice(((1, 64), (16,), (4, 2048)))})
    values |= {"endpoint": (1, 2, 3), "link_gb_per_s": (rng.choice((5, 25, 300)),), "stack_gib": (16,)}
    plans = replace(PLANS, overlap=(Overlap(tensor=True, expert=True),), zero_stage=(rng.choice((0, 1, 3)),))
    asked = question((case,), values, base=base, metric=rng.choice(metrics.names()), plans=plans)
    pruned, every = searched(asked), searched(asked, is_exhaustive=True)
    assert (pruned is None) == (every is None)
    if pruned is not None and every is not None:
        assert pruned.best.loss == pytest.approx(every.best.loss, rel=ROUNDING)
        assert pruned.bound <= every.best.loss * (1 + ROUNDING)


@settings(max_examples=3)
@given(seed=SEEDS)
def test_both_together_are_never_worse_than_one_after_the_other(seed):
    rng = Random(seed)
    base = rng.choice(BASES)
    names, metric = ("tied",), rng.choice(("throughput", "perf/tdp", "$/token"))  # small enough for either base
    own = system_of(chips[base](), 8)
    values = {name: tuple(sorted({*some, own[name]})) for name, some in some_values(rng, 2, most=2).items()}
    values.pop("num_devices", None)
    values.setdefault("link_gb_per_s", (own["link_gb_per_s"],))  # so that the base is in the space
    asked = question(names, values, base=base, metric=metric)
    found_base = base_answer(asked)
    assert found_base is not None
    asked = with_reference(asked, found_base)
    joint = searched(asked)
    assert joint is not None
    assert joint.best.loss <= 1.0 + ROUNDING  # the base is in the space
    after = separate(asked, found_base)
    for one in (after.plan_then_chip, after.chip_then_plan):
        if one is not None and joint.gap_frac == 0:
            assert joint.best.loss <= one.loss * (1 + ROUNDING)
    # a chip that was chosen by itself is none that a plan of the joint or the base's search was asked about
    [thumb] = thumb_plans(asked, 8)
    assert after.chip_then_plan is not None
    for_thumb = searched(replace(asked, cases=(replace(asked.cases[0], plans=only_plan(thumb, PLANS)),)))
    assert for_thumb is not None
    assert after.chip_then_plan.system == system_at(asked, for_thumb.best.point)
    assert after.chip_then_plan.loss <= for_thumb.best.loss * (1 + ROUNDING)


# --- rows, resuming and workers ---------------------------------------------------------------------------------------


@settings(max_examples=3)
@given(case=st.sampled_from(SEARCHED), base=st.sampled_from(BASES), seed=SEEDS)
def test_a_row_of_a_store_gives_back_what_was_scored_and_refined(case, base, seed):
    scorer = wide(case, base, "torus")
    for score in scorer.score(sampled(scorer, Random(seed), 2), np.inf):
        rows = Rows(scorer.question, scorer.even_plan)
        [row] = rows.scored([score])
        assert score_of(row) == score
        refined = refined_system(scorer, score, np.inf)
        [refined_row] = rows.refined([refined])
        assert refined_of(refined_row) == refined


@settings(max_examples=3)
@given(seed=SEEDS)
def test_a_search_that_goes_on_answers_as_one_that_was_never_stopped(seed):
    asked, rng = a_question(seed), Random(seed)
    scorer = Scorer(asked)
    kept: list[SystemScore] = []
    kept_refined: list[RefinedSystem] = []
    noted = replace(own_hands(scorer), keep=kept.extend, keep_refined=kept_refined.extend)
    whole = joint_search(scorer, noted)
    rows = Rows(asked, scorer.even_plan)
    known = {row.point: score_of(row) for row in rows.scored(kept) if rng.random() < 0.5}
    known_refined = {row.point: refined_of(row) for row in rows.refined(kept_refined) if rng.random() < 0.5}
    new: list[SystemScore] = []
    new_refined: list[RefinedSystem] = []
    again = joint_search(
        scorer,
        Hands(
            score=own_hands(scorer).score,
            refine=own_hands(scorer).refine,
            known=known,
            known_refined=known_refined,
            keep=new.extend,
            keep_refined=new_refined.extend,
        ),
    )
    assert (again is None) == (whole is None)
    if whole is not None and again is not None:
        assert (again.best, again.bound, again.scored, again.census) == (
            whole.best,
            whole.bound,
            whole.scored,
            whole.census,
        )
    # nothing is done twice, and together they are all that a whole run keeps
    assert not {one.point for one in new} & set(known)
    assert {one.point for one in new} | set(known) == {one.point for one in kept}
    assert {one.point for one in new_refined} | set(known_refined) == {one.point for one in kept_refined}


@settings(max_examples=3)
@given(case=st.sampled_from(CASES), base=st.sampled_from(BASES), num=st.sampled_from((1, 2, 3)), seed=SEEDS)
def test_a_score_does_not_depend_on_what_is_scored_beside_it(case, base, num, seed):
    scorer = wide(case, base, "torus", "tokens/J")
    points = sampled(scorer, Random(seed), 5)
    chunks = [points[start : start + num] for start in range(0, 5, num)]
    apart = [one for chunk in chunks for one in scorer.score(chunk, np.inf)]
    for one, other in zip(apart, scorer.score(points, np.inf), strict=True):
        assert one.point == other.point
        assert (one.loss, one.low) == pytest.approx((other.loss, other.low), rel=1e-12)


@settings(max_examples=12)
@given(case=st.sampled_from(CASES), base=st.sampled_from(BASES), network=st.sampled_from(sorted(NETWORKS)), seed=SEEDS)
def test_the_power_that_its_parts_come_to_slows_no_chip(case, base, network, seed):
    """So that terms without a power limit, as PHAZE's are, are kept by chips that have their own."""
    scorer = wide(case, base, network)
    asked = scorer.question
    for score in scorer.score(sampled(scorer, Random(seed), 4), np.inf):
        if not np.isfinite(score.loss):
            continue
        chip, plan = (
            system_chip(asked.base, system_at(asked, score.point)),
            scorer.even_plan(0, score.point, score.cases[0].plan),
        )
        free = asked.network(replace(chip, tdp_w=1e6), int(system_at(asked, score.point)["num_devices"]))
        workload = asked.cases[0].workload
        step = training_step(workload.training_graph(), plan, free, workload.precision)
        assert score.cases[0].step_s == pytest.approx(step.step_s, rel=ROUNDING)
