"""Recompute as the arguments of Megatron-LM's pretrain_gpt.py.

Parts are those of recompute_modules in megatron/core/transformer/transformer_config.py; which norms are kernels of
their own is as in megatron/core/models/gpt/gpt_layer_specs.py with Transformer Engine.
"""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.parallel.plan import Plan
from dovetail.report.launchers.fallbacks import heaviest_recompute, mixed_recompute
from dovetail.report.launchers.launch import Flag, Missing, flag
from dovetail.workload.checkpoint_policies import is_by_tensor
from dovetail.workload.transformer import Transformer

_DENSE_LIGHT = "norms are parts of the products behind them, and activations have no part of their own but in experts"


def recompute_flags(shape: Transformer, plan: Plan) -> Iterator[Flag | Missing]:
    policy, counts = heaviest_recompute(plan), plan.recompute_layers
    yield from mixed_recompute(plan, "one policy goes for all stages")
    if policy == "none" or (counts and not any(counts)):
        return
    is_dense = policy == "norm-activation" and shape.experts is None
    if policy == "selective-op" or is_dense or is_by_tensor(policy):
        why = _DENSE_LIGHT if is_dense else "layers are recomputed whole or by named parts"
        yield Missing(f"recompute {policy}, written as full", why, (("recompute", ("full",)),))
    if policy in ("selective-op", "full") or is_dense or is_by_tensor(policy):
        yield flag("--recompute-granularity", "full")
        yield from _recomputed_layers(plan)
        return
    if counts:
        message = f"recompute {policy} of {max(counts)} layers, written as of all"
        yield Missing(message, "only full takes a count", (("recompute_layers", ()),))
    yield flag("--recompute-granularity", "selective")
    if policy == "selective":
        yield flag("--recompute-modules", "core_attn")
        return
    yield from _light_experts(shape)


def _light_experts(shape: Transformer) -> Iterator[Flag | Missing]:
    """Norms that are kernels of their own, and activations of experts; others are parts of products that keep them."""
    yield flag("--recompute-modules", "layernorm", "moe_act")
    if shape.latent is None:
        yield Missing(
            "recompute norm-activation of the norm before attention", "the product behind it holds it and keeps it"
        )
    if shape.num_expert_layers < shape.num_layers:
        yield Missing("recompute norm-activation of dense layers' activations", "moe_act is for those of experts")


def _recomputed_layers(plan: Plan) -> Iterator[Flag | Missing]:
    """All layers, each on its own, or the first ones of every chunk."""
    if not plan.recompute_layers:
        yield flag("--recompute-method", "uniform")
        yield flag("--recompute-num-layers", 1)
        return
    num_layers = max(plan.recompute_layers)
    per_chunk = -(-num_layers // plan.interleave)
    if per_chunk * plan.interleave != num_layers:
        message = f"recompute_layers {num_layers} over {plan.interleave} chunks, written as {per_chunk} of each"
        why = "the same number goes for every chunk of a stage"
        yield Missing(message, why, (("recompute_layers", (per_chunk * plan.interleave,)),))
    yield flag("--recompute-method", "block")
    yield flag("--recompute-num-layers", per_chunk)
