"""Decoders with a mixture of experts: Mixtral, Phi-3.5 MoE, gpt-oss, Qwen 2 and 3 MoE, DeepSeek MoE, V2 and V3."""

from __future__ import annotations

from dataclasses import replace

from dovetail.errors import NotModelled
from dovetail.workload.experts import Experts
from dovetail.workload.huggingface import Shape, readers
from dovetail.workload.huggingface.fields import Fields
from dovetail.workload.huggingface.llama import (
    llama_like,
    qwen3_like,
    with_attention_bias,
    with_qwen_window,
    with_window,
)
from dovetail.workload.latent import LatentAttention
from dovetail.workload.layer_types import shortest_pattern
from dovetail.workload.transformer import Transformer


def _chosen(fields: Fields, num_experts: int) -> int:
    return fields.count("num_experts_per_tok", most=num_experts)


@readers.register("mixtral")
def mixtral(fields: Fields, name: str) -> Shape:
    shape = with_window(fields, llama_like(fields, name, num_kv_heads=8))
    num_experts = fields.count("num_local_experts")
    fields.ignore("router_jitter_noise")  # scales the few router inputs
    experts = Experts(
        num_experts=num_experts, num_experts_per_token=_chosen(fields, num_experts), width=shape.ffn_width
    )
    return Shape(transformer=replace(shape, experts=experts), seq=fields.positions("max_position_embeddings"))


@readers.register("phimoe")
def phimoe(fields: Fields, name: str) -> Shape:
    """As Mixtral, with layer norms and, where configured, biases on attention and logits."""
    shape = with_window(fields, with_attention_bias(fields, llama_like(fields, name, num_kv_heads=8)))
    fields.ignore("router_jitter_noise", "input_jitter_noise")  # scales the few router inputs
    fields.must_be("hidden_dropout", 0.0, 0)
    num_experts = fields.count("num_local_experts", 16)
    num_experts_per_token = fields.count("num_experts_per_tok", 2, most=num_experts)
    shape = replace(
        shape,
        norm="layernorm",
        norm_has_bias=True,
        head_bias=fields.flag("lm_head_bias", False),
        experts=Experts(num_experts=num_experts, num_experts_per_token=num_experts_per_token, width=shape.ffn_width),
    )
    return Shape(transformer=shape, seq=fields.positions("max_position_embeddings"))


@readers.register("gpt_oss")
def gpt_oss(fields: Fields, name: str) -> Shape:
    """A window in every other layer, a learnt logit a head in every softmax, biases, and a gate that is clamped."""
    shape = llama_like(fields, name, num_kv_heads=8, head_width=64)
    every_other = (("sliding_attention", 1), ("full_attention", 1))
    shape = with_window(fields, shape, default=128, layer_types=every_other)
    has_bias = fields.flag("attention_bias", True)
    num_experts = fields.count("num_local_experts", 128)
    num_experts_per_token = fields.count("num_experts_per_tok", 4, most=num_experts)
    fields.must_be(
        "experts_per_token", num_experts_per_token
    )  # an older name, which released configs have beside the other
    fields.ignore(
        "swiglu_limit", "swiglu_alpha", "initial_context_length"
    )  # of the clamped gate; before yarn stretched it
    shape = replace(
        shape,
        qkv_bias=has_bias,
        output_bias=has_bias,
        has_attention_sinks=True,
        activation="clamped_silu_mul",
        experts=Experts(
            num_experts=num_experts, num_experts_per_token=num_experts_per_token, width=shape.ffn_width, has_bias=True
        ),
    )
    return Shape(transformer=shape, seq=fields.positions("max_position_embeddings", 131072))


def _with_qwen_experts(fields: Fields, shape: Transformer, *, has_shared: bool) -> Transformer:
    """Experts in one of every `decoder_sparse_step` layers, but for those that `mlp_only_layers` names."""
    name = "num_local_experts" if "num_experts" not in fields.config else "num_experts"  # as transformers 5 writes it
    num_experts = fields.count(name)
    experts = Experts(
        num_experts=num_experts,
        num_experts_per_token=_chosen(fields, num_experts),
        width=fields.count("moe_intermediate_size"),
        shared_width=fields.count("shared_expert_intermediate_size") if has_shared else 0,
        shared_gate=has_shared,
    )
    step, dense = fields.count("decoder_sparse_step", 1), set(fields.counts("mlp_only_layers"))
    layers = range(shape.num_layers)
    are_sparse = [layer not in dense and (layer + 1) % step == 0 for layer in layers]
    if not any(are_sparse) or dense - set(layers):
        raise NotModelled("mlp_only_layers must be some of the layers and not all of them", "mlp_only_layers")
    num_first = are_sparse.index(True)
    if all(are_sparse[num_first:]):
        return replace(shape, experts=experts, num_dense_layers=num_first)
    names = ["sparse" if is_sparse else "dense" for is_sparse in are_sparse]
    return replace(shape, experts=experts, mlp_layer_types=shortest_pattern(names))


