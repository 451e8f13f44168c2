"""Laws of what is written for a plan: degrees multiply to the devices, texts parse, and a plan file gives it back."""

from __future__ import annotations

import json
import math
import tomllib
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dovetail.errors import DovetailError
from dovetail.files.job import load_plan
from dovetail.files.plan_text import plan_text
from dovetail.hardware.clusters import clusters
from dovetail.parallel.frameworks import frameworks
from dovetail.parallel.plan import AXES, CONTEXT_COMM_TYPES, RECOMPUTE_POLICIES, Overlap, Plan
from dovetail.report.launchers.frameworks import launchers
from dovetail.report.launchers.launch import Launch, launch_text
from dovetail.workload.experts import Experts
from dovetail.workload.models import models
from dovetail.workload.transformer import Transformer
from dovetail.workload.workload import Workload

NUM_MICROBATCHES = 16
DENSE = Transformer(
    name="wide", num_layers=64, hidden=1024, num_heads=16, num_kv_heads=8, head_width=64, ffn_width=4096, vocab=1000
)
SPARSE = replace(DENSE, name="sparse", experts=Experts(num_experts=8, num_experts_per_token=2, width=1024))
SETTINGS = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
powers = st.sampled_from([1, 2, 4])


@st.composite
def _layers(draw: st.DrawFn, num_chunks: int) -> tuple[int, ...]:
    """64 layers over chunks of at least one."""
    cuts = draw(st.lists(st.integers(1, 63), min_size=num_chunks - 1, max_size=num_chunks - 1, unique=True))
    bounds = [0, *sorted(cuts), 64]
    return tuple(end - begin for begin, end in pairwise(bounds))


@st.composite
def plans_for(draw: st.DrawFn, shape: Transformer) -> Plan:
    """A plan that `shape` can be cut by, with every choice a plan has."""
    tp, cp, pp, dp = draw(powers), draw(powers), draw(powers), draw(powers)
    has_experts = shape.experts is not None
    is_dealt = shape.num_kv_heads % (tp * cp) == 0  # all-to-all deals heads out
    exchanges = [name for name in CONTEXT_COMM_TYPES if is_dealt or name != "all-to-all"]
    interleave = draw(st.sampled_from([1, 2, 4])) if pp > 1 else 1
    schedule = draw(st.sampled_from(["1f1b", "gpipe", "zb-h1"] if interleave == 1 and pp > 1 else ["1f1b"]))
    if interleave == 2:
        schedule = draw(st.sampled_from(["1f1b", "zb-v"]))
    ep = draw(st.sampled_from([e for e in (1, 2, 4, 8) if (dp * cp) % e == 0])) if has_experts else 1
    recompute = draw(st.one_of(
        st.sampled_from(RECOMPUTE_POLICIES).map(lambda policy: (policy,)),
        st.lists(st.sampled_from(RECOMPUTE_POLICIES), min_size=pp, max_size=pp).map(tuple),
    ))  # fmt: skip
    by_stage = tuple(stage % 2 for stage in range(pp))  # a stage may hold one layer
    counts = () if set(recompute) == {"none"} else draw(st.sampled_from([(), (1,), (4,), by_stage]))
    return Plan(
        tensor_parallel=tp,
        sequence_parallel=draw(st.booleans()) or has_experts,
        context_parallel=cp,
        context_comm_type=draw(st.sampled_from(exchanges)),
        pipeline_parallel=pp,
        interleave=interleave,
        schedule=schedule,
        data_parallel=dp,
        expert_parallel=ep,
        expert_tensor_parallel=draw(st.sampled_from([1, tp])) if has_experts else 1,
        dispatcher=draw(st.sampled_from(("all-to-all", "deepep", "hybridep", "all-gather"))),
        zero_stage=draw(st.integers(0, 3)),
        microbatch=draw(st.integers(1, 3)),
        recompute=recompute,
        recompute_layers=counts,
        layers_per_stage=draw(st.one_of(st.just(()), _layers(pp * interleave))),
        offload_optimizer=draw(st.booleans()),
        offload_activations_frac=draw(st.just(0.0) | st.floats(1e-30, 1)),  # as files say it
        framework=draw(st.sampled_from(frameworks.names())),
        axis_order=tuple(draw(st.permutations(AXES))),
        overlap=draw(st.builds(Overlap, **{one.name: st.booleans() for one in fields(Overlap)})),
    )  # fmt: skip


