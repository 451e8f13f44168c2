from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.errors import InvalidInput
from dovetail.evaluate import Outcome, evaluate
from dovetail.hardware.clusters import clusters
from dovetail.hardware.heterogeneous import HeterogeneousCluster
from dovetail.hardware.link import Link
from dovetail.parallel.plan import Plan
from dovetail.report.launchers.frameworks import launchers
from dovetail.report.launchers.host_ranks import pool_notes
from dovetail.report.launchers.launch import hosts
from dovetail.report.pools import in_a_row_of, pool_records
from dovetail.units import GIGA
from dovetail.workload.models import models
from dovetail.workload.workload import Workload
from tests.unit.report.conftest import record, tables

BETWEEN = Link(bandwidth_bytes_per_s=25 * GIGA, latency_s=0.0)
MIXED = HeterogeneousCluster(
    name="mixed", pools=(clusters["dgx-h100"].build(16), clusters["dgx-a100"].build(16)), between=BETWEEN
)
PLAN = Plan(
    tensor_parallel=4, pipeline_parallel=4, data_parallel=2, layers_per_stage=(11, 12, 5, 4), stage_pools=(0, 0, 1, 1)
)


def outcome(plan: Plan = PLAN) -> Outcome:
    found = evaluate(Workload(model=models["llama3-8b"](), global_batch=32, seq=4096), MIXED, plan)
    assert isinstance(found, Outcome)
    return found


def test_tables_say_what_is_on_which_pool_and_where_the_slowest_stage_is():
    found = outcome()
    shown = {table.title: table for table in tables(found)}
    [pools] = [table for table in shown.values() if ("dgx-h100", "h100-sxm") in {row[:2] for row in table.rows}]
    assert [row[:5] for row in pools.rows] == [
        ("dgx-h100", "h100-sxm", "16", "0-1", "11,12"),
        ("dgx-a100", "a100-80gb-sxm", "16", "2-3", "5,4"),
    ]
    slowest = int(found.step.slowest_stage)
    chip = MIXED.pools[PLAN.stage_pools[slowest]].chip.name
    assert any(title.startswith(f"Where the time goes, on a device of stage {slowest}, on {chip}") for title in shown)


def test_the_record_has_the_pools_and_each_stage_its_limit():
    said = record(outcome())
    assert said["pools"] == pool_records(outcome())
    assert [(pool["name"], pool["stages"]) for pool in said["pools"]] == [("dgx-h100", [0, 1]), ("dgx-a100", [2, 3])]
    assert said["chip"] == "h100-sxm and a100-80gb-sxm"
    assert [stage["limit_bytes"] for stage in said["memory"]["stages"]] == [
        MIXED.pools[pool].usable_bytes for pool in PLAN.stage_pools
    ]


def test_elasticities_are_of_one_pool_or_between_them():
    resources = {each.resource for each in outcome().elasticities}
    assert {"tensor FLOP/s of dgx-a100", "nvlink bandwidth of dgx-h100"} <= resources
    assert any("between" in resource for resource in resources)


def test_stages_in_a_row_are_one_range():
    assert in_a_row_of([0, 1, 2, 5, 7, 8]) == "0-2, 5, 7-8"


def test_hosts_are_numbered_so_that_stages_are_on_their_pools():
    turned = replace(PLAN, stage_pools=(1, 1, 0, 0))
    assert pool_notes(PLAN, MIXED.pools[0], 8) == ()
    assert pool_notes(PLAN, MIXED, 8)[0].endswith("NODE_RANK must be 0-1 on dgx-h100, 2-3 on dgx-a100")
    assert pool_notes(turned, MIXED, 8)[0].endswith("0-1 on dgx-a100, 2-3 on dgx-h100")
    inner = replace(
        PLAN, tensor_parallel=8, data_parallel=2, pipeline_parallel=2, stage_pools=(0, 1), layers_per_stage=()
    )
    by_replica = pool_notes(inner, MIXED, 8, ("tp", "cp", "pp", "dp"))
    assert by_replica[0].endswith("0 on dgx-h100, 1 on dgx-a100, 2 on dgx-h100, 3 on dgx-a100")
    assert "NODE_RANK" not in pool_notes(PLAN, MIXED, 8, ("pp", "tp", "cp", "dp"))[0]


@pytest.mark.parametrize("framework", [name for name in launchers.names() if name != "fsdp2"])  # which has no stages
def test_launches_say_which_hosts_are_which(framework: str):
    found = outcome(replace(PLAN, zero_stage=2 if framework == "torchtitan" else 1))
    launch = launchers[framework](found.workload, MIXED, found.plan)
    numbered = "hosts of the hostfile, the first being 0, must be" if framework == "deepspeed" else "NODE_RANK must be"
    assert any(f"{numbered} 0-1 on dgx-h100, 2-3 on dgx-a100" in note for note in launch.notes)
    uses_rank = any("$NODE_RANK" in pool for one in launch.command for pool in one.words)
    assert uses_rank == (numbered == "NODE_RANK must be" and framework != "maxtext")  # jax.distributed asks the hosts
    assert not any("stage_pools" in missing.what for missing in launch.missing)


def test_hosts_of_different_size_cannot_be_started_together():
    small = clusters["dgx-a100"].build(4)
    with pytest.raises(InvalidInput, match="hosts of 8 and 4 devices cannot be started together"):
        hosts(replace(MIXED, pools=(MIXED.pools[0], small)))
