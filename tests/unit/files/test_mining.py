"""Specs for `dovetail mine`: what they may say, what goes before what, and what is refused where."""

from __future__ import annotations

import pytest

from dovetail.errors import DovetailError
from dovetail.files.mining import AREA_MM2, POWER_W, MineOverrides, load_mining
from dovetail.files.mining_stages import StageOverrides, StagesSpec
from dovetail.hardware.template import design_of
from dovetail.search.designs import design_space, silicon_of
from dovetail.search.mining.planning import several_stages
from dovetail.workload.models import models


def written(tmp_path, text):
    file = tmp_path / "spec.yaml"
    file.write_text(text, encoding="utf-8")
    return str(file)


def test_a_model_alone_is_mined_at_whams_budget_with_the_batch_that_fits():
    spec = load_mining("bert-base", MineOverrides())
    assert (spec.limits.area_mm2, spec.limits.power_w) == (AREA_MM2, POWER_W)
    assert spec.base.name == "tpuv2-like"
    assert spec.space == design_space()
    [task] = spec.tasks
    assert spec.chosen_batch == task.workload.global_batch == task.plan.microbatch
    assert task.memory(spec.base).fits


def test_what_is_said_goes_before_what_is_written(tmp_path):
    file = written(
        tmp_path,
        "workload: {model: bert-base, global_batch: 8, seq: 128}\n"
        "chip: {base: tpuv4-like, area: 500 mm2, power: 200 W, sides: [64], lanes: [32], counts: [1, 2]}\n",
    )
    spec = load_mining(file, MineOverrides())
    assert (spec.base.name, spec.limits.area_mm2, spec.limits.power_w) == ("tpuv4-like", 500.0, 200.0)
    assert (spec.space.num_points, spec.chosen_batch, spec.name) == (4, 0, "spec")
    said = load_mining(file, MineOverrides(base="tpuv2-like", area="6 cm2", power="1 kW", batch=2, seq=64))
    assert (said.base.name, said.limits.area_mm2, said.limits.power_w) == ("tpuv2-like", 600.0, 1000.0)
    assert (said.tasks[0].workload.global_batch, said.tasks[0].workload.seq) == (2, 64)


def test_a_plan_says_how_many_devices_there_are(tmp_path):
    text = "models: [{model: bert-base, global_batch: 8}, {model: gpt2-345m, global_batch: 8}]\nplan: {tp: 2, pp: 4}\n"
    spec = load_mining(written(tmp_path, text), MineOverrides())
    assert [task.plan.num_devices for task in spec.tasks] == [8, 8]
    assert [task.job(spec.base).num_stages for task in spec.tasks] == [4, 4]


def test_stages_say_on_how_many_devices_and_by_which_designs(tmp_path):
    text = "workload: {model: gpt2-345m, global_batch: 8}\ndevices: 4\nstages: mosaic\nkeep: 3\nspace: {dp: 1}\n"
    spec = load_mining(written(tmp_path, text), MineOverrides())
    assert (spec.stages.num_devices, spec.stages.way, spec.stages.num_kept) == (4, "mosaic", 3)
    assert {one.key: one.values for one in spec.stages.constraints} == {
        "data_parallel": (1,),
        "pipeline_parallel": (2, 4),  # a mosaic has several stages
    }
    said = StageOverrides(devices=2, stages="pooled", keep=5, fix=("dp=2",), forbid=("zero",))
    spec = load_mining(written(tmp_path, text), MineOverrides(stages=said))
    assert (spec.stages.num_devices, spec.stages.way, spec.stages.num_kept) == (2, "pooled", 5)
    assert {one.key: one.values for one in spec.stages.requested} == {"data_parallel": (2,), "zero_stage": (0,)}
    assert [one for one in spec.stages.constraints if one not in spec.stages.requested] == [several_stages(2)]
    spec = load_mining(written(tmp_path, text.replace("mosaic\nkeep: 3", "one")), MineOverrides())
    assert spec.stages.requested == spec.stages.constraints


