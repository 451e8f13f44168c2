from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import dovetail as dv
from dovetail.api.progress import PlanStanding
from dovetail.evaluate import Infeasible, Outcome
from dovetail.files.heterogeneous_cluster import load_any_cluster
from dovetail.files.model import load_model
from dovetail.parallel.plan import Plan

SMALL: dict[str, Any] = {"model": "gpt2-345m", "cluster": "h100x8", "global_batch": 64}
PLAN = {"zero_stage": 1, "microbatch": 8}
SPEC: dict[str, Any] = {
    "workload": {"model": "gpt2-345m", "global_batch": 64},
    "cluster": {"name": "dgx-h100", "devices": 8},
}


@pytest.fixture(scope="module")
def step() -> dv.Simulation:
    return dv.simulate(**SMALL, plan=PLAN)


def test_a_step_has_the_figures_of_its_outcome(step):
    assert isinstance(step.outcome, Outcome)
    assert step.fits
    assert step.levers == ()
    assert step.step_s == step.outcome.step.step_s == step.record["step_s"]
    assert step.tokens_per_s == pytest.approx(64 * 1024 / step.step_s)
    assert step.samples_per_s == pytest.approx(64 / step.step_s)
    assert (step.mfu_frac, step.hfu_frac) == (step.outcome.mfu_frac, step.outcome.hfu_frac)
    assert step.energy_j == step.record["energy_j"]
    assert step.interval.lower_s < step.step_s < step.interval.upper_s
    assert step.memory.need_bytes <= step.memory.limit_bytes
    assert step.limited_by == step.record["limited_by"]
    assert list(step.elasticities.values()) == sorted(step.elasticities.values(), reverse=True)


def test_a_cluster_and_its_size_in_one_name_are_the_same_as_apart(step):
    apart = dv.simulate(model="gpt2-345m", cluster="dgx-h100", devices=8, plan=PLAN, global_batch=64)
    assert apart.record == step.record


def test_parts_may_be_names_mappings_files_and_values(step, tmp_path):
    file = tmp_path / "cluster"  # without an ending: a path is a file's all the same
    file.write_text("{name: dgx-h100, devices: 8}", encoding="utf-8")
    plan = step.plan
    for model in ("gpt2-345m", {"base": "gpt2-345m", "name": "gpt2-345m"}, load_model("gpt2-345m")):
        for cluster in ({"name": "dgx-h100", "devices": 8}, file, load_any_cluster("h100x8")):
            again = dv.simulate(model=model, cluster=cluster, plan=plan, global_batch=64)
            assert again.step_s == step.step_s, (model, cluster)


def test_a_spec_may_be_a_mapping_and_arguments_go_before_it(step):
    assert dv.simulate(SPEC | {"plan": PLAN}).step_s == step.step_s
    assert dv.simulate(SPEC, plan=PLAN).step_s == step.step_s
    assert dv.simulate(SPEC | {"plan": {"tp": 8}}, plan=PLAN, seq=512).outcome.workload.seq == 512


def test_a_hugging_face_configuration_may_be_a_mapping_or_a_file():
    file = Path("examples/llama2-13b.json")
    config = json.loads(file.read_text(encoding="utf-8"))
    by_file = dv.simulate(model=file, cluster="h100x8", plan={"tp": 8}, global_batch=8)
    by_words = dv.simulate(model=config, cluster="h100x8", plan={"tp": 8}, global_batch=8)
    assert by_file.memory == by_words.memory


def test_a_plan_that_does_not_fit_is_an_answer_with_levers():
    found = dv.simulate(model="llama3-70b", cluster="h100x8", plan={"tp": 8})
    assert isinstance(found.outcome, Infeasible)
    assert not found.fits
    assert found.levers
    assert found.record["feasible"] is False
    assert "does not fit" in repr(found)
    assert str(found).startswith("Does not fit: ")
    assert [chart.name for chart in found.charts] == ["memory-by-stage"]
    with pytest.raises(dv.InvalidInput, match=r"there is no step_s; check \.fits first, and \.levers"):
        _ = found.step_s


def test_auto_is_the_planners_best():
    found = dv.simulate(**SMALL, plan="auto")
    best = dv.plan(**SMALL)
    assert found.plan == best.plan
    assert found.step_s == best.step_s == best.best.step_s


def test_auto_with_nothing_that_fits_is_the_plan_that_needs_least():
    found = dv.simulate(model="llama3-405b", cluster="h100x8", plan="auto")
    assert not found.fits
    assert found.levers == dv.plan(model="llama3-405b", cluster="h100x8").best.levers


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"model": "gpt2-345"}, "no model is named 'gpt2-345'; did you mean gpt2-345m"),
        ({"cluster": "h10x8"}, "no cluster is named 'h10'; did you mean h100"),
        ({"cluster": "dgx-h10"}, "no cluster is named 'dgx-h10'; did you mean dgx-h100"),
        ({"cluster": "h100x8", "devices": 16}, "h100x8 is 8 devices, and 16 are requested"),
        ({"plan": {"tpp": 2}}, "tpp"),
        ({"plan": {"tp": 3}}, "plan"),
        ({"plan": Plan(tensor_parallel=2)}, "8"),
        ({"plan": 7}, r"plan is a name, a file, a mapping or a value of its own; got int \(plan\)"),
        ({"plan": {1: 2}}, "a key is a word"),
        ({"cluster": {"chip": object(), "topology": []}}, "a mapping holds text, numbers, lists and mappings"),
        ({"global_batch": 0}, "global_batch must be at least 1; got 0"),
        ({"global_batch": 2.5}, "global_batch must be a whole number; got 2.5"),
        ({"global_batch": True}, "global_batch must be a whole number; got true"),
        ({"seq": 10**10}, "seq must be at most 1,000,000,000"),
        ({"compute": "fp5"}, r"dtype 'fp5' is not modelled; did you mean fp8.*\(compute\)"),
        ({"tokens": "many"}, "tokens"),
        ({"tokens": -1.0}, "tokens must be a number from 0 on"),
        ({"model": ""}, "model is missing; name one that `dovetail models` lists"),
    ],
)
def test_what_is_wrong_is_said_as_the_command_says_it_with_pythons_names(said, words):
    with pytest.raises(dv.InvalidInput, match=words) as error:
        dv.simulate(**{**SMALL, "plan": PLAN} | said)
    assert "--" not in str(error.value)


