"""Every kernel set says where it comes from, names what there is, and is never faster than a compiled step."""

from __future__ import annotations

from functools import cache

import pytest

from dovetail.accuracy.jobs import PURE_BF16, alone
from dovetail.hardware.catalog import chips
from dovetail.parallel.frameworks import framework_name
from dovetail.parallel.plan import Plan
from dovetail.step.step import training_step
from dovetail.workload.kernel_sets import COMPILED_PARTS, framework_sets, kernel_sets
from dovetail.workload.layers import Sample
from dovetail.workload.models import models
from dovetail.workload.operators import operators
from dovetail.workload.training import training_graph

every_set = pytest.mark.parametrize("name", kernel_sets.names())
PARTS = {"norm", "rotary", "activation", "softmax", "experts", "cross-entropy", "optimizer"}


@every_set
def test_a_kernel_set_names_its_source_and_operators_that_there_are(name):
    found = kernel_sets[name]
    assert found.summary
    assert found.source
    assert found.compiled in COMPILED_PARTS
    assert found.loss.endswith("cross_entropy")
    assert all(kind in operators for kind in (found.loss, *found.unfused))


@pytest.mark.parametrize("name", framework_sets())
def test_the_set_of_a_framework_has_its_name_and_says_what_runs_each_part(name):
    found = kernel_sets[name]
    assert framework_name(found.framework) == name
    assert {part for part, _ in found.parts} == PARTS


@cache
def step_s(name: str, kernels: str) -> float:
    sample = Sample(batch=2, seq=1024, dtype="bf16", kernels=kernels)
    graph = training_graph(models[name]().forward(sample), PURE_BF16)
    return float(training_step(graph, Plan(microbatch=2), alone(chips["h200-sxm"]()), PURE_BF16).step_s)


@every_set
def test_no_set_is_faster_than_a_compiled_step(name):
    assert step_s("llama2-7b", "compiled") <= step_s("llama2-7b", name) < 1.2 * step_s("llama2-7b", "compiled")


def test_rotary_and_swiglu_written_out_cost_deepspeed_more_than_megatron_lm():
    assert step_s("llama2-7b", "megatron-lm") < 0.99 * step_s("llama2-7b", "deepspeed")
