"""What is written for plans that are known: published ones, and each choice that a framework has its own word for."""

from __future__ import annotations

import json
import shlex
import tomllib
from dataclasses import dataclass, replace

import pytest
import yaml

from dovetail.errors import DovetailError, InvalidInput, NotModelled
from dovetail.hardware.clusters import clusters
from dovetail.parallel.plan import AXES, Overlap, Plan
from dovetail.parallel.recipes import plans
from dovetail.report.launchers import decoder_flags
from dovetail.report.launchers.frameworks import launchers
from dovetail.report.launchers.frameworks.megatron_lm import layout
from dovetail.report.launchers.launch import Launch, Missing, hosts, launch_record, launch_text, quoted, unsaid
from dovetail.workload.layer_types import LayerType, layer_types
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.transformer import Transformer
from dovetail.workload.workload import Workload
from tests.messages import holds

LLAMA_70B_FSDP = Plan(data_parallel=256, zero_stage=3, recompute=("full",), microbatch=2)
MIXTRAL = Plan(tensor_parallel=2, sequence_parallel=True, data_parallel=32, expert_parallel=8, zero_stage=1)


def launch(framework: str, model: str, plan: Plan, *, cluster: str = "dgx-h100", batch: int = 1024, **said) -> Launch:
    entry = models[model]()
    workload = Workload(model=entry, global_batch=batch, seq=said.pop("seq", entry.seq), **said)
    name, _, version = framework.partition(" ")
    launcher = launchers[name].at(launchers[name].version(version))
    return launcher(workload, clusters[cluster].build(plan.num_devices), plan)


def flags(started: Launch) -> dict[str, str]:
    return {one.words[0]: " ".join(one.words[1:]) for one in started.command}


def told(started: Launch) -> str:
    return "\n".join(one.sentence for one in started.missing)


def test_the_published_plan_of_gpt3_175b_is_what_megatron_lm_was_started_with():
    plan = plans["megatron-175b"].plan
    started = launch("megatron-lm", "gpt3-175b", plan, cluster="dgx-a100", batch=64, attention="unfused")
    assert {
        "--tensor-model-parallel-size": "8",
        "--pipeline-model-parallel-size": "8",
        "--num-layers-per-virtual-pipeline-stage": "4",
        "--sequence-parallel": "",
        "--micro-batch-size": "1",
        "--global-batch-size": "64",
        "--recompute-granularity": "selective",
        "--recompute-modules": "core_attn",
        "--num-layers": "96",
        "--hidden-size": "12288",
        "--num-attention-heads": "96",
        "--position-embedding-type": "learned_absolute",
        "--attention-backend": "unfused",
        "--bf16": "",
    }.items() <= flags(started).items()
    unwanted = {"--use-distributed-optimizer", "--swiglu", "--untie-embeddings-and-output-weights", "--hidden-dropout"}
    assert not unwanted & flags(started).keys()
    assert started.missing == ()
    assert started.environment == (("CUDA_DEVICE_MAX_CONNECTIONS", "1"),)
    assert started.words[:5] == ("torchrun", "--nnodes", "8", "--nproc-per-node", "8")


def test_the_published_plan_of_llama3_405b_has_its_chunks_written_out():
    plan = plans["llama3-405b-8k"].plan
    started = launch("megatron-lm", "llama3-405b", plan, cluster="llama3-grandteton", batch=2048)
    assert flags(started)["--pipeline-model-parallel-layout"] == "E|(t|)*126L"
    assert "--use-tp-pp-dp-mapping" in flags(started)
    assert flags(started)["--recompute-granularity"] == "full"
    assert holds(told(started), "recompute", "written as full")


@pytest.mark.parametrize(
    ("chunks", "text"),
    [((3, 4, 4, 3), "Ettt|(tttt|)*2tttL"), ((1, 2, 1), "Et|tt|tL"), ((0, 2, 2, 3, 0), "E|(tt|)*2ttt|L")],
)
def test_a_layout_names_every_layer_once(chunks, text):
    assert layout(chunks) == text


