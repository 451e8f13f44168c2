"""Low-rank adapters: what is trained, computed, kept and sent follows from a rank and some modules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import dovetail
from dovetail.errors import InvalidInput, NotModelled
from dovetail.parallel.memory import stage_memories
from dovetail.parallel.plan import RECOMPUTE_POLICIES, Plan
from dovetail.parallel.sharding import shard
from dovetail.workload.graph import Phase
from dovetail.workload.lora import ALL_LINEAR, ATTENTION_TARGETS, TARGETS, Lora
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.workload import Workload

RANK = 16


def workload(model: str = "llama3-8b", *targets: str, rank: int = RANK, **more) -> Workload:
    lora = Lora(rank=rank, targets=targets or (ALL_LINEAR,))
    return Workload(model=models[model](), global_batch=16, seq=1024, lora=lora, **more)


def whole(model: str = "llama3-8b") -> Workload:
    return Workload(model=models[model](), global_batch=16, seq=1024)


def rows(graph, phase):
    return [
        name for block in graph.blocks for name, at in zip(block.ops.names, block.ops.phase, strict=True) if at == phase
    ]


# peft prints these for r=16: inputs and outputs of each module, times the rank, times the layers
COUNTS = [
    ("llama3-8b", ("q_proj", "v_proj"), 32 * RANK * ((4096 + 4096) + (4096 + 1024))),
    ("llama3-8b", (ALL_LINEAR,), 41_943_040),
    ("llama3-70b", ("q_proj", "v_proj"), 32_768_000),
    ("llama3-70b", (ALL_LINEAR,), 207_093_760),
]


@pytest.mark.parametrize(("model", "targets", "num_trained"), COUNTS)
def test_what_is_trained_is_what_peft_trains(model, targets, num_trained):
    graph = workload(model, *targets).forward_graph()
    assert graph.num_trained == num_trained
    assert graph.num_parameters == whole(model).forward_graph().num_parameters + num_trained


def test_frozen_weights_have_no_gradient_and_no_update():
    graph = workload("llama3-8b", "q_proj", "v_proj").training_graph()
    names = {name.removesuffix(":dw") for name in rows(graph, Phase.WEIGHT_GRAD) if "gather" not in name}
    assert names == {f"{module}_lora_{part}" for module in ("q_proj", "v_proj") for part in "ab"}
    assert {"q:dx", "kv:dx", "ffn_up:dx", "ffn_down:dx", "attention_out:dx", "lm_head:dx"} <= set(
        rows(graph, Phase.INPUT_GRAD)
    )
    updated = sum(
        int(block.repeat * block.ops.extents[row, 1])
        for block in graph.blocks
        for row in range(len(block.ops))
        if block.ops.phase[row] == Phase.UPDATE
    )
    assert updated == graph.num_trained


def test_a_step_leaves_out_the_weight_gradients_of_what_is_frozen():
    small, full = workload(rank=1).training_graph().model_flop, whole().training_graph().model_flop
    assert 2 / 3 < small / full < 0.7
    flop = [workload(rank=rank).training_graph().model_flop for rank in (1, 8, 64)]
    assert flop == sorted(flop)
    assert flop[1] - flop[0] == pytest.approx((flop[2] - flop[0]) * 7 / 63)  # an adapter's work goes with its rank


@pytest.mark.parametrize(
    "plan", [Plan(), Plan(tensor_parallel=4, sequence_parallel=True), Plan(zero_stage=3, data_parallel=4)]
)
@pytest.mark.parametrize("policy", RECOMPUTE_POLICIES)
def test_memory_is_less_than_that_of_full_training(plan, policy):
    plan, precision = replace(plan, recompute=(policy,)), Precision()
    adapted, full = (
        stage_memories(shard(one.training_graph(), plan), precision, [1.0])[0] for one in (workload(), whole())
    )
    assert adapted.gradients_bytes < 0.02 * full.gradients_bytes
    assert adapted.optimizer_bytes < 0.02 * full.optimizer_bytes
    assert full.weights_bytes < adapted.weights_bytes < 1.02 * full.weights_bytes
    assert adapted.total_bytes < 0.6 * full.total_bytes


def test_untrained_products_keep_no_input():
    [few], [all_of_them], [full] = (
        stage_memories(shard(one.training_graph(), Plan()), Precision(), [1.0])
        for one in (workload("llama3-8b", "q_proj"), workload(), whole())
    )
    assert few.activations_bytes < full.activations_bytes
    assert few.activations_bytes < all_of_them.activations_bytes


def step(**more):
    job: dict[str, Any] = {"model": "llama3-8b", "cluster": "h100", "devices": 32, "global_batch": 64, "seq": 8192}
    return dovetail.simulate(**job | more)


def test_gradients_of_adapters_alone_are_sent():
    sent = []
    for more in ({"lora_rank": 16}, {}):
        calls = step(plan="tp=2,zero=1", **more).record["collectives"]
        sent.append(sum(one["size_bytes"] * one["num_calls"] for one in calls if one["axis"] == "dp"))
    assert 0 < sent[0] < 0.01 * sent[1]
    assert step(plan="tp=2,zero=1", lora_rank=16).record["num_trained"] == 41_943_040


@pytest.mark.parametrize("plan", ["tp=2,zero=1", "pp=4,zero=1", "zero=3", "tp=2,cp=2", "tp=2,pp=2,recompute=full"])
def test_a_step_with_adapters_is_shorter_and_smaller(plan):
    """Where products are long; short ones wait for the host, which has more to launch."""
    adapted, full = step(plan=plan, lora_rank=8), step(plan=plan)
    assert adapted.outcome.memory.need_bytes < full.outcome.memory.need_bytes
    assert not full.fits or adapted.step_s < full.step_s


def test_a_plan_with_adapters_needs_fewer_devices():
    kept: dict[str, Any] = {
        "model": "llama3-70b",
        "cluster": "h100",
        "devices": 8,
        "global_batch": 16,
        "seq": 2048,
        "top": 2,
        "limit": 5,
    }
    assert not dovetail.plan(**kept).fits
    found = dovetail.plan(**kept, lora_rank=16, lora_targets="q_proj,v_proj")
    assert found.fits
    assert "no published run trains adapters alone" in found.record["best"]["interval"]["sentence"]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Lora(rank=-1), "rank must be 1 or more"),
        (lambda: Lora(rank=8, targets=("q_prj",)), "did you mean q_proj"),
        (lambda: Lora(rank=8, targets=()), "targets must name a module"),
        (lambda: workload("mixtral-8x7b").forward_graph(), "adapters beside experts"),
        (lambda: workload("deepseek-v3", "q_proj").forward_graph(), "latent attention"),
        (lambda: workload("t5-11b").forward_graph(), "encoder-decoders"),
        (lambda: replace(workload("resnet-50"), seq=1).forward_graph(), "is none"),
        (lambda: workload("gpt3-175b", "gate_proj").forward_graph(), "has no gate_proj"),
        (lambda: workload(precision=Precision(compute="fp8")), "products in fp8 are not modelled"),
    ],
)
def test_what_is_not_modelled_is_refused(make, words):
    with pytest.raises((InvalidInput, NotModelled), match=words):
        make()


def test_attention_of_a_mixture_may_have_adapters():
    graph = workload("mixtral-8x7b", *ATTENTION_TARGETS).training_graph()
    assert 0 < graph.num_trained < 0.001 * graph.num_parameters
    assert not [name for name in rows(graph, Phase.WEIGHT_GRAD) if name.startswith(("expert_up", "router"))]


def test_a_model_with_biases_keeps_them_frozen():
    graph = workload("gpt3-175b").training_graph()
    assert graph.num_trained == 96 * RANK * sum((12288 + 3 * 12288 + 2 * 12288, 12288 + 12288, 2 * (12288 + 49152)))
    assert not [name for name in rows(graph, Phase.WEIGHT_GRAD) if name.endswith(":db")]


SPEC: dict[str, Any] = {
    "workload": {"model": "llama3-8b", "global_batch": 16, "seq": 1024, "lora": {"rank": 8, "targets": ["q_proj"]}},
    "cluster": "h100x8",
    "plan": {"zero_stage": 3, "data_parallel": 8},
}


def test_a_spec_states_adapters():
    found = dovetail.simulate(SPEC)
    assert found.record["workload"]["lora"] == {"rank": 8, "targets": ("q_proj",)}
    assert dovetail.simulate(SPEC, lora_rank=16).record["num_trained"] == 2 * found.record["num_trained"]


@pytest.mark.parametrize("key", ["quantization", "bits", "load_in_4bit"])
def test_frozen_weights_of_few_bits_are_refused(key):
    spec = SPEC | {"workload": SPEC["workload"] | {"lora": {"rank": 8, key: "nf4"}}}
    with pytest.raises(NotModelled, match="QLoRA"):
        dovetail.simulate(spec)


def test_modules_without_a_rank_are_refused():
    with pytest.raises(InvalidInput, match="goes with lora_rank"):
        step(plan="zero=1", lora_targets="q_proj")


def launched(framework, **more):
    return dovetail.launch(
        model="llama3-8b",
        cluster="h100",
        devices=8,
        global_batch=16,
        seq=2048,
        framework=framework,
        lora_rank=16,
        **more,
    )


def test_megatron_bridge_is_told_of_adapters():
    text = launched("megatron-bridge", plan="tp=8", lora_targets="q_proj,v_proj,o_proj").text
    assert "--recipe llama3_8b_finetune_config" in text
    assert "peft.dim=16" in text
    assert "peft.target_modules=[linear_qkv,linear_proj]" in text
    assert "adapters beside q_proj, v_proj, o_proj alone" in text  # k_proj goes along


@pytest.mark.parametrize(("framework", "plan"), [("fsdp2", "zero=3"), ("deepspeed", "zero=3")])
def test_own_scripts_are_told_of_adapters(framework, plan):
    text = launched(framework, plan=plan, lora_targets="q_proj,v_proj").text
    assert "--lora-rank 16" in text
    assert "--lora-target-modules q_proj,v_proj" in text


@pytest.mark.parametrize(
    ("framework", "plan"),
    [("megatron-lm", "tp=8"), ("torchtitan", "tp=8"), ("deepspeed", "tp=8"), ("megatron-bridge", "zero=3")],
)
def test_others_refuse_adapters_in_one_line(framework, plan):
    with pytest.raises(NotModelled, match="adapters"):
        launched(framework, plan=plan)


def test_every_module_has_one_place():
    assert len(set(TARGETS)) == len(TARGETS)
