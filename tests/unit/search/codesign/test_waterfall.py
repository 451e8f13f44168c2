"""From the base to the best system, one change at a time."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import pytest

from dovetail.hardware.catalog import chips
from dovetail.hardware.families import families
from dovetail.report.figures import record_of, tables_of
from dovetail.report.table import text_of
from dovetail.report.waterfall import waterfall_chart, waterfall_figures
from dovetail.search.codesign.answers import answer_of, base_answer, gain_frac, with_reference
from dovetail.search.codesign.joint import joint_search, local_backend
from dovetail.search.codesign.scoring import Scorer
from dovetail.search.codesign.systems import KNOBS
from dovetail.search.codesign.waterfall import LAST, PARTS, chance_frac, waterfall
from tests.codesign_questions import PLANS, question

VALUES = {
    "num_tensor": (16,),
    "num_cols": (256,),
    "dataflow": (6, 7),
    "num_lanes": (512, 2048),
    "vmem_mib": (8,),
    "sram_mib": (32,),
    "hbm_stacks": (6,),
    "num_devices": (8,),
}


@cache
def searched(metric: str = "throughput"):
    asked = question(("tied",), VALUES, base="tpu-v4", metric=metric, plans=replace(PLANS, pipeline_parallel=(1, 2)))
    base = base_answer(asked)
    asked = with_reference(asked, base)
    scorer = Scorer(asked)
    found = joint_search(scorer, local_backend(scorer))
    assert found is not None
    return asked, base, answer_of(asked, found.best)


def test_every_knob_is_part_of_one_change():
    assert sorted([*(knob for knobs in PARTS.values() for knob in knobs), "num_devices"]) == sorted(KNOBS)


@pytest.mark.parametrize("metric", ["throughput", "tokens/J"])
def test_changes_add_up_to_the_gain(metric):
    asked, base, best = searched(metric)
    found = waterfall(asked, base, best)
    whole = gain_frac(best, base, (1.0,))
    assert abs(whole) > 0.01
    assert math.fsum(one.own_frac for one in found.changes) == pytest.approx(whole, rel=1e-9)
    assert found.gain_frac == pytest.approx(whole, rel=1e-9)
    assert found.changes[-1].part == LAST
    assert (found.changes[-1].area_mm2, found.changes[-1].power_w) == pytest.approx((best.area_mm2, best.power_w))
    changed = {name: value for one in found.changes for name, value in one.after.items()}
    assert {name: value for name, value in best.system.items() if base.system[name] != value} == changed


def test_from_the_base_to_itself_there_is_nothing_to_gain():
    asked, base, _ = searched()
    found = waterfall(asked, base, base)
    assert [one.part for one in found.changes] == [LAST]
    assert (found.gain_frac, found.chance_frac) == (0.0, 0.5)


def test_a_gain_of_as_much_as_the_error_of_the_family_is_one_standard_deviation():
    assert chance_frac(math.expm1(0.12 * math.sqrt(2)), 0.12) == pytest.approx(0.8413, abs=1e-4)  # of both together
    assert chance_frac(math.expm1(0.12 * math.sqrt(8)), 0.12) == pytest.approx(0.9772, abs=1e-4)
    assert chance_frac(-0.1, 0.1) < 0.5 < chance_frac(0.1, 0.1) < chance_frac(0.2, 0.1) < 1


def test_the_chance_rests_on_the_error_of_the_bases_family():
    asked, base, best = searched()
    found = waterfall(asked, base, best)
    assert found.family_error_frac == families["tpu"].left_out.spread_frac
    assert found.chance_frac == chance_frac(found.gain_frac, found.family_error_frac)
    assert waterfall(asked, base, best, 0.2).chance_frac == chance_frac(found.gain_frac, 0.2)
    as_gpu = replace(asked.base, calibration=replace(asked.base.calibration, family="gpu"))
    assert waterfall(replace(asked, base=as_gpu), base, best).family_error_frac == families["gpu"].left_out.spread_frac


def test_a_chip_on_the_way_that_the_bases_plan_does_not_fit_takes_the_bests():
    asked, base, best = searched()
    assert all(one.fits for one in waterfall(asked, base, best).changes)
    small = replace(best, system=best.system | {"hbm_stacks": 1.0, "stack_gib": 1.0})
    assert [one.fits for one in waterfall(asked, base, small).changes][-1] is False


def test_it_is_told_in_text_for_programs_and_as_a_chart():
    asked, base, best = searched()
    found, chip = waterfall(asked, base, best), chips["tpu-v4"]()
    record = record_of(waterfall_figures(found, chip))["waterfall"]
    assert [one["component"] for one in record["changes"]] == [one.part for one in found.changes]
    assert sum(one["added_frac"] for one in record["changes"]) == pytest.approx(record["gain_frac"])
    assert 0.5 < record["chance_frac"] <= 1
    text = " ".join(text_of(tables_of(waterfall_figures(found, chip))).split())
    assert "From tpu-v4 to it, one change at a time" in text
    assert "truly better than tpu-v4 with" in text
    chart = waterfall_chart(found, chip.name)
    assert len(chart.table.rows) == len(found.changes) + 1
    [bars] = chart.figure["data"]
    ends = [start + value for start, value in zip(bars["base"], bars["x"], strict=True)]
    assert ends[:-1] == pytest.approx([one.gain_frac for one in found.changes])
    assert bars["base"][1:-1] == pytest.approx(ends[:-2])  # each begins where the one before it ended
    assert ends[-1] == pytest.approx(found.gain_frac)
