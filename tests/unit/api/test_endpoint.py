"""`simulate` and `plan` with another endpoint than the chip's own."""

from __future__ import annotations

from typing import Any

import pytest

import dovetail
from dovetail.api.simulated import Simulation
from dovetail.errors import InvalidInput, NotModelled
from dovetail.hardware.chip import Chip
from dovetail.hardware.cluster import Cluster

JOB: dict[str, Any] = {"model": "llama3-8b", "cluster": "h100x64", "global_batch": 64, "seq": 2048}
PLAN = {"data_parallel": 64, "zero_stage": 3}


def chip_of(found: Simulation) -> Chip:
    assert isinstance(found.outcome.cluster, Cluster)
    return found.outcome.cluster.chip


def test_an_endpoint_that_takes_no_cores_makes_a_step_no_longer() -> None:
    own, dma = (dovetail.simulate(**JOB, plan=PLAN, endpoint=name) for name in ("", "dma"))
    assert chip_of(dma).endpoint == "dma"
    assert dma.step_s < own.step_s


def test_the_chips_own_endpoint_by_name_changes_nothing() -> None:
    own, named = (dovetail.simulate(**JOB, plan=PLAN, endpoint=name) for name in ("", "sm"))
    assert named.record == own.record


def test_an_alias_is_the_endpoint_that_it_names_and_plans_take_it_too() -> None:
    found = dovetail.plan(**JOB, endpoint="nvls", fix=("tp=8", "pp=1", "cp=1"), top=1)
    assert chip_of(found.best).endpoint == "in-switch"


def test_an_endpoint_that_is_none_or_needs_switches_is_refused_in_one_line() -> None:
    with pytest.raises(InvalidInput, match=r"no endpoint is named 'frob'.*endpoint"):
        dovetail.simulate(**JOB, plan=PLAN, endpoint="frob")
    with pytest.raises(NotModelled, match="without switches that add"):
        dovetail.simulate(model="llama3-8b", cluster="tpu-v4-pod", devices=64, plan=PLAN, endpoint="in-switch")
