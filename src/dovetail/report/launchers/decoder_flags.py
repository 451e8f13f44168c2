"""A decoder's shape as the arguments of pretrain_gpt.py, in Megatron-LM and in Megatron-DeepSpeed.

Names are those of megatron/training/arguments.py (Megatron-LM) and megatron/arguments.py (Megatron-DeepSpeed).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dovetail.report.launchers.launch import Flag, Missing, flag, unsaid
from dovetail.report.launchers.model_traits import left_out, megatron_traits
from dovetail.workload.experts import Experts
from dovetail.workload.graph import run_lengths
from dovetail.workload.layer_types import layer_types, layers_of
from dovetail.workload.routing import Routing
from dovetail.workload.transformer import Transformer
from dovetail.workload.workload import Workload

_NO_FLAG = "pretrain_gpt.py has no argument for it"
_NORMS = {"layernorm": "LayerNorm", "rmsnorm": "RMSNorm"}
_BASIC = {
    "name", "num_layers", "hidden", "num_heads", "num_kv_heads", "head_width", "ffn_width", "vocab", "norm",
    "norm_has_bias", "activation", "qkv_bias", "output_bias", "ffn_bias", "is_causal", "has_rope", "has_dropout",
    "has_attention_dropout", "is_tied", "num_positions", "experts", "num_encoder_layers", "head",
}  # fmt: skip
_SAID = _BASIC | {"qk_norm", "window", "layer_types", "mlp_layer_types", "rotary_frac", "num_dense_layers", "latent"}

_BY_LAYER = {"window", "experts"}  # what --window-attn-skip-freq and --moe-layer-freq can say layer by layer


def megatron_shape(shape: Transformer, workload: Workload) -> Iterator[Flag | Missing]:
    """The model for Megatron-LM."""
    yield from _sizes(shape, workload)
    if shape.latent is None and shape.num_kv_heads != shape.num_heads:
        yield flag("--group-query-attention")
        yield flag("--num-query-groups", shape.num_kv_heads)
    if shape.latent is None and shape.head_width * shape.num_heads != shape.hidden:
        yield flag("--kv-channels", shape.head_width)
    yield flag("--normalization", _NORMS[shape.norm])
    yield from _positions(shape)
    yield from _feed_forward(shape)
    yield from _biases(shape, has_qkv_flag=True)
    if shape.qk_norm:
        yield flag("--qk-layernorm")
    yield from _window(shape)
    yield from _latent(shape)
    if shape.experts is not None:
        yield from _experts(shape, shape.experts, workload)
    yield flag("--attention-backend", "flash" if workload.attention == "flash" else "unfused")
    yield from megatron_traits(shape)
    for name in sorted({name for types in layers_of(shape) for name in types}):
        if other := sorted(set(layer_types[name]().replaces) - _BY_LAYER):
            yield Missing(f"layers of type {name}", f"no argument sets {', '.join(other)} layer by layer")
    yield from unsaid(shape, _SAID, _NO_FLAG)


def megatron_deepspeed_shape(shape: Transformer, workload: Workload) -> Iterator[Flag | Missing]:
    """The model for Megatron-DeepSpeed, an older fork with names of its own."""
    yield from _sizes(shape, workload)
    if shape.num_kv_heads != shape.num_heads:
        yield flag("--num-key-value-heads", shape.num_kv_heads)
    if shape.head_width * shape.num_heads != shape.hidden:
        yield flag("--kv-channels", shape.head_width)
    yield flag("--normalization", shape.norm)
    if shape.has_rope:
        yield flag("--use-rotary-position-embeddings")
    yield from _feed_forward(shape)
    yield from _biases(shape, has_qkv_flag=False)
    if workload.attention == "flash":
        yield flag("--use-flash-attn-v2")
    experts = shape.experts
    if experts is not None:
        yield flag("--num-experts", experts.num_experts)
        yield flag("--topk", experts.num_experts_per_token)
        yield flag("--create-moe-param-group")
        yield from _capacity(workload.routing)
        if experts.width != shape.ffn_width:
            yield Missing(f"experts of width {experts.width}", f"all layers share ffn-hidden-size {shape.ffn_width}")
        yield from _unsaid_experts(experts, {"num_experts", "num_experts_per_token", "width"})
    yield from left_out(shape, "the fork's own is used; see its arguments for what it accepts")
    yield from unsaid(shape, _BASIC, _NO_FLAG)


def _sizes(shape: Transformer, workload: Workload) -> Iterator[Flag]:
    yield flag("--num-layers", shape.num_layers)
    yield flag("--hidden-size", shape.hidden)
    yield flag("--ffn-hidden-size", shape.ffn_width)
    yield flag("--num-attention-heads", shape.num_heads)
    yield flag("--seq-length", workload.seq)
    yield flag("--max-position-embeddings", max(shape.num_positions, workload.seq))
    if not shape.is_tied:
        yield flag("--untie-embeddings-and-output-weights")
    if not shape.has_attention_dropout:
        yield flag("--attention-dropout", "0.0")
    if not shape.has_dropout:
        yield flag("--hidden-dropout", "0.0")


def _positions(shape: Transformer) -> Iterator[Flag | Missing]:
    if shape.has_rope:
        yield flag("--position-embedding-type", "rope")
        if shape.num_positions:
            yield Missing(f"{shape.num_positions} learnt positions", "positions are either learnt or turned")
    else:
        yield flag("--position-embedding-type", "learned_absolute" if shape.num_positions else "none")
    if shape.rotary_frac != 1:
        yield flag("--rotary-percent", f"{shape.rotary_frac:g}")


def _feed_forward(shape: Transformer) -> Iterator[Flag | Missing]:
    if shape.activation == "silu_mul":
        yield flag("--swiglu")
    elif shape.activation != "gelu":
        yield Missing(f"activation {shape.activation}, written as gelu", _NO_FLAG)
    if shape.norm_has_bias != (shape.norm == "layernorm"):
        has = "with" if shape.norm_has_bias else "without"
        yield Missing(f"{shape.norm} {has} biases", "layer norms always have biases there, and RMS norms never")


def _biases(shape: Transformer, *, has_qkv_flag: bool) -> Iterator[Flag | Missing]:
    """One switch for all linear layers, and in Megatron-LM one for queries, keys and values alone."""
    chosen = (shape.qkv_bias, shape.output_bias, shape.ffn_bias or (shape.experts is not None and shape.output_bias))
    if chosen == (True, True, True):
        return
    if any(chosen[1:]):
        message = "biases of some linear layers, written as of all"
        yield Missing(message, "there is one switch for all of them")
        return
    yield flag("--disable-bias-linear")
    if shape.qkv_bias and has_qkv_flag:
        yield flag("--add-qkv-bias")
    elif shape.qkv_bias:
        yield Missing("biases of queries, keys and values", "there is one switch for all linear layers")


def _window(shape: Transformer) -> Iterator[Flag | Missing]:
    if not shape.window:
        return
    yield flag("--window-size", f"({shape.window - 1},0)")  # keys before the query's own, and none after it
    if not shape.layer_types:
        return
    [*sliding, last] = shape.layer_types
    if last == ("full_attention", 1) and [name for name, _ in sliding] == ["sliding_attention"]:
        yield flag("--window-attn-skip-freq", sliding[0][1] + 1)  # N: after every N - 1 with a window one without
    else:
        yield flag("--window-attn-skip-freq", _zeros_and_ones(shape, "sliding_attention"))


def _zeros_and_ones(shape: Transformer, layer_type: str) -> str:
    """A Python list, as Megatron-LM evaluates it, with a 1 for each layer of this type."""
    runs = run_lengths(int(layer_type in types) for types in layers_of(shape))
    return "(" + "+".join(f"[{is_one}]*{count}" for is_one, count in runs) + ")"


def _latent(shape: Transformer) -> Iterator[Flag]:
    latent = shape.latent
    if latent is None:
        return
    yield flag("--multi-latent-attention")
    if latent.query_rank:
        yield flag("--q-lora-rank", latent.query_rank)
    yield flag("--kv-lora-rank", latent.kv_rank)
    yield flag("--qk-head-dim", latent.nope_width)
    yield flag("--qk-pos-emb-head-dim", latent.rotary_width)
    yield flag("--v-head-dim", latent.value_width)
    yield flag("--rope-type", "rope")  # latent attention would take yarn


def _experts(shape: Transformer, experts: Experts, workload: Workload) -> Iterator[Flag | Missing]:
    yield flag("--num-experts", experts.num_experts)
    yield flag("--moe-router-topk", experts.num_experts_per_token)
    yield flag("--moe-ffn-hidden-size", experts.width)
    if workload.precision.storage == "bf16":
        yield flag("--moe-grouped-gemm")
    if workload.routing.capacity_factor:
        yield flag("--moe-expert-capacity-factor", f"{workload.routing.capacity_factor:g}")
    if workload.routing.pads_to_capacity:
        yield flag("--moe-pad-expert-input-to-capacity")
    if shape.num_dense_layers or shape.mlp_layer_types:
        yield flag("--moe-layer-freq", _zeros_and_ones(shape, "sparse"))
    if experts.shared_width:
        yield flag("--moe-shared-expert-intermediate-size", experts.shared_width)
    if experts.router_bias:
        yield flag("--moe-router-score-function", "sigmoid")  # expert bias goes with it only
        yield flag("--moe-router-enable-expert-bias")
    yield from _unsaid_experts(
        experts, {"num_experts", "num_experts_per_token", "width", "shared_width", "router_bias"}
    )


def _capacity(routing: Routing) -> Iterator[Flag | Missing]:
    """DeepSpeed gives experts a capacity unless told not to, and pads them to it."""
    if not routing.capacity_factor:
        yield flag("--disable-moe-token-dropping")
        return
    yield flag("--moe-train-capacity-factor", f"{routing.capacity_factor:g}")
    if not routing.pads_to_capacity:
        instead = (("workload.routing", replace(routing, pads_to_capacity=True)),)
        yield Missing("pads_to_capacity false, written as true", "every expert is padded to its capacity", instead)


def _unsaid_experts(experts: Experts, said: set[str]) -> Iterator[Missing]:
    yield from (Missing(f"experts.{one.what}", one.why) for one in unsaid(experts, said, _NO_FLAG))