def test_other_first_and_last_stages_have_arguments_of_their_own():
    plan = Plan(pipeline_parallel=4, layers_per_stage=(7, 9, 9, 7))
    said = flags(launch("megatron-lm", "llama3-8b", plan))
    assert (said["--decoder-first-pipeline-num-layers"], said["--decoder-last-pipeline-num-layers"]) == ("7", "7")
    assert "--pipeline-model-parallel-layout" not in said


def test_stages_that_all_differ_are_written_out():
    plan = Plan(pipeline_parallel=4, layers_per_stage=(6, 8, 9, 9))
    said = flags(launch("megatron-lm", "llama3-8b", plan))
    assert said["--pipeline-model-parallel-layout"] == "Etttttt|tttttttt|ttttttttt|tttttttttL"


def test_mixtral_with_expert_parallelism_on_megatron_lm():
    said = flags(launch("megatron-lm", "mixtral-8x7b", MIXTRAL))
    assert {
        "--expert-model-parallel-size": "8",
        "--expert-tensor-parallel-size": "1",
        "--num-experts": "8",
        "--moe-router-topk": "2",
        "--moe-ffn-hidden-size": "14336",
        "--moe-token-dispatcher-type": "alltoall",
        "--moe-grouped-gemm": "",
        "--use-distributed-optimizer": "",
        "--overlap-param-gather": "",
        "--num-query-groups": "8",
    }.items() <= said.items()


def test_rows_that_cross_the_network_once_are_deepep():
    once = replace(MIXTRAL, dispatcher="deepep")
    assert "--moe-enable-deepep" in flags(launch("megatron-lm", "mixtral-8x7b", once))
    job = tomllib.loads(launch("torchtitan 0.2.2", "mixtral-8x7b", once).config)
    assert job["parallelism"]["expert_parallel_comm_backend"] == "deepep"
    assert "dispatcher deepep" in told(launch("deepspeed", "mixtral-8x7b", once))


def test_deepseek_v3_is_said_to_megatron_lm_with_its_latent_attention_and_dense_layers():
    plan = Plan(pipeline_parallel=16, data_parallel=64, expert_parallel=64, zero_stage=1)
    said = flags(launch("megatron-lm", "deepseek-v3", plan, batch=4096))
    assert said["--moe-layer-freq"] == "([0]*3+[1]*58)"
    assert (said["--q-lora-rank"], said["--kv-lora-rank"], said["--v-head-dim"]) == ("1536", "512", "128")
    assert said["--moe-router-score-function"] == "sigmoid"
    assert "--pipeline-model-parallel-layout" in said  # 61 layers over 16 stages


@pytest.mark.parametrize(("stage", "strategy"), [(2, "optim_grads"), (3, "optim_grads_params")])
def test_from_zero_2_on_megatron_lm_is_told_to_use_its_fsdp(stage, strategy):
    started = launch("megatron-lm", "llama3-8b", Plan(tensor_parallel=2, data_parallel=8, zero_stage=stage))
    assert flags(started)["--data-parallel-sharding-strategy"] == strategy
    assert flags(started)["--ckpt-format"] == "fsdp_dtensor"
    assert started.environment == ()  # FSDP refuses a single connection


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (Plan(recompute=("full",)), {"--recompute-method": "uniform", "--recompute-num-layers": "1"}),
        (Plan(recompute=("full",), recompute_layers=(5,)),
         {"--recompute-method": "block", "--recompute-num-layers": "5"}),
        (Plan(recompute=("selective",)), {"--recompute-granularity": "selective", "--recompute-modules": "core_attn"}),
        (Plan(context_parallel=2, overlap=Overlap(context=False)),
         {"--context-parallel-size": "2", "--cp-comm-type": "all_gather"}),
        (Plan(context_parallel=2, context_comm_type="ring"), {"--cp-comm-type": "p2p"}),
        (Plan(context_parallel=2, context_comm_type="all-to-all"), {"--cp-comm-type": "a2a"}),
        (Plan(tensor_parallel=2, sequence_parallel=True, overlap=Overlap(tensor=True)), {"--tp-comm-overlap": ""}),
        (Plan(data_parallel=2, zero_stage=1, offload_optimizer=True),
         {"--optimizer-cpu-offload": "", "--overlap-cpu-optimizer-d2h-h2d": "", "--use-precision-aware-optimizer": ""}),
        (Plan(offload_activations_frac=0.25), {"--cpu-offloading-num-layers": "8"}),
        (Plan(pipeline_parallel=4, interleave=2, overlap=Overlap(pipeline=False)),
         {"--no-overlap-p2p-communication": ""}),
    ],
)  # fmt: skip
def test_megatron_lm_has_an_argument_for(plan, expected):
    started = launch("megatron-lm", "llama3-8b", plan)
    assert expected.items() <= flags(started).items()
    assert started.missing == ()