@readers.register("qwen2_moe")
def qwen2_moe(fields: Fields, name: str) -> Shape:
    shape = replace(llama_like(fields, name, num_kv_heads=16), qkv_bias=fields.flag("qkv_bias", True))
    shape = _with_qwen_experts(fields, with_qwen_window(fields, shape), has_shared=True)
    return Shape(transformer=shape, seq=fields.positions("max_position_embeddings"))


@readers.register("qwen3_moe")
def qwen3_moe(fields: Fields, name: str) -> Shape:
    shape = _with_qwen_experts(fields, qwen3_like(fields, name, num_kv_heads=4, head_width=0), has_shared=False)
    return Shape(transformer=shape, seq=fields.positions("max_position_embeddings"))


@readers.register("deepseek")
def deepseek(fields: Fields, name: str) -> Shape:
    """DeepSeekMoE: plain attention, then experts as its successors have them."""
    shape = with_attention_bias(fields, llama_like(fields, name))
    return _with_deepseek_experts(fields, shape, has_router_bias=False)


@readers.register("deepseek_v2")
def deepseek_v2(fields: Fields, name: str) -> Shape:
    return _deepseek(fields, name, has_router_bias=False)


@readers.register("deepseek_v3")
def deepseek_v3(fields: Fields, name: str) -> Shape:
    return _deepseek(fields, name, has_router_bias=True)


def _deepseek(fields: Fields, name: str, *, has_router_bias: bool) -> Shape:
    latent = LatentAttention(
        query_rank=fields.count("q_lora_rank", 0, least=0),
        kv_rank=fields.count("kv_lora_rank"),
        nope_width=fields.count("qk_nope_head_dim"),
        rotary_width=fields.count("qk_rope_head_dim"),
        value_width=fields.count("v_head_dim"),
    )
    key_width = latent.nope_width + latent.rotary_width
    fields.must_be("head_dim", latent.rotary_width, key_width)  # derived widths, written by newer versions
    fields.must_be("qk_head_dim", key_width)
    shape = replace(llama_like(fields, name, head_width=key_width), head_width=key_width, latent=latent)
    fields.must_be("num_key_value_heads", shape.num_heads)
    fields.must_be("attention_bias", False)
    return _with_deepseek_experts(fields, shape, has_router_bias=has_router_bias)


def _with_deepseek_experts(fields: Fields, shape: Transformer, *, has_router_bias: bool) -> Shape:
    experts = _deepseek_experts(fields, has_router_bias)
    num_dense_layers = fields.count("first_k_dense_replace", 0, least=0, most=shape.num_layers - 1)
    if fields.count("num_nextn_predict_layers", 0, least=0):
        fields.notes.append("the multi-token-prediction module is left out")  # as Transformers leaves it out
    return Shape(
        transformer=replace(shape, experts=experts, num_dense_layers=num_dense_layers),
        seq=fields.positions("max_position_embeddings"),
    )


def _deepseek_experts(fields: Fields, has_router_bias: bool) -> Experts:
    num_experts, width = fields.count("n_routed_experts"), fields.count("moe_intermediate_size")
    fields.must_be("moe_layer_freq", 1)
    # how experts are chosen
    fields.ignore("topk_method", "scoring_func", "routed_scaling_factor", "ep_size")
    num_groups = fields.count("n_group", 1) if fields.config.get("n_group") else 1
    num_groups_per_token = fields.count("topk_group", num_groups) if fields.config.get("topk_group") else num_groups
    fields.ignore("rope_interleave")
    return Experts(
        num_experts=num_experts,
        num_experts_per_token=_chosen(fields, num_experts),
        width=width,
        num_groups=num_groups,
        num_groups_per_token=num_groups_per_token,
        shared_width=fields.count("n_shared_experts", 0, least=0) * width,
        router_bias=has_router_bias,
    )
