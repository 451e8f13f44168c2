"""Costs that plugins give: taken as they are, on the rows and chips they are for, by every way to cost a graph."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dovetail.cost.columns import chip_columns, varied
from dovetail.cost.costs import cost_table, distinct_costs, op_costs
from dovetail.cost.op_cost import OpCosts, Setting
from dovetail.errors import InvalidInput, NotModelled
from dovetail.evaluate import Outcome, evaluate
from dovetail.hardware.catalog import chips
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.opsched.slices import slice_costs
from dovetail.parallel.plan import Plan
from dovetail.report.assumptions import assumptions
from dovetail.step.one_device.contention import OccupiedResources, beside
from dovetail.workload.graph import Ops
from dovetail.workload.models import models
from dovetail.workload.operators import code_of
from dovetail.workload.workload import Workload
from tests.messages import holds
from tests.plugin_sources import COST, plugin, running
from tests.unit.cost.paper import op, ops_of

H100, H200 = chips["h100-sxm"](), chips["h200-sxm"]()
ROWS = ops_of(op("layernorm", m=4096, n=4096), op("gelu", m=4096, n=4096), op("linear", m=4096, n=4096, k=4096))
BY_BYTES = "2 * (rows.in_bytes + rows.out_bytes) / chips.hbm_bytes_per_s"
ALONE = {"launch_s": 0.0, "alone_s": 0.0}


def without_launches(chip):
    return replace(chip, calibration=replace(chip.calibration, **ALONE))


def with_cost(name, seconds, cost):
    with running(plugin(COST, name=name, seconds=seconds)):
        return cost()


def same(ops: Ops, one: OpCosts, other: OpCosts) -> None:
    for field in OpCosts.__dataclass_fields__:
        assert np.array_equal(getattr(one, field), getattr(other, field)), (field, len(ops))


@pytest.mark.parametrize("setting", Setting)
@pytest.mark.parametrize(("name", "row"), [("layernorm", 0), ("gelu", 1), ("linear", 2)])
def test_the_row_takes_what_the_plugin_says_and_launches_and_the_others_what_they_took(name, row, setting):
    ours = op_costs(ROWS, H200, setting)
    theirs = with_cost(name, 0.25, lambda: op_costs(ROWS, H200, setting))
    launches = op_costs(ROWS, H200, setting).compute_s - op_costs(ROWS, without_launches(H200), setting).compute_s
    assert theirs.compute_s[row] == pytest.approx(0.25 + launches[row])
    others = np.arange(len(ROWS)) != row
    assert np.array_equal(theirs.compute_s[others], ours.compute_s[others])
    assert np.array_equal(theirs.hbm_bytes, ours.hbm_bytes)
    assert np.array_equal(theirs.energy_j, ours.energy_j)


def test_what_the_clock_stretches_is_the_share_it_was():
    ours = op_costs(ROWS, without_launches(H200))
    theirs = with_cost("linear", 0.25, lambda: op_costs(ROWS, without_launches(H200)))
    assert theirs.clocked_s[2] / theirs.compute_s[2] == pytest.approx(ours.clocked_s[2] / ours.compute_s[2])
    assert np.all(theirs.clocked_s <= theirs.compute_s)


def test_a_cost_for_one_chip_is_for_no_other_and_goes_before_one_for_all():
    ours = op_costs(ROWS, H100)
    same(ROWS, with_cost("layernorm@h200-sxm", 0.25, lambda: op_costs(ROWS, H100)), ours)
    both = plugin(
        COST + COST.replace("{name}", "layernorm@h200-sxm").replace("{seconds}", "2.0"), name="layernorm", seconds=1.0
    )
    with running(both):
        table = cost_table(ROWS, chip_columns((without_launches(H100), without_launches(H200))))
    assert table.compute_s[0].tolist() == [1.0, 2.0]


def test_many_chips_at_once_are_costed_as_each_alone():
    rates = np.array([1.0, 2.0, 4.0]) * H100.hbm.bandwidth_bytes_per_s
    table = with_cost(
        "layernorm", BY_BYTES, lambda: distinct_costs(ROWS, varied(H100, len(rates), hbm_bytes_per_s=rates))
    )
    for place, rate in enumerate(rates):
        chip = replace(H100, hbm=replace(H100.hbm, bandwidth_bytes_per_s=float(rate)))
        alone = with_cost("layernorm", BY_BYTES, lambda chip=chip: op_costs(ROWS, chip))
        assert np.allclose(table.compute_s[place], alone.compute_s, rtol=1e-12, atol=0.0)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (-1.0, r"gives seconds of 0 or more; got -1 \(mine.py: operator cost layernorm\)"),
        ("chips.clock_hz * float('nan')", "gives seconds of 0 or more; got nan"),
        ("'fast'", "for 1 rows by 1 chips; got 'fast'"),
        ("chips.tile_rows[:, :1] * rows.m", "for 1 rows by 1 chips; got an array of shape"),
    ],
)
def test_what_is_no_seconds_is_refused(seconds, told):
    with pytest.raises(InvalidInput, match=told):
        with_cost("layernorm", seconds, lambda: op_costs(ROWS, H200))


def test_beside_communication_a_cost_that_knows_nothing_of_it_still_loses_the_units_that_are_held():
    attention = ops_of(op("attention", b=64, m=2048, n=2048, k=128, v=128))
    held = OccupiedResources(num_units=32)
    found = with_cost("attention", 0.25, lambda: beside(attention, without_launches(H200), held))
    num_units = H200.tensor.num_units
    assert found.compute_slowdown[0] == pytest.approx(num_units / (num_units - held.num_units))
    launched = replace(H200, calibration=replace(H200.calibration, launch_s=0.0625))
    found = with_cost("attention", 0.25, lambda: beside(attention, launched, held))
    run_s = float(found.alone_s[0]) - 0.0625  # a launch takes no longer beside communication
    assert run_s >= 0.1875
    assert found.overlappable_s[0] == pytest.approx(0.0625 + run_s * num_units / (num_units - held.num_units))


def test_parts_of_a_chip_are_refused_and_only_for_chips_and_rows_that_it_is_for():
    with running(plugin(COST, name="layernorm@h200-sxm", seconds=1.0)):
        with pytest.raises(NotModelled, match="layernorm@h200-sxm"):
            slice_costs(ROWS, [H200], np.zeros(len(ROWS)))
        slice_costs(ROWS, [H100], np.zeros(len(ROWS)))
        others = ROWS.where(ROWS.kind != code_of("layernorm"))
        slice_costs(others, [H200], np.zeros(len(others)))


def test_a_step_takes_longer_by_what_the_cost_adds_and_says_whose_it_is():
    workload = Workload(model=models["gpt2-1.5b"](), global_batch=64, seq=1024)
    cluster, plan = clusters["dgx-h100"].build(8), Plan(data_parallel=8, zero_stage=1, microbatch=4)

    def outcome(on: Cluster = cluster) -> Outcome:
        found = evaluate(workload, on, plan, has_changes=False)
        assert isinstance(found, Outcome)
        return found

    ours = outcome()
    with running(plugin(COST, name="layernorm", seconds=f"10 * {BY_BYTES}")):
        theirs = outcome()
        assert any(holds(told, "layernorm", "mine.py") for told in assumptions(theirs))
        named_otherwise = outcome(replace(cluster, chip=replace(cluster.chip, name="another")))
        assert named_otherwise.step.step_s == theirs.step.step_s
    assert theirs.step.step_s > 1.05 * ours.step.step_s
    assert not any("mine.py" in told for told in assumptions(ours))
    assert outcome().step.step_s == ours.step.step_s
