"""Megatron-LM's printed arguments as a job: what report/launchers writes as flags, read the other way.

Names are those of megatron/training/arguments.py, with underscores, as print_args shows them.
"""

from __future__ import annotations

import ast
from typing import Any

from dovetail.files.training_logs.draft import Draft, count_in, number_in
from dovetail.parallel.dispatchers import DEEPEP, dispatchers

_CONTEXT_TYPES = {"p2p": "ring", "all_gather": "gather", "a2a": "all-to-all"}
_SHARDING = {"optim": 1, "optim_grads": 2, "optim_grads_params": 3}
_NORMS = {"LayerNorm": "layernorm", "RMSNorm": "rmsnorm", "layernorm": "layernorm", "rmsnorm": "rmsnorm"}
_NO_WORDS = (  # arguments that change the model or the step, and that nothing here has words for
    "multi_latent_attention", "window_size", "moe_layer_freq", "heterogeneous_layers_config_path", "mtp_num_layers",
    "pipeline_model_parallel_layout", "encoder_num_layers", "retro_add_retriever", "hybrid_override_pattern",
    "squared_relu", "apply_residual_connection_post_layernorm", "sequence_packing", "moe_layer_recompute",
)  # fmt: skip


def take_arguments(arguments: dict[str, str], draft: Draft) -> None:
    """Tells the draft what the arguments say of model, batch, devices and plan; what they say beyond is a note."""
    if not arguments:
        return
    printed = _Arguments(arguments)
    model = _model(printed, draft)
    draft.describe(
        "workload",
        model=model,
        global_batch=printed.count("global_batch_size"),
        seq=printed.count("seq_length"),
        attention=_attention(printed),
        precision=_precision(printed),
    )
    draft.describe("cluster", devices=printed.count("world_size"))
    if printed.count("tensor_model_parallel_size"):
        draft.describe("plan", **_plan(printed))


class _Arguments:
    """Arguments as they were printed, read as flags, counts and words."""

    def __init__(self, printed: dict[str, str]) -> None:
        self._printed = printed

    def word(self, name: str) -> str:
        found = self._printed.get(name, "")
        return "" if found == "None" else found

    def flag(self, name: str) -> bool:
        return self._printed.get(name, "") == "True"

    def count(self, name: str) -> int:
        return count_in(self.word(name))

    def has(self, name: str) -> bool:
        return name in self._printed

    def names(self, name: str) -> list[str]:
        """A list of words, as Python prints it."""
        try:
            found = ast.literal_eval(self.word(name) or "[]")
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return []
        return [str(one) for one in found] if isinstance(found, list | tuple) else [str(found)]


def _model(printed: _Arguments, draft: Draft) -> dict[str, Any] | str:
    """The decoder written out; empty where the arguments do not have its sizes, or have what we have no words for."""
    layers, hidden, heads = (printed.count(name) for name in ("num_layers", "hidden_size", "num_attention_heads"))
    vocab = printed.count("padded_vocab_size") or printed.count("vocab_size")
    if not (layers and hidden and heads and vocab):
        return ""
    for name in _NO_WORDS:
        if printed.word(name) not in ("", "False", "0", "1", "[]"):
            draft.notes.append(f"the arguments have {name}, which a log is not read for: name the model by --model")
            return ""
    is_gated, has_bias = printed.flag("swiglu"), printed.flag("add_bias_linear") or not printed.has("add_bias_linear")
    norm = _NORMS.get(printed.word("normalization"), "layernorm")
    positions = printed.word("position_embedding_type")
    is_rotary = positions in ("rope", "yarn") or printed.flag("use_rotary_position_embeddings")
    groups = printed.count("num_query_groups") if printed.flag("group_query_attention") else 0
    model: dict[str, Any] = {
        "name": f"{layers}-layer-decoder",
        "num_layers": layers,
        "hidden": hidden,
        "num_heads": heads,
        "num_kv_heads": groups or heads,
        "head_width": printed.count("kv_channels") or hidden // heads,
        "ffn_width": printed.count("ffn_hidden_size") or 4 * hidden,
        "vocab": vocab,
        "norm": norm,
        "norm_has_bias": norm == "layernorm",
        "activation": "silu_mul" if is_gated else "gelu",
        "qkv_bias": has_bias or printed.flag("add_qkv_bias"),
        "output_bias": has_bias,
        "ffn_bias": has_bias,
        "has_rope": is_rotary,
        "num_positions": 0 if is_rotary or positions == "none" else printed.count("max_position_embeddings"),
        "is_tied": not printed.flag("untie_embeddings_and_output_weights"),
        "has_dropout": number_in(printed.word("hidden_dropout")) > 0,
        "has_attention_dropout": number_in(printed.word("attention_dropout")) > 0,
        "qk_norm": printed.flag("qk_layernorm"),
        "seq": printed.count("seq_length"),
        "batch": printed.count("global_batch_size"),
        "source": "the arguments that the log prints",
    }
    if printed.count("num_experts"):
        model["experts"] = {
            "num_experts": printed.count("num_experts"),
            "num_experts_per_token": printed.count("moe_router_topk") or 1,
            "width": printed.count("moe_ffn_hidden_size") or model["ffn_width"],
            **_shared(printed.count("moe_shared_expert_intermediate_size")),
        }
    return {key: value for key, value in model.items() if value != 0 or key not in ("seq", "batch")}


def _shared(width: int) -> dict[str, int]:
    return {"shared_width": width} if width else {}


