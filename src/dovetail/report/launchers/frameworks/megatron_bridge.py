"""Megatron-Bridge, which trains for NeMo: overrides of one of its recipes, as words of the command.

Fields are those of megatron/bridge/training/config.py, megatron/bridge/models/gpt_provider.py and, of Megatron Core,
transformer/transformer_config.py and optimizer/optimizer_config.py. What it runs is Megatron Core, so that its rules
are Megatron-LM's, and its fields are found from Megatron-LM's arguments.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dovetail.errors import InvalidInput, NotModelled
from dovetail.hardware.heterogeneous import AnyCluster
from dovetail.parallel.plan import Plan
from dovetail.report.launchers.frameworks import FrameworkLauncher, launchers
from dovetail.report.launchers.frameworks.megatron_lm import VERSIONS as MEGATRON_VERSIONS
from dovetail.report.launchers.frameworks.megatron_lm import megatron_choices, megatron_lm, megatron_rules
from dovetail.report.launchers.launch import Flag, Launch, Missing, decoder_of, flag, torchrun
from dovetail.workload.lora import FULL_TRAINING, TARGETS, projections, targets_of
from dovetail.workload.transformer import Transformer
from dovetail.workload.workload import Workload

NAME = "Megatron-Bridge"
VERSIONS = {"0.3": "fields of Megatron-Bridge 0.3 on Megatron Core 0.16"}
SCRIPT = "scripts/training/run_recipe.py"
_RECIPES = {  # megatron/bridge/recipes
    "llama2-7b": "llama2_7b_pretrain_config",
    "llama3-8b": "llama3_8b_pretrain_config",
    "llama3-70b": "llama3_70b_pretrain_config",
    "llama3-405b": "llama31_405b_pretrain_config",
    "gpt3-175b": "gpt3_175b_pretrain_config",
    "deepseek-v3": "deepseek_v3_pretrain_config",
    "qwen3-30b-a3b": "qwen3_30b_a3b_pretrain_config",
}
MODULES = {  # of Megatron Core, and what peft calls their parts in Llama
    "linear_qkv": ("q_proj", "k_proj", "v_proj"),
    "linear_proj": ("o_proj",),
    "linear_fc1": ("gate_proj", "up_proj"),
    "linear_fc2": ("down_proj",),
}
_ON, _OFF = "true", "false"
# Arguments that stand alone, as the fields that they set.
_SWITCHES: dict[str, tuple[tuple[str, str], ...]] = {
    "--sequence-parallel": (("model.sequence_parallel", _ON),),
    "--moe-enable-deepep": (("model.moe_flex_dispatcher_backend", "deepep"),),
    "--use-tp-pp-dp-mapping": (("dist.use_tp_pp_dp_mapping", _ON),),
    "--use-distributed-optimizer": (
        ("ddp.use_distributed_optimizer", _ON),
        ("optimizer.use_distributed_optimizer", _ON),
    ),
    "--use-megatron-fsdp": (("ddp.use_megatron_fsdp", _ON), ("dist.use_megatron_fsdp", _ON)),
    "--no-gradient-accumulation-fusion": (("model.gradient_accumulation_fusion", _OFF),),
    "--overlap-grad-reduce": (("ddp.overlap_grad_reduce", _ON),),
    "--overlap-param-gather": (("ddp.overlap_param_gather", _ON),),
    "--tp-comm-overlap": (("model.tp_comm_overlap", _ON),),
    "--overlap-moe-expert-parallel-comm": (("model.overlap_moe_expert_parallel_comm", _ON),),
    "--no-overlap-p2p-communication": (("model.overlap_p2p_comm", _OFF),),
    "--bf16": (("model.bf16", _ON), ("optimizer.bf16", _ON)),
    "--fp16": (("model.fp16", _ON), ("optimizer.fp16", _ON)),
    "--accumulate-allreduce-grads-in-fp32": (("ddp.grad_reduce_in_fp32", _ON),),
    "--grad-reduce-in-bf16": (("ddp.grad_reduce_in_fp32", _OFF),),
    "--optimizer-cpu-offload": (("optimizer.optimizer_cpu_offload", _ON),),
    "--overlap-cpu-optimizer-d2h-h2d": (("optimizer.overlap_cpu_optimizer_d2h_h2d", _ON),),
    "--use-precision-aware-optimizer": (("optimizer.use_precision_aware_optimizer", _ON),),
    "--untie-embeddings-and-output-weights": (("model.share_embeddings_and_output_weights", _OFF),),
    "--swiglu": (("model.gated_linear_unit", _ON),),
    "--disable-bias-linear": (("model.add_bias_linear", _OFF),),
    "--add-qkv-bias": (("model.add_qkv_bias", _ON),),
    "--qk-layernorm": (("model.qk_layernorm", _ON),),
    "--multi-latent-attention": (("model.multi_latent_attention", _ON),),
    "--moe-grouped-gemm": (("model.moe_grouped_gemm", _ON),),
    "--moe-pad-expert-input-to-capacity": (("model.moe_pad_expert_input_to_capacity", _ON),),
    "--moe-router-enable-expert-bias": (("model.moe_router_enable_expert_bias", _ON),),
    "--group-query-attention": (),  # num_query_groups says it
    "--mock-data": (),  # recipes train on mock data
}
# Arguments with values, as the fields that take them.
_VALUES: dict[str, tuple[str, ...]] = {
    "--tensor-model-parallel-size": ("model.tensor_model_parallel_size",),
    "--pipeline-model-parallel-size": ("model.pipeline_model_parallel_size",),
    "--context-parallel-size": ("model.context_parallel_size",),
    "--cp-comm-type": ("model.cp_comm_type",),
    "--expert-model-parallel-size": ("model.expert_model_parallel_size",),
    "--expert-tensor-parallel-size": ("model.expert_tensor_parallel_size",),
    "--moe-token-dispatcher-type": ("model.moe_token_dispatcher_type",),
    "--moe-flex-dispatcher-backend": ("model.moe_flex_dispatcher_backend",),
    "--decoder-first-pipeline-num-layers": ("model.num_layers_in_first_pipeline_stage",),
    "--decoder-last-pipeline-num-layers": ("model.num_layers_in_last_pipeline_stage",),
    "--pipeline-model-parallel-layout": ("model.pipeline_model_parallel_layout",),
    "--micro-batch-size": ("train.micro_batch_size",),
    "--global-batch-size": ("train.global_batch_size",),
    "--data-parallel-sharding-strategy": ("ddp.data_parallel_sharding_strategy",),
    "--ckpt-format": ("checkpoint.ckpt_format",),
    "--recompute-granularity": ("model.recompute_granularity",),
    "--recompute-method": ("model.recompute_method",),
    "--recompute-num-layers": ("model.recompute_num_layers",),
    "--cpu-offloading-num-layers": ("model.cpu_offloading_num_layers",),
    "--fp8-format": ("model.fp8",),
    "--fp8-recipe": ("model.fp8_recipe",),
    "--fp4-format": ("model.fp4",),
    "--fp4-recipe": ("model.fp4_recipe",),
    "--optimizer": ("optimizer.optimizer",),
    "--sgd-momentum": ("optimizer.sgd_momentum",),
    "--muon-num-ns-steps": ("optimizer.muon_num_ns_steps",),
    "--muon-tp-mode": ("optimizer.muon_tp_mode",),
    "--exp-avg-dtype": ("optimizer.exp_avg_dtype",),
    "--exp-avg-sq-dtype": ("optimizer.exp_avg_sq_dtype",),
    "--lr": ("optimizer.lr",),
    "--num-layers": ("model.num_layers",),
    "--hidden-size": ("model.hidden_size",),
    "--ffn-hidden-size": ("model.ffn_hidden_size",),
    "--num-attention-heads": ("model.num_attention_heads",),
    "--num-query-groups": ("model.num_query_groups",),
    "--kv-channels": ("model.kv_channels",),
    "--seq-length": ("model.seq_length", "dataset.sequence_length"),
    "--attention-dropout": ("model.attention_dropout",),
    "--hidden-dropout": ("model.hidden_dropout",),
    "--normalization": ("model.normalization",),
    "--position-embedding-type": ("model.position_embedding_type",),
    "--rotary-percent": ("model.rotary_percent",),
    "--rotary-base": ("model.rotary_base",),
    "--norm-epsilon": ("model.layernorm_epsilon",),
    "--window-size": ("model.window_size",),
    "--window-attn-skip-freq": ("model.window_attn_skip_freq",),
    "--attention-backend": ("model.attention_backend",),
    "--q-lora-rank": ("model.q_lora_rank",),
    "--kv-lora-rank": ("model.kv_lora_rank",),
    "--qk-head-dim": ("model.qk_head_dim",),
    "--qk-pos-emb-head-dim": ("model.qk_pos_emb_head_dim",),
    "--v-head-dim": ("model.v_head_dim",),
    "--rope-type": ("model.rope_type",),
    "--num-experts": ("model.num_moe_experts",),
    "--moe-router-topk": ("model.moe_router_topk",),
    "--moe-ffn-hidden-size": ("model.moe_ffn_hidden_size",),
    "--moe-expert-capacity-factor": ("model.moe_expert_capacity_factor",),
    "--moe-layer-freq": ("model.moe_layer_freq",),
    "--moe-shared-expert-intermediate-size": ("model.moe_shared_expert_intermediate_size",),
    "--moe-router-score-function": ("model.moe_router_score_function",),
    "--moe-router-num-groups": ("model.moe_router_num_groups",),
    "--moe-router-group-topk": ("model.moe_router_group_topk",),
    "--moe-router-topk-scaling-factor": ("model.moe_router_topk_scaling_factor",),
    "--vocab-size": ("model.vocab_size", "tokenizer.vocab_size"),
    "--tokenizer-type": ("tokenizer.tokenizer_type",),
    "--train-iters": ("train.train_iters",),
    "--eval-iters": ("train.eval_iters",),
    "--log-interval": ("logger.log_interval",),
    "--max-position-embeddings": (),  # seq_length says it
}
_BY_CHUNK = "--num-layers-per-virtual-pipeline-stage"
_MODULES = "--recompute-modules"


def megatron_bridge(workload: Workload, cluster: AnyCluster, plan: Plan, version: str) -> Launch:
    """Overrides of a recipe for one run; what Megatron-LM cannot be told, it cannot be told either."""
    shape = decoder_of(workload, NAME)
    base = megatron_lm(replace(workload, lora=FULL_TRAINING), cluster, plan, next(iter(MEGATRON_VERSIONS)))
    torch_flags = torchrun(cluster)
    own = base.command[len(torch_flags) + 1 :]
    recipe, missing = _recipe(shape)
    adapters, unsaid, notes = _adapters(workload, plan)
    if adapters:
        recipe = recipe.replace("_pretrain_", "_finetune_")
    return replace(
        base,
        framework=NAME,
        version=VERSIONS[version],
        command=(*torch_flags, flag(SCRIPT), flag("--recipe", recipe), *adapters, *_overrides(plan, own)),
        missing=(*base.missing, *missing, *unsaid),
        notes=(*base.notes, *notes),
    )


def _adapters(workload: Workload, plan: Plan) -> tuple[tuple[Flag, ...], tuple[Missing, ...], tuple[str, ...]]:
    """Adapters as fields of megatron/bridge/peft/lora.py, what these cannot say, and what a person must add."""
    lora, tp = workload.lora, plan.tensor_parallel
    if not lora.is_used:
        return (), (), ()
    if lora.rank % tp:
        message = f"{NAME} splits adapters over tp={tp}, which must divide their rank"
        raise InvalidInput(f"{message}; got {lora.rank}", "lora")
    if plan.zero_stage > 1:
        message = f"launching {NAME} with adapters under Megatron-FSDP is not written"
        raise NotModelled(f"{message}; got zero_stage={plan.zero_stage}, use 1", "lora")
    targets = targets_of(lora, workload.model.architecture)
    modules = [name for name, parts in MODULES.items() if set(parts) & set(targets)]
    known = projections(workload.model.architecture)
    meant = tuple(one for one in TARGETS if one in known and any(one in MODULES[name] for name in modules))
    missing = [Missing("an adapter for each module", "those of one product share one, of the same rank")]
    if meant != targets:
        instead = (("workload.lora", replace(lora, targets=meant)),)
        what = f"adapters beside {', '.join(targets)} alone"
        missing.append(Missing(what, "modules of one product go together", instead))
    fields = (f"peft.dim={lora.rank}", "peft.dropout=0.0", f"peft.target_modules=[{','.join(modules)}]")
    note = "adapters go beside trained weights: add checkpoint.pretrained_checkpoint and a dataset of your own"
    return (flag("--peft_scheme", "lora"), *map(flag, fields)), tuple(missing), (note,)


def _recipe(shape: Transformer) -> tuple[str, tuple[Missing, ...]]:
    """The recipe to start from: the model's own, or one of its kind whose sizes are replaced."""
    if shape.name in _RECIPES:
        return _RECIPES[shape.name], ()
    kind = "llama3-8b" if shape.activation == "silu_mul" else "gpt3-175b"
    if shape.experts is not None:
        kind = "deepseek-v3" if shape.latent is not None else "qwen3-30b-a3b"
    why = f"there is no recipe of it; that of {kind} is taken with these sizes"
    return _RECIPES[kind], (Missing(f"what {shape.name} has beside these sizes", why),)


