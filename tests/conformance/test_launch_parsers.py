"""accelerate's own parser takes what is written for it; python -m benchmarks.launch_check asks the other frameworks."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from benchmarks.launch_check import JOBS, RECORD
from benchmarks.launch_parsers import accelerate
from dovetail.hardware.clusters import clusters
from dovetail.parallel.plan import Plan
from dovetail.report.launchers.frameworks import launchers
from dovetail.report.launchers.launch import Launch, launch_record
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

PLANS = (
    Plan(data_parallel=64, zero_stage=3, recompute=("full",)),
    Plan(data_parallel=16, tensor_parallel=4, zero_stage=2),
    Plan(data_parallel=8, context_parallel=8, context_comm_type="ring", zero_stage=3),
    Plan(data_parallel=8, zero_stage=3),
)


def launched(plan: Plan) -> Launch:
    workload = Workload(model=models["llama3-8b"](), global_batch=64, seq=8192)
    return launchers["fsdp2"](workload, clusters["dgx-h100"].build(plan.num_devices), plan)


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_accelerate_takes_what_is_written_for_it(plan):
    assert accelerate(launch_record(launched(plan))) == ""


def test_accelerate_refuses_a_word_that_it_does_not_have():
    started = launched(PLANS[0])
    wrong = replace(started, config=started.config.replace("fsdp_auto_wrap_policy", "fsdp_wrap_it_all"))
    with pytest.raises(AssertionError, match="accelerate launch has no"):
        accelerate(launch_record(wrong))


def test_the_record_of_parsers_is_of_every_job_and_of_releases_that_are_written_for():
    rows = json.loads(RECORD.read_text(encoding="utf-8"))["rows"]
    assert {row["job"] for row in rows} == set(JOBS)
    assert {(row["framework"], row["release"]) for row in rows} == {
        (name, entry.versions[0]) for name, entry in launchers.items()
    }
