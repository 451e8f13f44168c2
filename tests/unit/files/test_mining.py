"""Specs for `dovetail mine`: what they may say, what goes before what, and what is refused where."""

from __future__ import annotations

import pytest

from dovetail.errors import DovetailError
from dovetail.files.mining import AREA_MM2, POWER_W, MiningSaid, load_mining
from dovetail.search.designs import design_space


def written(tmp_path, text):
    file = tmp_path / "spec.yaml"
    file.write_text(text, encoding="utf-8")
    return str(file)


def test_a_model_alone_is_mined_at_whams_budget_with_the_batch_that_fits():
    spec = load_mining("bert-base", MiningSaid())
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
    spec = load_mining(file, MiningSaid())
    assert (spec.base.name, spec.limits.area_mm2, spec.limits.power_w) == ("tpuv4-like", 500.0, 200.0)
    assert (spec.space.num_points, spec.chosen_batch, spec.name) == (4, 0, "spec")
    said = load_mining(file, MiningSaid(base="tpuv2-like", area="6 cm2", power="1 kW", batch=2, seq=64))
    assert (said.base.name, said.limits.area_mm2, said.limits.power_w) == ("tpuv2-like", 600.0, 1000.0)
    assert (said.tasks[0].workload.global_batch, said.tasks[0].workload.seq) == (2, 64)


def test_a_plan_says_how_many_devices_there_are(tmp_path):
    text = "models: [{model: bert-base, global_batch: 8}, {model: gpt2-345m, global_batch: 8}]\nplan: {tp: 2, pp: 4}\n"
    spec = load_mining(written(tmp_path, text), MiningSaid())
    assert [task.plan.num_devices for task in spec.tasks] == [8, 8]
    assert [task.job(spec.base).num_stages for task in spec.tasks] == [4, 4]


@pytest.mark.parametrize(
    ("text", "words"),
    [
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
        load_mining(written(tmp_path, text), MiningSaid())
    assert words in str(refused.value)
    assert "spec.yaml" in str(refused.value)