def test_a_run_in_fp8_is_bf16_with_float8_products():
    said = flags(launch("megatron-lm", "llama3-8b", Plan(), precision=Precision(compute="fp8")))
    assert said["--fp8-format"] == "hybrid"
    assert "--bf16" in said


@pytest.mark.parametrize(
    ("framework", "plan", "words"),
    [
        ("megatron-lm", Plan(pipeline_parallel=4, schedule="dualpipe"), "schedule dualpipe, written as 1F1B"),
        ("megatron-lm", Plan(pipeline_parallel=4, interleave=2, schedule="zb-v"), "written as interleaved 1F1B"),
        ("megatron-lm", Plan(pipeline_parallel=2, recompute=("full", "none")), "full, none by stage, written as full"),
        ("megatron-lm", Plan(recompute=("selective-op",)), "recompute selective-op, written as full"),
        ("megatron-lm", Plan(pipeline_parallel=2, tensor_parallel=2, axis_order=AXES[::-1]), "axis_order pp, dp"),
        ("megatron-lm", Plan(offload_optimizer=True), "offload_optimizer"),
        ("megatron-lm", Plan(tensor_parallel=2, overlap=Overlap(tensor=True)), "overlap.tensor"),
        ("torchtitan", Plan(pipeline_parallel=2, recompute=("full", "none")), "full, none by stage, written as full"),
        ("torchtitan", Plan(data_parallel=2, zero_stage=1), "zero_stage 1, written as zero_stage 2"),
        ("torchtitan", Plan(pipeline_parallel=4, schedule="zb-h1"), "schedule zb-h1, written as 1F1B"),
        ("torchtitan", Plan(tensor_parallel=2), "sequence_parallel false"),
        ("torchtitan", Plan(offload_optimizer=True), "offload_optimizer"),
        ("torchtitan", Plan(data_parallel=2, zero_stage=3, overlap=Overlap(data=False)), "overlap.data false"),
        ("deepspeed", Plan(pipeline_parallel=4, schedule="dualpipe"), "schedule dualpipe, written as 1F1B"),
        ("deepspeed", Plan(pipeline_parallel=4, interleave=2), "interleave 2, written as 1"),
        ("deepspeed", Plan(pipeline_parallel=4, layers_per_stage=(7, 9, 9, 7)), "layers_per_stage 7,9x2,7, written as"),
        ("megatron-lm", Plan(context_parallel=2), "overlap.context true"),
        ("megatron-lm", Plan(context_parallel=2, context_comm_type="ring", overlap=Overlap(context=False)),
         "overlap.context false"),
        ("torchtitan", Plan(context_parallel=2, context_comm_type="all-to-all"), "written as gather"),
        ("deepspeed", Plan(context_parallel=2), "context_comm_type gather, written as all-to-all, because context"),
        ("deepspeed", Plan(recompute=("full",)), "the script makes its checkpoints itself"),
        ("deepspeed", Plan(offload_activations_frac=0.5), "offload_activations_frac 0.5"),
    ],
)  # fmt: skip
def test_what_a_framework_cannot_be_told_is_named_with_its_reason(framework, plan, words):
    started = launch(framework, "llama3-8b", plan)
    assert words in told(started)
    assert all(one.sentence in launch_text(started) for one in started.missing)