def _attention(printed: _Arguments) -> str:
    """Unfused where the arguments say so; older releases had a flag of their own for flash attention."""
    backend = printed.word("attention_backend")
    return "unfused" if "unfused" in backend else ""


def _precision(printed: _Arguments) -> dict[str, Any]:
    storage = "bf16" if printed.flag("bf16") else "fp16" if printed.flag("fp16") else "fp32"
    compute = "fp8" if printed.word("fp8") or printed.word("fp8_format") else storage
    narrow = printed.flag("grad_reduce_in_bf16") or (printed.has("accumulate_allreduce_grads_in_fp32")
        and not printed.flag("accumulate_allreduce_grads_in_fp32") and storage == "bf16")  # fmt: skip
    optimizer = printed.word("optimizer").lower()
    named = {"optimizer": optimizer} if optimizer in ("sgd", "muon", "lion") else {}
    return {"compute": compute, **({"gradients": "bf16"} if narrow else {}), **named}


def _plan(printed: _Arguments) -> dict[str, Any]:
    tensor = printed.count("tensor_model_parallel_size")
    pipeline = printed.count("pipeline_model_parallel_size") or 1
    context = printed.count("context_parallel_size") or 1
    plan: dict[str, Any] = {
        "tensor_parallel": tensor,
        "pipeline_parallel": pipeline,
        "context_parallel": context,
        "microbatch": printed.count("micro_batch_size") or 1,
        "zero_stage": _zero_stage(printed),
        "framework": "megatron-lm",
    }
    if tensor > 1 and printed.flag("sequence_parallel"):
        plan["sequence_parallel"] = True
    if context > 1:
        [kind] = printed.names("cp_comm_type")[:1] or ["p2p"]
        plan["context_comm_type"] = _CONTEXT_TYPES.get(kind, "ring")
    if printed.count("expert_model_parallel_size") > 1:
        plan["expert_parallel"] = printed.count("expert_model_parallel_size")
    if printed.count("num_experts") and printed.count("expert_tensor_parallel_size"):
        plan["expert_tensor_parallel"] = printed.count("expert_tensor_parallel_size")
    if printed.flag("moe_enable_deepep") or printed.names("moe_token_dispatcher_type")[:1] == ["flex"]:
        [backend] = printed.names("moe_flex_dispatcher_backend")[:1] or [DEEPEP]
        plan["dispatcher"] = backend if backend in dispatchers else DEEPEP
    chunks = _chunks(printed, pipeline)
    if chunks > 1:
        plan["interleave"] = chunks
    plan |= _uneven(printed, pipeline) | _recompute(printed)
    if printed.flag("optimizer_cpu_offload"):
        plan["offload_optimizer"] = True
    if printed.flag("use_tp_pp_dp_mapping"):
        plan["axis_order"] = ["tp", "cp", "pp", "dp"]
    overlap = {
        "data": printed.flag("overlap_grad_reduce"),
        "tensor": printed.flag("tp_comm_overlap"),
        "expert": printed.flag("overlap_moe_expert_parallel_comm"),
        "pipeline": chunks > 1 and (printed.flag("overlap_p2p_comm") or not printed.has("overlap_p2p_comm")),
    }
    return plan | {"overlap": overlap}


def _zero_stage(printed: _Arguments) -> int:
    if printed.flag("use_megatron_fsdp") or printed.flag("use_custom_fsdp"):
        return _SHARDING.get(printed.word("data_parallel_sharding_strategy"), 3)
    if printed.flag("use_torch_fsdp2"):
        return 3
    if printed.flag("use_distributed_optimizer"):
        return 1
    return printed.count("zero_stage") if printed.flag("deepspeed") else 0


def _chunks(printed: _Arguments, pipeline: int) -> int:
    """Chunks of layers that a stage has: printed, or from how many layers a chunk has."""
    if printed.count("virtual_pipeline_model_parallel_size"):
        return printed.count("virtual_pipeline_model_parallel_size")
    per_chunk, layers = printed.count("num_layers_per_virtual_pipeline_stage"), printed.count("num_layers")
    return layers // pipeline // per_chunk if per_chunk and layers else 1


def _uneven(printed: _Arguments, pipeline: int) -> dict[str, Any]:
    """Layers by stage, where the first or the last has others than the rest."""
    layers = printed.count("num_layers")
    first, last = (printed.count(f"decoder_{end}_pipeline_num_layers") for end in ("first", "last"))
    num_given = bool(first) + bool(last)
    if not num_given or pipeline <= num_given or _chunks(printed, pipeline) > 1:
        return {}
    rest = (layers - first - last) // (pipeline - num_given)
    stages = [first or rest, *[rest] * (pipeline - 2), last or rest]
    return {"layers_per_stage": stages} if sum(stages) == layers else {}


def _recompute(printed: _Arguments) -> dict[str, Any]:
    granularity = printed.word("recompute_granularity")
    if granularity == "full":
        counts = {}
        if printed.word("recompute_method") == "block" and printed.count("recompute_num_layers"):
            chunks = _chunks(printed, printed.count("pipeline_model_parallel_size") or 1)
            counts = {"recompute_layers": [printed.count("recompute_num_layers") * chunks]}
        return {"recompute": "full"} | counts
    if granularity == "selective":
        modules = printed.names("recompute_modules") or ["core_attn"]
        return {"recompute": "selective" if "core_attn" in modules else "norm-activation"}
    return {}
