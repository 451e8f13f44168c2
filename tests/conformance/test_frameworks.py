"""Every framework says what it is and where its figures come from, and only ever adds memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dovetail.accuracy.runs.row import Row
from dovetail.accuracy.runs.stacks import stack_of
from dovetail.api import launch
from dovetail.files.job import load_spec
from dovetail.parallel.frameworks import framework_name, frameworks
from dovetail.parallel.memory import StageMemory, moments, runtime_bytes
from dovetail.parallel.plan import Plan
from dovetail.parallel.sharding import shard
from dovetail.report.launchers.frameworks import launchers
from dovetail.workload.layers import Sample
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.training import training_graph

SPEC = """
workload: {{model: llama3-8b, global_batch: 64}}
cluster: {{name: dgx-h100, devices: 8}}
plan: {{zero_stage: 1, framework: {}}}
"""
PLANS = (
    Plan(),
    Plan(tensor_parallel=4, sequence_parallel=True, data_parallel=2, zero_stage=1),
    Plan(pipeline_parallel=4, data_parallel=2, zero_stage=3, recompute=("full",)),
)


NAMES = [(said, name) for name, framework in frameworks.items() for said in (name, name.upper(), *framework.aliases)]


@pytest.mark.parametrize(("said", "name"), NAMES)
def test_a_framework_is_read_by_all_its_names_wherever_one_is_named(said: str, name: str, tmp_path: Path) -> None:
    assert framework_name(said) == name
    assert Plan(framework=said) == Plan(framework=name)
    file = tmp_path / "spec.yaml"
    file.write_text(SPEC.format(said), encoding="utf-8")
    assert load_spec(file).plan.framework == name
    if name in launchers:
        scripts = [launch(model="llama3-8b", cluster="h100x8", plan="zero3", framework=each) for each in (said, name)]
        assert scripts[0].record == scripts[1].record
        assert framework_name(scripts[0].record["framework"]) == name
    assert stack_of(row(framework=said)) == stack_of(row(framework=name))


def test_every_launcher_is_of_a_framework_and_no_name_is_of_two() -> None:
    assert set(launchers.names()) <= set(frameworks.names())
    said = [one for one, _ in NAMES if one == one.lower()]
    assert len(said) == len(set(said))


def row(**cells: str) -> Row:
    """A run of a table of one's own, of a framework and nothing else that a stack is known by."""
    return Row(cells={"precision": "bf16", **cells})


@pytest.mark.parametrize("name", frameworks.names())
@pytest.mark.parametrize("plan", PLANS, ids=("whole", "tensor", "pipeline"))
def test_a_framework_takes_no_less_than_training_needs(name: str, plan: Plan) -> None:
    """But for PyTorch's own reserve, and for how many gathered weights stand at once: those are the framework's."""
    assert frameworks[name].summary
    assert frameworks[name].source
    plain, own = (moments_of(plan, framework) for framework in ("plain", name))
    if not frameworks[name].has_static_buffers:
        assert max(m.reserved_bytes for m in own) >= max(m.reserved_bytes for m in plain)
    kept = ("weights_bytes", "gradients_bytes", "optimizer_bytes", "activations_bytes")
    for one, other in zip(own, plain, strict=True):
        assert all(getattr(one, amount) >= getattr(other, amount) for amount in kept)


def test_a_compiler_that_lays_buffers_out_reserves_nothing_beside_them() -> None:
    for name, framework in frameworks.items():
        reserved = [one.reserve_bytes for one in moments_of(PLANS[1], name)]
        assert (max(reserved) == 0.0) == framework.has_static_buffers
        assert (runtime_bytes(replace(PLANS[1], framework=name)) == 0.0) == framework.has_static_buffers


def moments_of(plan: Plan, framework: str) -> tuple[StageMemory, ...]:
    precision = Precision()
    graph = training_graph(models["llama3-8b"]().forward(Sample(batch=16, seq=1024, dtype="bf16")), precision)
    return moments(shard(graph, replace(plan, framework=framework)), 0, precision, 2.0)
