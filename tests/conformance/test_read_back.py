"""Launch text read back: what a launcher writes for a plan that it runs as it is, is read as that plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.errors import DovetailError, InvalidInput
from dovetail.hardware.clusters import clusters
from dovetail.parallel.plan import AXES, Overlap, Plan, columns_of
from dovetail.report.launchers.fallbacks import nested_order
from dovetail.report.launchers.frameworks import launchers
from dovetail.report.launchers.launch import launch_text, script
from dovetail.report.launchers.read_back import read_back
from dovetail.report.launchers.runnable_spaces import runnable_spaces, runs_as_it_is
from dovetail.report.launchers.wrappers import WrappedJob, wrappers
from tests.conformance.test_framework_rules import WORKLOADS, plans_of

RECOMPUTE = {
    "megatron-lm": ({"recompute": ("full",), "recompute_layers": (2,)}, {"recompute": ("selective",)}),
    "megatron-bridge": ({"recompute": ("full",), "recompute_layers": (2,)}, {"recompute": ("selective",)}),
    "torchtitan": ({"recompute": ("selective-op",)}, {"recompute": ("full",)}),
    "maxtext": ({"recompute": ("nothing_saveable",)}, {"recompute": ("minimal",)}),
}
NUM_READ = 40


@pytest.mark.parametrize("framework", launchers.names())
@pytest.mark.parametrize("model", WORKLOADS)
def test_what_is_written_is_read_as_the_plan_that_it_was_written_for(framework: str, model: str):
    entry = launchers[framework]
    cluster = clusters["tpu-v5p-pod" if entry.is_for_tpus else "dgx-h100"].build(32)
    num_read = 0
    for version in entry.versions:
        for space in runnable_spaces(framework, version, WORKLOADS[model], cluster, ()):
            runs = runs_as_it_is(entry.at(version), space.workload, cluster)
            changes = ({}, *RECOMPUTE.get(framework, ({"recompute": ("full",)},)))
            plans = [plan for plan in plans_of(framework, space.workload) if plan.zero_stage in space.space.zero_stage]
            for place, plan in enumerate(plans):
                wanted = replace(plan, **changes[place % len(changes)])
                if num_read >= NUM_READ or not runs(wanted) or not space.rules(columns_of([plan]))[0]:
                    continue
                text = launch_text(entry.at(version)(space.workload, cluster, wanted))
                found = read_back(text, WORKLOADS[model], cluster)
                assert plain(found.plan) == plain(wanted), text
                assert (found.workload, found.version) == (space.workload, version)
                num_read += 1
    assert num_read > 3


def plain(plan: Plan) -> Plan:
    """`plan` without what makes no difference: choices about ranks that there is one of."""
    degrees = {"data": plan.data_parallel * plan.context_parallel, "tensor": plan.tensor_parallel}
    degrees |= {"context": plan.context_parallel, "expert": plan.expert_parallel, "pipeline": plan.pipeline_parallel}
    if plan.context_comm_type == "all-to-all":
        degrees["context"] = 1  # heads that are dealt out are always waited for
    alone = {name: getattr(Overlap(), name) for name, degree in degrees.items() if degree == 1}
    is_plain = nested_order(plan) == nested_order(replace(plan, axis_order=AXES))
    return replace(
        plan,
        axis_order=AXES if is_plain else plan.axis_order,
        context_comm_type=plan.context_comm_type if plan.context_parallel > 1 else "gather",
        schedule=plan.schedule if plan.pipeline_parallel > 1 else "1f1b",
        zero_stage=plan.zero_stage if plan.data_parallel * plan.context_parallel > 1 else 0,
        overlap=replace(plan.overlap, **alone),
    )


@pytest.mark.parametrize("wrapper", wrappers.names())
def test_text_wrapped_for_a_batch_system_is_read_too(wrapper: str):
    cluster, workload = clusters["dgx-h100"].build(32), WORKLOADS["llama3-8b"]
    runs = runs_as_it_is(launchers["megatron-lm"], workload, cluster)
    plan = next(plan for plan in plans_of("megatron-lm", workload) if runs(plan))
    text = script(launchers["megatron-lm"](workload, cluster, plan))
    job = WrappedJob(name="a", script=text, num_hosts=4, devices_per_host=8)
    assert read_back(wrappers[wrapper](job), workload, cluster).plan.num_devices == 32


def test_text_that_says_nothing_or_something_else_is_one_line():
    cluster, workload = clusters["dgx-h100"].build(32), WORKLOADS["llama3-8b"]
    with pytest.raises(InvalidInput, match="no command that starts a framework"):
        read_back("echo hello\n", workload, cluster)
    with pytest.raises(InvalidInput, match="must divide the cluster's 32"):
        read_back("torchrun pretrain_gpt.py --tensor-model-parallel-size 3\n", workload, cluster)
    with pytest.raises(DovetailError, match="lacks '--pipeline-model-parallel-size 1'"):
        read_back("torchrun pretrain_gpt.py --tensor-model-parallel-size 2 --micro-batch-size 1\n", workload, cluster)


def test_options_that_are_not_read_and_other_numbers_of_ranks_are_refused_and_logging_is_not():
    cluster, workload = clusters["dgx-h100"].build(32), WORKLOADS["llama3-8b"]
    runs = runs_as_it_is(launchers["megatron-lm"], workload, cluster)
    plan = next(plan for plan in plans_of("megatron-lm", workload) if runs(plan))
    text = script(launchers["megatron-lm"](workload, cluster, plan)).rstrip()
    read = read_back(text, workload, cluster)
    assert read_back(f"{text} --log-throughput --save-interval 500\n", workload, cluster) == read
    with pytest.raises(InvalidInput, match=r"not read: --foo-bar, --fp8-format; correct their spelling"):
        read_back(f"{text} --fp8-format hybrid --foo-bar 7\n", workload, cluster)
    with pytest.raises(InvalidInput, match="starts 32 ranks, and the cluster has 16 devices"):
        read_back(text, workload, clusters["dgx-h100"].build(16))
