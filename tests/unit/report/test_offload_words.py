"""What is said of offload: in the plan's line, in the time and memory tables, and where a host has no room."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from dovetail.evaluate import Infeasible, Outcome, evaluate
from dovetail.hardware.clusters import clusters
from dovetail.hardware.host import Host
from dovetail.parallel.plan import Plan
from dovetail.report.labels import plan_in_brief
from dovetail.report.table import text_of
from dovetail.units import GIBI
from dovetail.workload.models import models
from dovetail.workload.workload import Workload
from tests.unit.report.conftest import record, tables

PLAN = Plan(
    data_parallel=8, zero_stage=1, recompute=("norm-activation",), offload_optimizer=True, offload_activations_frac=0.5
)


@cache
def answer(host_gib: float = 2000.0, plan: Plan = PLAN) -> Outcome | Infeasible:
    on = clusters["dgx-h100"].build(8)
    assert isinstance(on.host, Host)
    on = replace(on, host=replace(on.host, memory_bytes=host_gib * GIBI))
    return evaluate(Workload(model=models["llama3-8b"](), global_batch=16, seq=8192), on, plan)


def text(result: Outcome | Infeasible) -> str:
    return " ".join(text_of(tables(result)).split())


def test_a_plan_says_in_brief_what_is_the_hosts():
    assert "optimizer and 50 % of activations on the host" in plan_in_brief(PLAN)
    assert "optimizer on the host" in plan_in_brief(Plan(offload_optimizer=True))
    assert "host" not in plan_in_brief(Plan())


def test_copies_and_the_hosts_memory_have_lines_of_their_own():
    told = text(answer())
    assert "copies to the host" in told
    assert "for a device, of 250.0 GiB:" in told
    assert "the host gives each device 31.5 GB/s each way" in told
    plain = text(answer(plan=replace(PLAN, offload_optimizer=False, offload_activations_frac=0.0)))
    assert "copies to the host" not in plain
    assert "the host keeps" not in plain


def test_a_host_without_room_is_what_is_lacking():
    result = answer(host_gib=80.0)
    assert isinstance(result, Infeasible)
    told = text(result)
    assert "on the host for a device" in told
    assert "10.0 GiB, a device's share of the host's memory" in told
    found = record(result)
    assert found["exceeded_memory"] == "host"
    assert found["limit_bytes"] == 10 * GIBI
    assert found["excess_bytes"] == found["need_bytes"] - found["limit_bytes"] > 0
    assert not found["memory"]["fits"]


def test_a_device_without_room_is_what_is_lacking_whatever_the_host_has():
    result = answer(plan=Plan(data_parallel=8, microbatch=2, offload_activations_frac=0.1))
    assert isinstance(result, Infeasible)
    assert record(result)["exceeded_memory"] == "device"


def test_what_is_copied_is_in_the_record_of_time():
    result = answer()
    assert isinstance(result, Outcome)
    moved = record(result)["time"]["offload"]
    assert moved == {"exposed_s": result.step.offload.exposed_s, "hidden_s": result.step.offload.hidden_s}
    assert moved["exposed_s"] > 0