def test_where_nothing_is_said_of_stages_there_is_one_design_and_no_planner():
    assert load_mining("bert-base", MineOverrides()).stages == StagesSpec(way="one", num_kept=10, num_devices=0)


def test_a_model_for_the_planner_has_its_own_batch():
    spec = load_mining("gpt2-345m", MineOverrides(stages=StageOverrides(devices=4)))
    assert spec.chosen_batch == 0
    assert spec.tasks[0].workload.global_batch == models["gpt2-345m"]().batch


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("workload: bert-base\nstages: mosaik", "did you mean mosaic"),
        ("workload: bert-base\nstages: foo", "named 'foo'; known: mosaic, one, pooled"),
        (
            "workload: {model: bert-base, global_batch: 8}\nplan: {pp: 2, interleave: 2, schedule: 1f1b}",
            "choose interleave: 1 (",
        ),
        ("workload: {model: bert-base, global_batch: 8}\nplan: {pp: 2, schedule: gpipe}", "choose schedule: 1f1b ("),
        ("workload: bert-base\nchip: {sides: [1000000000]}", "sides must be at most 65,536; got 1,000,000,000"),
        ("workload: bert-base\nchip: {lanes: [64, 65537]}", "chip.lanes[1]"),
        ("workload: bert-base\nchip: {counts: [131072]}", "chip.counts[0]"),
        ("workload: bert-base\nkeep: 0", "keep must be at least 1"),
        ("workload: bert-base\nkeep: 300", "keep must be at most 200"),
        ("workload: bert-base\ndevices: 0", "devices must be at least 1"),
        ("workload: bert-base\ndevices: 2\nplan: {pp: 2}", "leave out plan"),
        ("workload: bert-base\nspace: {dp: 1}", "give the number of devices"),
        ("workload: bert-base\ndevices: 2\nspace: {dq: 1}", "no key of space"),
        ("models: [bert-base, gpt2-345m]\nplan: {pp: 2}\nstages: pooled", "is for one model; got 2"),
        ("workload: bert-base\nmodels: [bert-base]", "either workload, for one model, or models"),
        ("chip: {area: 600 mm2}", "either workload, for one model, or models"),
        ("models: []", "models must not be empty"),
        ("workload: bert-base\nchip: {area: 600}", "chip.area"),
        ("workload: bert-base\nchip: {power: 0 W}", "chip.power"),
        ("workload: bert-base\nchip: {sides: [128, 64]}", "chip.sides"),
        ("workload: bert-base\nchip: {lanes: []}", "chip.lanes"),
        ("workload: bert-base\nchip: {counts: [1, 3]}", "chip.counts[1]"),
        ("workload: bert-base\nchip: {side: [128]}", "did you mean sides"),
        ("workload: bert-base\nchip: {base: h100-sxm}", "chip.base"),
        ("workload: bert-base\nchip: {base: tpuv2-lik}", "did you mean tpuv2-like"),
        ("workload: {model: bert-base, global_batch: 8}\nplan: {tp: 5}", "must divide"),
        (f"workload: bert-base\nchip: {{lanes: {list(range(1, 4000))}}}", "a space has at most"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(tmp_path, text, words):
    with pytest.raises(DovetailError) as refused:
        load_mining(written(tmp_path, text), MineOverrides())
    assert words in str(refused.value)
    assert "spec.yaml" in str(refused.value)


def test_designs_on_another_chip_have_it_among_them_and_take_what_it_takes():
    spec = load_mining("bert-base", MineOverrides(base="tpu-v4"))
    values = {knob.name: knob.values for knob in spec.space.knobs}
    own = design_of(spec.base)
    assert all(getattr(own, name) in values[name] for name in values)
    taken = silicon_of(spec.base, (own,))
    assert spec.limits.area_mm2 == pytest.approx(float(taken.area_mm2[0]))
    assert spec.limits.power_w == pytest.approx(float(taken.power_w[0]))
    assert (taken.excess_frac(spec.limits) == 0).all()
    said = load_mining("bert-base", MineOverrides(base="tpu-v4", area="500 mm2"))
    assert (said.limits.area_mm2, said.limits.power_w) == (500.0, spec.limits.power_w)