@pytest.mark.parametrize(
    ("framework", "model", "plan", "words"),
    [
        ("megatron-lm", "llama3-8b", Plan(pipeline_parallel=4, zero_stage=3), "Megatron-FSDP takes no pipeline"),
        ("megatron-lm", "llama3-8b", Plan(tensor_parallel=16), "tensor_parallel=16 must divide num_kv_heads=8"),
        ("megatron-lm", "mixtral-8x7b", Plan(tensor_parallel=2, expert_tensor_parallel=2), "sequence parallelism only"),
        ("deepspeed", "llama3-8b", Plan(pipeline_parallel=4, zero_stage=3), "ZeRO-1 at most"),
        ("deepspeed", "llama3-8b", Plan(context_parallel=64), "must divide num_heads=32"),
        ("deepspeed", "mixtral-8x7b", replace(MIXTRAL, zero_stage=3), "experts go with ZeRO-2 at most"),
        ("deepspeed", "mixtral-8x7b", Plan(pipeline_parallel=2), "no pipeline for experts"),
        ("torchtitan", "llama3-8b", Plan(tensor_parallel=2, data_parallel=2), "use zero_stage 2 or 3"),
        ("megatron-lm", "resnet-50", Plan(), "resnet-50 is not a transformer"),
        ("megatron-lm", "bert-large", Plan(), "bert-large is an encoder"),
        ("torchtitan", "t5-11b", Plan(), "t5-11b is an encoder and a decoder"),
        ("deepspeed", "bert-large", Plan(tensor_parallel=2), "bert-large is an encoder"),
    ],
)  # fmt: skip
def test_what_cannot_run_at_all_is_one_line(framework, model, plan, words):
    with pytest.raises((InvalidInput, NotModelled), match=words):
        launch(framework, model, plan)


@pytest.mark.parametrize("framework", [name for name in launchers.names() if name != "maxtext"])
def test_chips_that_a_framework_does_not_run_on_are_refused(framework):
    with pytest.raises(InvalidInput, match="does not run on chips of Google"):
        launch(framework, "llama3-8b", Plan(data_parallel=16), cluster="tpu-v5e-pod")


@pytest.mark.parametrize("framework", launchers.names())
def test_a_plan_for_other_devices_is_refused(framework):
    workload = Workload(model=models["llama3-8b"](), global_batch=64, seq=8192)
    with pytest.raises(DovetailError, match="the plan is for 2 devices, and there are 8"):
        launchers[framework](workload, clusters["dgx-h100"].build(8), Plan(data_parallel=2))


def test_llama3_70b_fully_sharded_on_torchtitan():
    started = launch("torchtitan 0.2.2", "llama3-70b", LLAMA_70B_FSDP)
    job = tomllib.loads(started.config)
    assert job["model"] == {"name": "llama3", "flavor": "70B"}
    assert job["parallelism"] == {
        "data_parallel_replicate_degree": 1,
        "data_parallel_shard_degree": 256,
        "fsdp_reshard_after_forward": "always",
        "tensor_parallel_degree": 1,
        "context_parallel_degree": 1,
        "pipeline_parallel_degree": 1,
    }
    assert job["activation_checkpoint"] == {"mode": "full"}
    assert (job["training"]["local_batch_size"], job["training"]["global_batch_size"]) == (2, 1024)
    assert tomllib.loads(launch_text(started)) == job


def test_a_pipeline_on_torchtitan_takes_a_step_in_one_go_and_has_its_modules_written_out():
    plan = Plan(pipeline_parallel=4, interleave=2, data_parallel=2, zero_stage=3, microbatch=2)
    job = tomllib.loads(launch("torchtitan 0.2.2", "llama3-8b", plan, batch=64).config)
    assert job["training"]["local_batch_size"] == 32
    assert job["parallelism"]["pipeline_parallel_microbatch_size"] == 2
    assert job["parallelism"]["pipeline_parallel_schedule"] == "Interleaved1F1B"
    parts = job["parallelism"]["module_fqns_per_model_part"]
    assert len(parts) == 8
    assert parts[0] == ["tok_embeddings", *(f"layers.{layer}" for layer in range(4))]
    assert [name for part in parts for name in part][-3:] == ["layers.31", "norm", "output"]


