from __future__ import annotations

import json
import math

import pytest

from dovetail import __version__
from dovetail.evaluate import Outcome, evaluate
from dovetail.hardware.clusters import clusters
from dovetail.parallel.plan import Plan
from dovetail.workload.models import models
from dovetail.workload.workload import Workload
from tests.unit.report.conftest import evaluated, record
from tests.unit_rules import hides_a_prefix, says_its_unit, sounds_like_quantity


def numbers(value, path=""):
    if isinstance(value, dict):
        for key, item in value.items():
            yield from numbers(item, f"{path}.{key}")
    elif isinstance(value, list):
        for item in value:
            yield from numbers(item, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value


def test_a_record_goes_through_json_and_back_unchanged(outcome, infeasible):
    for result in (outcome, infeasible):
        said = record(result, "a job")
        assert json.loads(json.dumps(said, allow_nan=False)) == said


def test_the_parts_of_the_time_add_up_to_the_step(outcome):
    said = record(outcome)
    time = said["time"]
    exposed_s = sum(axis["exposed_s"] for axis in time["communication"].values())
    parts_s = time["compute_s"] + time["host_s"] + exposed_s + time["bubble_s"] + time["update_s"]
    assert parts_s == pytest.approx(said["step_s"], rel=1e-9)


def test_compute_by_limit_adds_up_to_compute(outcome):
    time = record(outcome)["time"]
    assert sum(time["compute_by_limit"].values()) == pytest.approx(time["compute_s"], rel=1e-9)
    assert set(time["compute_by_limit"]) == {"tensor_s", "vector_s", "sram_s", "hbm_s", "latency_s", "launch_s"}


def test_the_clock_and_the_wait_for_the_host_are_recorded(outcome):
    time = record(outcome)["time"]
    assert (time["clock_frac"], time["host_s"]) == (outcome.step.clock_frac, outcome.step.host_s)
    assert 0.5 < time["clock_frac"] < 1
    assert time["host_s"] == 0.0


def test_a_small_eager_model_waits_for_its_host_and_the_parts_still_add_up():
    entry = models["gpt2-345m"]()
    workload = Workload(model=entry, global_batch=8, seq=64, kernels="eager")
    result = evaluate(workload, clusters["dgx-h100"].build(8), Plan(data_parallel=8))
    assert isinstance(result, Outcome)
    time = record(result)["time"]
    exposed_s = sum(axis["exposed_s"] for axis in time["communication"].values())
    parts_s = time["compute_s"] + time["host_s"] + exposed_s + time["bubble_s"] + time["update_s"]
    assert time["host_s"] > time["compute_s"]
    assert parts_s == pytest.approx(result.step.step_s, rel=1e-9)


def test_the_headline_says_what_the_outcome_says(outcome):
    said = record(outcome, "a job")
    assert said["name"] == "a job"
    assert said["feasible"] is True
    assert said["step_s"] == outcome.step.step_s
    assert said["mfu_frac"] == outcome.mfu_frac
    assert said["energy_j_per_token"] * outcome.tokens_per_step == pytest.approx(outcome.step.energy_j)
    assert said["version"] == __version__


def test_images_are_not_called_tokens():
    result = evaluated(Plan(data_parallel=8, microbatch=8), model="vit-l-16")
    assert isinstance(result, Outcome)
    said = record(result)
    assert not [key for key in said if "token" in key]
    assert said["num_samples"] == 64
    assert said["samples_per_s"] * said["step_s"] == pytest.approx(64)
    assert said["energy_j_per_sample"] * 64 == pytest.approx(said["energy_j"])


def test_memory_has_one_entry_a_stage_and_their_kinds_add_up(outcome):
    stages = record(outcome)["memory"]["stages"]
    assert [stage["stage"] for stage in stages] == [0, 1, 2, 3]
    assert sum(stage["num_layers"] for stage in stages) == 32
    for stage in stages:
        kinds = ("weights", "gradients", "optimizer", "activations", "buffers")
        assert sum(stage[f"{kind}_bytes"] for kind in kinds) == pytest.approx(stage["total_bytes"])
        assert stage["recompute"] == "selective"


def test_the_plan_is_echoed_in_full_and_placed(outcome):
    said = record(outcome)
    assert said["plan"]["tensor_parallel"] == 2
    assert said["plan"]["recompute"] == ["selective"]
    assert said["plan"]["overlap"]["data"] is True
    assert said["placement"]["tp"] == [{"dimension": "nvlink", "num_ranks": 2, "stride": 1}]


def test_an_infeasible_record_says_need_limit_excess_and_levers(infeasible):
    said = record(infeasible)
    assert said["feasible"] is False
    assert said["need_bytes"] - said["limit_bytes"] == pytest.approx(said["excess_bytes"])
    assert said["excess_bytes"] > 0
    assert said["memory"]["fits"] is False
    assert said["levers"]
    assert set(said["levers"][0]) == {"change", "need_bytes", "memory", "step_s", "fits"}
    assert "step_s" not in said


def test_every_number_is_finite_and_its_key_hides_no_prefix(outcome, infeasible):
    for result in (outcome, infeasible):
        for path, value in numbers(record(result)):
            key = path.rpartition(".")[2]
            assert math.isfinite(value), path
            assert not hides_a_prefix(key), path
            assert says_its_unit(key) or not sounds_like_quantity(key), f"{path} is a quantity without its unit"


def test_the_same_question_gets_the_same_record(outcome):
    assert record(outcome) == record(outcome)