def _overrides(plan: Plan, flags: tuple[Flag, ...]) -> Iterator[Flag]:
    for one in flags:
        name, *values = one.words
        if name in _SWITCHES:
            yield from (flag(f"{field}={value}") for field, value in _SWITCHES[name])
        elif name == _BY_CHUNK:
            yield flag(f"model.virtual_pipeline_model_parallel_size={plan.interleave}")
        elif name == _MODULES:
            yield flag(f"model.recompute_modules=[{','.join(values)}]")
        else:
            yield from (flag(f"{field}={' '.join(values)}") for field in _VALUES[name])
            if name == "--cpu-offloading-num-layers":
                yield flag("model.cpu_offloading=true")


def as_megatron_flags(settings: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """Overrides as the arguments of Megatron-LM that they stand for; `interleave` is that of the virtual pipeline."""
    found: dict[str, tuple[str, ...]] = {}
    for name, fields in _SWITCHES.items():
        if fields and all(settings.get(field) == value for field, value in fields):
            found[name] = ()
    for name, names in _VALUES.items():
        if names and names[0] in settings:
            found[name] = tuple(settings[names[0]].split(" "))
    if "model.virtual_pipeline_model_parallel_size" in settings:
        found["interleave"] = (settings["model.virtual_pipeline_model_parallel_size"],)
    if "model.recompute_modules" in settings:
        found[_MODULES] = tuple(settings["model.recompute_modules"].strip("[]").split(","))
    return found


launchers.register("megatron-bridge")(
    FrameworkLauncher(
        versions=tuple(VERSIONS),
        write=megatron_bridge,
        choices=megatron_choices,
        rules=megatron_rules,
        partial_recompute=tuple(VERSIONS),
        same_as="megatron-lm",
    )
)