@pytest.mark.parametrize(
    ("policy", "layers", "expected"),
    [
        ("none", (), {"mode": "none"}),
        ("selective-op", (), {"mode": "selective", "selective_ac_option": "op"}),
        ("full", (16,), {"mode": "selective", "selective_ac_option": "2"}),
        ("full", (0,), {"mode": "none"}),
    ],
)
def test_recompute_on_torchtitan(policy, layers, expected):
    started = launch("torchtitan 0.2.2", "llama3-8b", Plan(recompute=(policy,), recompute_layers=layers))
    assert tomllib.loads(started.config)["activation_checkpoint"] == expected
    assert "recompute" not in told(started)


def test_mixtral_on_torchtitan_says_that_its_shape_is_to_be_registered():
    started = launch("torchtitan 0.2.2", "mixtral-8x7b", MIXTRAL)
    parallelism = tomllib.loads(started.config)["parallelism"]
    assert (parallelism["expert_parallel_degree"], parallelism["expert_tensor_parallel_degree"]) == (8, 1)
    assert "the shape of mixtral-8x7b (32 layers of 4096, 32 heads, vocabulary 32000)" in told(started)


def test_float8_on_torchtitan_is_a_converter_and_compiled():
    job = tomllib.loads(
        launch(
            "torchtitan 0.2.2", "llama3-8b", LLAMA_70B_FSDP, precision=Precision(compute="fp8"), kernels="eager"
        ).config
    )
    assert job["model"]["converters"] == ["quantize.linear.float8"]
    assert job["quantize"]["linear"]["float8"]["enable_fsdp_float8_all_gather"] is True
    assert job["compile"]["enable"] is True


def test_zero_3_on_deepspeed():
    plan = Plan(data_parallel=64, zero_stage=3, microbatch=2, recompute=("full",), offload_optimizer=True)
    started = launch("deepspeed", "llama3-8b", plan)
    config = json.loads(started.config)
    assert (config["train_batch_size"], config["train_micro_batch_size_per_gpu"]) == (1024, 2)
    assert config["gradient_accumulation_steps"] == 8
    assert config["zero_optimization"]["stage"] == 3
    assert config["zero_optimization"]["offload_optimizer"] == {"device": "cpu", "pin_memory": True}
    assert config["bf16"] == {"enabled": True}
    assert config["activation_checkpointing"]["cpu_checkpointing"] is False
    assert started.words == (
        "deepspeed", "--hostfile", "hostfile", "--num_nodes", "8", "--num_gpus", "8", "train.py", "--deepspeed",
        "--deepspeed_config",
        "ds_config.json",
    )  # fmt: skip


def test_a_model_of_any_kind_goes_to_deepspeed_with_a_script_of_ones_own():
    assert "train.py" in launch("deepspeed", "resnet-50", Plan(data_parallel=8, zero_stage=1)).words


def test_model_parallelism_on_deepspeed_is_megatron_deepspeed():
    plan = Plan(tensor_parallel=4, pipeline_parallel=2, data_parallel=2, zero_stage=1, recompute=("full",))
    said = flags(launch("deepspeed", "llama3-8b", replace(plan, schedule="zb-h1")))
    assert {
        "--tensor-model-parallel-size": "4",
        "--pipeline-model-parallel-size": "2",
        "--zero-stage": "1",
        "--enable-zbh1-pipeline": "",
        "--deepspeed-activation-checkpointing": "",
        "--num-key-value-heads": "8",
        "--normalization": "rmsnorm",
    }.items() <= said.items()
    assert "--no-pipeline-parallel" not in said
    assert "--no-pipeline-parallel" in flags(launch("deepspeed", "llama3-8b", Plan(tensor_parallel=4, zero_stage=3)))


