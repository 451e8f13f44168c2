"""Many systems at once cost what each does alone, and as the base has it a system is the base."""

from __future__ import annotations

from dataclasses import fields, replace
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
from dovetail.hardware.catalog import chips
from dovetail.search.codesign.networks import networks
from dovetail.search.codesign.refining import system_at
from dovetail.search.codesign.systems import (
    BY_SIZE,
    CORES,
    NETWORK,
    built_systems,
    inventories,
    network_of,
    system_chip,
    system_of,
)
from dovetail.search.designs import design_at, design_space, mined_chips, silicon_of
from dovetail.step.step import even_times, training_step
from tests.codesign_questions import BASES, CASES, VALUES, known_to
from tests.property.codesign_systems import ROUNDING, SEEDS, sampled, wide

ARRAYS = tuple(name for name in chips.names() if chips[name]().tensor.tiling.is_array)


@settings(max_examples=7)
@given(
    case=st.sampled_from(CASES),
    base=st.sampled_from(BASES),
    network=st.sampled_from(sorted(networks.names())),
    seed=SEEDS,
)
def test_plans_on_many_chips_at_once_take_what_each_takes_alone(case, base, network, seed):
    scorer, rng = wide(case, base, network), Random(seed)
    asked = scorer.question
    points = sampled(scorer, rng, 3)
    one = system_at(asked, points[0])
    same = {name: one[name] for name in NETWORK}
    systems = [system_at(asked, point) | same for point in points]
    plan_set = scorer.plan_set(0, *network_of(one))
    built = built_systems(asked.base, {name: np.array([one[name] for one in systems]) for name in systems[0]})
    base_rows = np.array(rng.sample(range(len(plan_set.bases)), min(3, len(plan_set.bases))))
    plans, first = plan_set.some(base_rows)
    policy = rng.randrange(len(plan_set.policies))
    works = plans.on(built.chips, built.rows)
    chip = np.array([rng.randrange(len(points)) for _ in base_rows])
    times = even_times(plans.pairs(works, first + policy, chip, plan_set.cluster))
    for row, at in enumerate(chip):
        plan = plan_set.plans.plan(int(base_rows[row]) * len(plan_set.policies) + policy)
        alone = training_step(
            plan_set.graph, plan, plan_set.on(system_chip(asked.base, systems[at])), plan_set.workload.precision
        )
        assert times.step_s[row] == pytest.approx(alone.step_s, rel=ROUNDING)
        assert times.energy_j[row] == pytest.approx(alone.energy_j, rel=ROUNDING)


@settings(max_examples=60)
@given(base=st.sampled_from(ARRAYS), seed=SEEDS)
def test_a_system_in_columns_is_its_chip_field_by_field(base, seed):
    chip, rng = chips[base](), Random(seed)
    own = system_of(chip, 8)
    known = known_to(base, VALUES)
    systems = [own | {name: float(rng.choice(values)) for name, values in known.items()} for _ in range(4)]
    systems += [own | {name: one[name] for name in rng.sample(sorted(known), 3)} for one in systems]
    systems[0]["core_buffer_kib"] = BY_SIZE
    asked = {name: np.array([one[name] for one in systems]) for name in own}
    built, parts = built_systems(chip, asked), inventories(chip, asked)
    alone = [system_chip(chip, one) for one in systems]
    columns = chip_columns(alone)
    for field in fields(columns):
        ours, theirs = getattr(built.chips, field.name), getattr(columns, field.name)
        if field.name == "calibration":
            assert ours.keys() == theirs.keys()
            assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
        elif field.name == "name":  # a system has its base's
            assert set(ours) == {chip.name}
        elif isinstance(ours, np.ndarray):
            np.testing.assert_allclose(ours, theirs, rtol=ROUNDING, err_msg=field.name)
        else:
            assert ours == theirs, field.name
    for row, one in enumerate(alone):
        counted = inventory(one)
        for field in fields(counted):
            ours = np.broadcast_to(getattr(parts, field.name), len(alone))[row]
            assert ours == pytest.approx(getattr(counted, field.name), rel=ROUNDING), field.name
        assert built.area_mm2[row] == pytest.approx(silicon(counted).total_mm2, rel=ROUNDING)
        assert built.price_usd[row] == pytest.approx(price(one).total_usd, rel=ROUNDING)
        assert built.hbm_bytes[row] == pytest.approx(one.hbm.capacity_bytes, rel=ROUNDING)
        assert built.power_w[row] == one.tdp_w
    same_clock = [row for row, one in enumerate(alone) if one.clock_hz == chip.clock_hz]
    for row in same_clock:  # another clock has another voltage, which `tdp` does not know of
        assert built.power_w[row] == pytest.approx(tdp(alone[row]).total_w, rel=ROUNDING)


@pytest.mark.parametrize("base", ARRAYS)
def test_a_system_as_the_base_has_it_is_the_base(base):
    chip = chips[base]()
    built = system_chip(chip, system_of(chip, 8))
    # rated power and energies are the power model's
    assert replace(built, name=chip.name, tdp_w=chip.tdp_w, energy=chip.energy) == chip


@settings(max_examples=20)
@given(base=st.sampled_from(ARRAYS), seed=SEEDS)
def test_a_mined_chip_is_the_system_with_the_same_cores(base, seed):
    chip, space = chips[base](), design_space()
    design = design_at(space, space.sample(Random(seed)))
    [mined] = mined_chips(chip, [design], silicon_of(chip, [design]))
    cores = {name: float(getattr(design, name)) for name in CORES}
    assert mined == system_chip(chip, system_of(chip, 1) | cores)


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


@settings(max_examples=6)
@given(
    case=st.sampled_from(CASES),
    base=st.sampled_from(BASES),
    network=st.sampled_from(sorted(networks.names())),
    seed=SEEDS,
)
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