cases = st.one_of(*(st.tuples(st.just(shape), plans_for(shape)) for shape in (DENSE, SPARSE)))


def workload_for(shape: Transformer, plan: Plan) -> Workload:
    model = replace(models["llama3-8b"](), architecture=shape)
    return Workload(model=model, global_batch=NUM_MICROBATCHES * plan.data_parallel * plan.microbatch, seq=1024)


def started(framework: str, shape: Transformer, plan: Plan) -> Launch | None:
    """What starts the plan, or nothing where that is refused in one line."""
    cluster = clusters["dgx-h100"].build(plan.num_devices)
    try:
        name, _, version = framework.partition(" ")
        launcher = launchers[name].at(launchers[name].version(version))
        return launcher(workload_for(shape, plan), cluster, plan)
    except DovetailError:
        return None


def flag_of(launch: Launch, name: str) -> int:
    words = launch.words
    return int(words[words.index(name) + 1]) if name in words else 1


@SETTINGS
@given(cases)
def test_a_plan_comes_back_from_its_file(tmp_path: Path, case: tuple[Transformer, Plan]):
    shape, plan = case
    file = tmp_path / "plan.yaml"
    file.write_text(plan_text(plan), encoding="utf-8")
    assert load_plan(str(file), workload_for(shape, plan), clusters["dgx-h100"].build(plan.num_devices)) == plan


@SETTINGS
@given(cases)
def test_degrees_told_to_megatron_lm_leave_the_plans_data_parallelism(case: tuple[Transformer, Plan]):
    shape, plan = case
    launch = started("megatron-lm", shape, plan)
    if launch is None:
        return
    names = ("--tensor-model-parallel-size", "--pipeline-model-parallel-size", "--context-parallel-size")
    num_ranks = flag_of(launch, "--nnodes") * flag_of(launch, "--nproc-per-node")
    assert num_ranks == plan.num_devices
    assert num_ranks == math.prod(flag_of(launch, name) for name in names) * plan.data_parallel
    share = flag_of(launch, "--micro-batch-size") * plan.data_parallel
    assert flag_of(launch, "--global-batch-size") == NUM_MICROBATCHES * share
    arguments = [one.words[0] for one in launch.command]
    assert len(set(arguments)) == len(arguments)


@SETTINGS
@given(cases)
def test_degrees_in_torchtitans_toml_multiply_to_the_devices(case: tuple[Transformer, Plan]):
    shape, plan = case
    launch = started("torchtitan 0.2.2", shape, plan)  # the last release that reads TOML
    if launch is None:
        return
    job = tomllib.loads(launch_text(launch))
    assert job == tomllib.loads(launch.config)
    cut = job["parallelism"]
    names = ("data_parallel_replicate_degree", "data_parallel_shard_degree", "tensor_parallel_degree",
             "context_parallel_degree", "pipeline_parallel_degree")  # fmt: skip
    assert math.prod(cut[name] for name in names) == plan.num_devices
    training = job["training"]
    num_accumulated = 1 if plan.pipeline_parallel > 1 else NUM_MICROBATCHES
    assert training["local_batch_size"] * plan.data_parallel * num_accumulated == training["global_batch_size"]
    layers = [name for part in cut.get("module_fqns_per_model_part", []) for name in part if "layers" in name]
    assert layers == ([f"layers.{layer}" for layer in range(64)] if plan.pipeline_parallel > 1 else [])


@SETTINGS
@given(cases)
def test_batches_in_deepspeeds_json_multiply_and_its_ranks_are_the_devices(case: tuple[Transformer, Plan]):
    shape, plan = case
    launch = started("deepspeed", shape, plan)
    if launch is None:
        return
    config = json.loads(launch.config)
    share = config["train_micro_batch_size_per_gpu"] * config["gradient_accumulation_steps"]
    assert config["train_batch_size"] == share * plan.data_parallel
    assert config["zero_optimization"]["stage"] == plan.zero_stage
    names = ("--tensor-model-parallel-size", "--pipeline-model-parallel-size", "--ds-sequence-parallel-size")
    num_ranks = flag_of(launch, "--num_nodes") * flag_of(launch, "--num_gpus")
    assert num_ranks == math.prod(flag_of(launch, name) for name in names) * plan.data_parallel