@pytest.mark.parametrize("framework", launchers.names())
def test_every_text_says_of_which_version_its_flags_are(framework):
    started = launch(framework, "llama3-8b", Plan(data_parallel=8, zero_stage=3))
    assert started.version in launch_text(started).partition("\n\n")[0]
    assert launch_record(started)["flags_of"] == started.version
    assert any(digit in started.version for digit in "0123456789")


def test_a_choice_that_no_launcher_knows_is_named_all_the_same():
    @dataclass(frozen=True)
    class Later:
        known: int = 1
        is_new: bool = False

    assert [one.what for one in unsaid(Later(known=2, is_new=True), {"known"}, "x")] == ["is_new true"]
    assert list(unsaid(Later(known=2), {"known"}, "x")) == []


@pytest.mark.parametrize("word", ["a b", "it's", "E|(t|)*2tL", "(7,0)", "plain-1.0", "$(rm x)", "`x`", ""])
def test_a_shell_reads_each_word_back(word):
    assert shlex.split(quoted(word)) == [word]


def test_names_that_the_shell_fills_in_stay_open():
    assert quoted("$NODE_RANK") == '"$NODE_RANK"'


@pytest.mark.parametrize(
    ("cluster", "num_devices", "expected"),
    [("dgx-h100", 64, (8, 8)), ("dgx-h100", 4, (1, 4)), ("gb200-nvl72", 144, (36, 4)), ("h100-pcie-nodes", 8, (1, 8))],
)
def test_hosts_hold_what_a_baseboard_holds(cluster, num_devices, expected):
    assert hosts(clusters[cluster].build(num_devices)) == expected


def test_a_layer_type_that_no_flag_can_say_is_named(monkeypatch: pytest.MonkeyPatch):
    nope = LayerType(field="layer_types", replaces={"window": 0, "has_rope": False})
    known = {name: layer_types[name] for name in layer_types.names()}
    monkeypatch.setattr(decoder_flags, "layer_types", known | {"full_attention": lambda: nope})
    workload = Workload(model=models["gemma-3-4b"](), global_batch=8, seq=8192)
    shape = workload.model.architecture
    assert isinstance(shape, Transformer)
    found = [one for one in decoder_flags.megatron_shape(shape, workload) if isinstance(one, Missing)]
    assert [one.why for one in found if one.what == "layers of type full_attention"] == [
        "no argument sets has_rope layer by layer"
    ]


def test_megatron_lm_is_told_which_layers_have_a_window_and_which_have_experts():
    plan = Plan(data_parallel=8, zero_stage=1)
    told = flags(launch("megatron-lm", "gemma-3-4b", plan, seq=8192))
    assert (told["--window-size"], told["--window-attn-skip-freq"]) == ("(1023,0)", "6")
    model = models["mixtral-8x7b"]()
    shape = replace(
        model.architecture,  # type: ignore[type-var]
        num_layers=6,
        window=128,
        layer_types=(("full_attention", 1), ("sliding_attention", 2)),
        mlp_layer_types=(("dense", 1), ("sparse", 1)),
    )
    of = Workload(model=replace(model, architecture=shape), global_batch=64, seq=4096)
    told = flags(launchers["megatron-lm"](of, clusters["dgx-h100"].build(8), plan))
    assert told["--window-attn-skip-freq"] == "([0]*1+[1]*2+[0]*1+[1]*2)"
    assert told["--moe-layer-freq"] == "([0]*1+[1]*1+[0]*1+[1]*1+[0]*1+[1]*1)"


def test_several_hosts_of_deepspeed_are_listed_in_a_hostfile_and_one_is_not():
    several = launch("deepspeed", "llama3-8b", Plan(data_parallel=64, zero_stage=3))
    assert several.setup == ('for host in $HOSTS; do echo "$host slots=8"; done > hostfile',)
    assert launch_text(several).index("> hostfile") < launch_text(several).index("deepspeed --hostfile")
    alone = launch("deepspeed", "llama3-8b", Plan(data_parallel=8, zero_stage=3))
    assert alone.setup == ()
    assert "--hostfile" not in alone.words


