"""Completion offers what the catalogues hold, although it reads them as text."""

from __future__ import annotations

from typing import get_args

import pytest

from dovetail.api.reproduced import PAPERS
from dovetail.api.traced import ENGINES
from dovetail.cli.completion import (
    CHIPS,
    CLUSTERS,
    LABELS,
    MODELS,
    PACKAGES,
    PLANS,
    SHELLS,
    completion_script,
    names_for,
    registered,
)
from dovetail.comm.events.program import Policy
from dovetail.comm.events.schedules import algorithms as collective_algorithms
from dovetail.comm.one_collective import EngineName
from dovetail.cost.op_cost import Setting
from dovetail.errors import InvalidInput
from dovetail.files.measurements import SHIPPED
from dovetail.hardware.catalog import chips
from dovetail.hardware.clusters import clusters
from dovetail.parallel.plan import RECOMPUTE_POLICIES
from dovetail.parallel.recipes import plans
from dovetail.registry import Registry
from dovetail.report.launchers.frameworks import launchers
from dovetail.search.algorithms import algorithms
from dovetail.search.metrics import metrics
from dovetail.search.mining.stages import MOSAIC, ONE, POOLED
from dovetail.search.objectives import objectives
from dovetail.workload.models import models

REGISTRIES = {
    MODELS: models,
    CHIPS: chips,
    CLUSTERS: clusters,
    PLANS: plans,
    "dovetail.report.launchers.frameworks": launchers,
    "dovetail.search.algorithms": algorithms,
    "dovetail.comm.events.schedules": collective_algorithms,
}


def test_every_package_that_is_read_is_compared_here():
    assert {package for some in PACKAGES.values() for package in some} == set(REGISTRIES)


@pytest.mark.parametrize(("package", "registry"), REGISTRIES.items(), ids=REGISTRIES)
def test_names_read_as_text_are_those_that_are_registered(package: str, registry: Registry[object]):
    assert sorted(registered(package)) == list(registry.names())


@pytest.mark.parametrize(
    ("key", "known"),
    [
        ("--objective", objectives.names()),
        ("--metric", metrics.names()),
        ("--recompute", RECOMPUTE_POLICIES),
        ("--policy", get_args(Policy)),
        ("--stages", (ONE, MOSAIC, POOLED)),
        ("--setting", [setting.value for setting in Setting]),
        ("network --engine", get_args(EngineName)),
        ("trace run --engine", ENGINES),
        ("reproduce PAPER", PAPERS),
        ("validate SET|FILE|FOLDER", (*SHIPPED, "published-gemm")),
    ],
)
def test_words_that_are_offered_are_those_that_are_taken(key: str, known: tuple[str, ...]):
    assert sorted(LABELS[key]) == sorted(known)


def test_an_option_of_the_same_name_is_not_taken_for_another():
    assert "dgx-h100" in names_for("dovetail simulate", "--cluster")
    assert {"halving-doubling", "ring", "nvls-tree"} <= set(names_for("dovetail network", "--algorithm"))
    assert "anneal" not in names_for("dovetail network", "--algorithm")
    assert "anneal" in names_for("dovetail mine", "--algorithm")
    assert names_for("dovetail network", "--engine") != names_for("dovetail trace run", "--engine")


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_has_a_script_that_calls_the_command(shell: str):
    assert f"_DOVETAIL_COMPLETE=complete_{shell}" in completion_script(shell)


def test_another_shell_is_refused_with_those_that_are_known():
    with pytest.raises(InvalidInput, match="did you mean fish"):
        completion_script("fsh")