def test_a_spec_that_is_a_part_is_pointed_to_its_argument():
    with pytest.raises(dv.InvalidInput, match="'gpt2-345m' is a model, not a spec; pass model gpt2-345m, with cluster"):
        dv.simulate("gpt2-345m")


def test_progress_is_told_with_the_best_so_far():
    told: list[dv.Progress] = []
    found = dv.plan(**SMALL, progress=told.append)
    assert {one.task for one in told} == {"plan"}
    assert all(isinstance(one.standing[0], PlanStanding) for one in told)
    assert "best" in told[-1].words
    [last] = told[-1].standing
    assert isinstance(last, PlanStanding)
    assert last.score >= found.step_s  # the rest is refined after the last word
    assert found.history
    own = [one.standing[0] for one in told if isinstance(one.standing[0], PlanStanding)]
    whole = [one for one in own if not one.framework]
    assert whole
    assert own[: len(whole)] == whole  # the whole space comes first, then framework after framework
    assert {one.framework for one in own[len(whole) :]} <= {"deepspeed", "fsdp2", "megatron-lm", "torchtitan"}
    for one in whole:
        assert one.best[0].score == one.score
        assert one.gap_frac == (1.0 if not one.bound_s else max(0.0, 1 - one.bound_s / one.best[0].step_s))
    assert whole[-1].best[0].step_s <= whole[0].best[0].step_s


def test_what_progress_raises_ends_the_search():
    class Enough(Exception):
        pass

    def stop(_: dv.Progress) -> None:
        raise Enough

    with pytest.raises(Enough):
        dv.plan(**SMALL, progress=stop)


def test_a_bar_is_shown_when_asked_for(capsys):
    dv.plan(**SMALL, progress=True)
    assert capsys.readouterr().out == ""


def test_a_plan_is_written_as_simulate_takes_it(tmp_path, step):
    found = dv.plan(**SMALL, top=2, forbid="uneven", fix=["zero_stage=1"])
    assert len(found.ranking) == 2
    assert found.gap_frac == 0.0
    assert found.plan.zero_stage == 1
    found.to_yaml(tmp_path / "plan.yaml")
    assert dv.simulate(**SMALL, plan=tmp_path / "plan.yaml").step_s == found.step_s


def test_a_plan_of_values_has_no_commands_to_go_on_with():
    by_name, by_value = dv.plan(**SMALL, top=1), dv.plan(**SMALL | {"model": load_model("gpt2-345m")}, top=1)
    assert by_name.record["commands"]
    assert by_value.record["commands"] == []
    assert by_value.plan == by_name.plan


def test_rows_of_a_sweep_have_what_was_varied_and_the_figures():
    rows = dv.sweep(model="gpt2-345m", plan=PLAN, over={"global_batch": [64, 128], "cluster": ["h100x8"]})
    assert [row["global_batch"] for row in rows] == [64, 128]
    assert rows[0]["step_s"] < rows[1]["step_s"]
    assert rows[0]["cluster"] == "h100x8"
    unfit = dv.sweep(model="llama3-70b", cluster="h100x8", over={"plan": [{"tp": 8}]})
    assert unfit[0]["fits"] is False
    assert unfit[0]["step_s"] is None
    with pytest.raises(dv.InvalidInput, match=r"no key of a spec is named 'global_bach'; did you mean global_batch"):
        dv.sweep(model="gpt2-345m", over={"global_bach": [1]})
    with pytest.raises(dv.InvalidInput, match="both varied and fixed"):
        dv.sweep(model="gpt2-345m", over={"model": ["bert-base"]})


def test_a_cluster_of_ones_own_is_not_resized():
    own = replace(load_any_cluster("h100x8"), name="mine")
    assert dv.simulate(model="gpt2-345m", cluster=own, plan=PLAN, global_batch=64).fits
    with pytest.raises(dv.InvalidInput, match=r"mine has 8 devices and is given whole; build it with 16.*\(devices\)"):
        dv.simulate(model="gpt2-345m", cluster=own, devices=16, plan=PLAN)


def test_a_timeline_of_a_step_is_written(tmp_path, step):
    step.to_perfetto(tmp_path / "step.pftrace", ranks=[0])
    assert (tmp_path / "step.pftrace").stat().st_size > 100
    with pytest.raises(dv.InvalidInput, match="perfetto"):
        step.to_perfetto(tmp_path / "step.json")