def test_torchtitan_0_3_takes_arguments_and_a_subcommand_and_no_file():
    plan = Plan(pipeline_parallel=4, interleave=2, data_parallel=2, zero_stage=3, recompute=("full",))
    started = launch("torchtitan 0.3.0", "llama3-8b", plan, batch=64)
    assert started.config == ""
    assert {"--module": "llama3", "--config": "llama3_8b", "--training.local_batch_size": "32"}.items() <= flags(
        started
    ).items()
    assert "--training.disable_cuda_graphs" in started.words  # pipelines are refused with them
    assert started.words[-1] == "activation-checkpoint:full"
    parts = flags(started)["--parallelism.module_fqns_per_model_part"].split(" ")
    assert (len(parts), parts[0]) == (8, "tok_embeddings,layers.0,layers.1,layers.2,layers.3")


def test_megatron_bridge_says_what_megatron_lm_is_told_as_overrides_of_a_recipe():
    plan = Plan(tensor_parallel=8, sequence_parallel=True, pipeline_parallel=4, interleave=5, zero_stage=1)
    started = launch("megatron-bridge", "llama3-70b", plan)
    assert flags(started)["--recipe"] == "llama3_70b_pretrain_config"
    assert {
        "model.tensor_model_parallel_size=8", "model.sequence_parallel=true", "model.rotary_base=500000",
        "model.virtual_pipeline_model_parallel_size=5", "train.global_batch_size=1024", "model.bf16=true",
    } <= set(started.words)  # fmt: skip
    assert [one.what for one in started.missing] == [
        one.what for one in launch("megatron-lm", "llama3-70b", plan).missing
    ]


def test_fsdp2_is_a_configuration_of_accelerate_and_has_no_pipeline():
    started = launch("fsdp2", "llama3-8b", Plan(data_parallel=16, tensor_parallel=4, zero_stage=2, recompute=("full",)))
    config = yaml.safe_load(started.config)
    assert config["fsdp_config"]["fsdp_version"] == 2
    assert config["fsdp_config"]["fsdp_reshard_after_forward"] is False
    assert config["fsdp_config"]["fsdp_activation_checkpointing"] is True
    assert config["parallelism_config"]["parallelism_config_tp_size"] == 4
    assert (config["num_machines"], config["num_processes"]) == (8, 64)
    with pytest.raises(InvalidInput, match="accelerate has no pipeline_parallel"):
        launch("fsdp2", "llama3-8b", Plan(pipeline_parallel=2, data_parallel=4, zero_stage=3))


def test_what_no_time_depends_on_is_written_for_models_that_it_is_known_of_and_named_for_others():
    known = launch("megatron-lm", "deepseek-v3", Plan(expert_parallel=64, data_parallel=64, zero_stage=1))
    assert {
        "--rotary-base": "10000", "--norm-epsilon": "1e-06", "--moe-router-num-groups": "8",
        "--moe-router-group-topk": "4", "--moe-router-topk-scaling-factor": "2.5", "--qk-layernorm": "",
    }.items() <= flags(known).items()  # fmt: skip
    assert "(MTP)" in told(known)
    unknown = launch("megatron-lm", "gemma-3-4b", Plan(data_parallel=8, zero_stage=1))
    assert holds(told(unknown), "rotary base", "norm epsilon")


def test_a_configuration_of_torchtitan_that_computes_in_float8_is_taken_for_float8_alone():
    plan = Plan(data_parallel=64, zero_stage=3)
    narrow = launch("torchtitan", "llama3-405b", plan, precision=Precision(compute="fp8"), batch=64)
    assert flags(narrow)["--config"] == "llama3_405b"
    assert "fp8" not in told(narrow)
    wide = launch("torchtitan", "llama3-405b", plan, batch=64)
    assert "the shape of llama3-405b" in told(wide)
    assert "--compile.no-enable-async-tensor-parallel" in wide.words  # which that configuration has on
    experts = launch("torchtitan", "deepseek-v3", plan, batch=64)
    assert flags(experts)["--parallelism.expert_parallel_degree"] == "1"  # where its configuration has 2


@pytest.mark.parametrize(
    ("dispatcher", "said"),
    [
        ("all-to-all", {"--moe-token-dispatcher-type": "alltoall"}),
        ("all-gather", {"--moe-token-dispatcher-type": "allgather"}),
        ("deepep", {"--moe-token-dispatcher-type": "flex", "--moe-enable-deepep": ""}),
        ("hybridep", {"--moe-token-dispatcher-type": "flex", "--moe-flex-dispatcher-backend": "hybridep"}),
    ],
)
def test_megatron_is_told_of_every_dispatcher(dispatcher, said):
    started = launch("megatron-lm", "mixtral-8x7b", replace(MIXTRAL, dispatcher=dispatcher))
    assert said.items() <= flags(started).items()
    assert "dispatcher" not in told(started)
    bridged = launch("megatron-bridge", "mixtral-8x7b", replace(MIXTRAL, dispatcher=dispatcher))
    assert f"model.moe_token_dispatcher_type={said['--moe-token-dispatcher-type']}" in flags(bridged)
    assert ("model.moe_flex_dispatcher_backend=hybridep" in flags(bridged)) == (dispatcher == "hybridep")


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        ("delayed", {"--fp8-format": "hybrid", "--fp8-recipe": "delayed"}),
        ("current", {"--fp8-format": "hybrid", "--fp8-recipe": "tensorwise"}),
        ("blockwise", {"--fp8-format": "e4m3", "--fp8-recipe": "blockwise"}),
        ("mxfp8", {"--fp8-format": "e4m3", "--fp8-recipe": "mxfp8"}),
        ("nvfp4", {"--fp4-format": "e2m1", "--fp4-recipe": "nvfp4"}),
    ],
)
def test_megatron_is_told_of_every_scaling_recipe(recipe, said):
    narrow = Precision(compute=recipe)
    started = launch("megatron-lm", "mixtral-8x7b", MIXTRAL, cluster="dgx-b200", precision=narrow)
    assert said.items() <= flags(started).items()
    bridged = flags(launch("megatron-bridge", "mixtral-8x7b", MIXTRAL, cluster="dgx-b200", precision=narrow))
    assert all(f"model.{key[2:].replace('-', '_').removesuffix('_format')}={said[key]}" in bridged for key in said)


@pytest.mark.parametrize(
    ("framework", "recipe", "instead"),
    [
        ("torchtitan 0.2.2", "blockwise", "scaling recipe blockwise, written as current"),
        ("torchtitan 0.2.2", "nvfp4", "compute in fp4, written as bf16"),
        ("maxtext", "mxfp8", "scaling recipe mxfp8, written as current"),
        ("maxtext", "nvfp4", "compute in fp4, written as bf16"),
        ("deepspeed", "mxfp8", "compute in fp8, written as bf16"),
        ("fsdp2", "nvfp4", "compute in fp4, written as bf16"),
    ],
)
def test_a_recipe_that_a_framework_has_not_is_named_with_what_runs(framework, recipe, instead):
    plan = Plan(data_parallel=64, zero_stage=3)
    started = launch(framework, "llama3-8b", plan, cluster="dgx-b200", precision=Precision(compute=recipe))
    assert instead in told(started)


def test_torchtitan_has_blocks_of_32_by_a_converter_of_its_own():
    started = launch("torchtitan 0.2.2", "llama3-8b", Plan(data_parallel=64, zero_stage=3), cluster="dgx-b200",
                     precision=Precision(compute="mxfp8"))  # fmt: skip
    job = tomllib.loads(started.config)
    assert job["model"]["converters"] == ["quantize.linear.mx"]
    assert job["quantize"]["linear"]["mx"]["recipe_name"] == "mxfp8_cublas"
    assert "recipe" not in told(started)
