"""What a model has that no time depends on and a training run must be told: by model, with its source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dovetail.report.launchers.launch import Flag, Missing, flag
from dovetail.units import MEGA
from dovetail.workload.transformer import Transformer


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTraits:
    """Figures of a released model's config.json that its shape does not have.

    `num_router_groups` experts are grouped, of which `num_chosen_groups` are routed to; `router_scale` multiplies what
    the chosen experts weigh. `num_mtp_layers`: layers that predict further tokens.
    """

    source: str
    rotary_base: float
    norm_epsilon: float
    num_router_groups: int = 0
    num_chosen_groups: int = 0
    router_scale: float = 1.0
    has_latent_norms: bool = False
    num_mtp_layers: int = 0


_LLAMA3 = ModelTraits(source="meta-llama/Meta-Llama-3-8B config.json", rotary_base=500_000.0, norm_epsilon=1e-5)
_LLAMA2 = ModelTraits(source="meta-llama/Llama-2-70b-hf config.json", rotary_base=10_000.0, norm_epsilon=1e-5)
TRAITS = {
    "gpt3-175b": ModelTraits(source="openai/gpt-2 src/model.py, norm", rotary_base=0.0, norm_epsilon=1e-5),
    "llama2-7b": _LLAMA2,
    "llama2-13b": _LLAMA2,
    "llama2-70b": _LLAMA2,
    "llama3-8b": _LLAMA3,
    "llama3-70b": _LLAMA3,
    "llama3-405b": _LLAMA3,
    "mixtral-8x7b": ModelTraits(source="mistralai/Mixtral-8x7B-v0.1 config.json", rotary_base=MEGA, norm_epsilon=1e-5),
    "deepseek-v3": ModelTraits(
        source="deepseek-ai/DeepSeek-V3 config.json",
        rotary_base=10_000.0,
        norm_epsilon=1e-6,
        num_router_groups=8,
        num_chosen_groups=4,
        router_scale=2.5,
        has_latent_norms=True,
        num_mtp_layers=1,
    ),
}
_UNKNOWN = "it is not known here of this model, and no time depends on it; give your model's own"


def megatron_traits(shape: Transformer) -> Iterator[Flag | Missing]:
    """A model's traits as arguments of pretrain_gpt.py; what is not known, or not modelled, is named."""
    traits = TRAITS.get(shape.name)
    if traits is None:
        yield from unknown_traits(shape)
        return
    if shape.has_rope:
        yield flag("--rotary-base", f"{traits.rotary_base:.0f}")
    yield flag("--norm-epsilon", f"{traits.norm_epsilon:g}")
    if traits.num_router_groups:
        yield flag("--moe-router-num-groups", traits.num_router_groups)
        yield flag("--moe-router-group-topk", traits.num_chosen_groups)
    if traits.router_scale != 1.0:
        yield flag("--moe-router-topk-scaling-factor", f"{traits.router_scale:g}")
    if traits.has_latent_norms and not shape.qk_norm:
        yield flag("--qk-layernorm")
    if traits.num_mtp_layers:
        why = "a step is predicted without them; --mtp-num-layers adds them"
        yield Missing(f"{traits.num_mtp_layers} layers that predict further tokens (MTP)", why)


def left_out(shape: Transformer, why: str) -> Iterator[Missing]:
    """A model's traits where the text has no words for them."""
    traits = TRAITS.get(shape.name)
    if traits is None:
        yield from unknown_traits(shape)
        return
    if shape.has_rope:
        yield Missing(f"rotary base {traits.rotary_base:g}", why)
    yield Missing(f"norm epsilon {traits.norm_epsilon:g}", why)
    if traits.num_router_groups:
        groups = f"{traits.num_chosen_groups} of {traits.num_router_groups}"
        yield Missing(f"router groups {groups} and scaling {traits.router_scale:g}", why)
    if traits.num_mtp_layers:
        yield Missing(f"{traits.num_mtp_layers} layers that predict further tokens (MTP)", why)


def unknown_traits(shape: Transformer) -> Iterator[Missing]:
    """What every such model has, where its figures are not known."""
    if shape.has_rope:
        yield Missing("rotary base", _UNKNOWN)
    yield Missing("norm epsilon", _UNKNOWN)
    if shape.experts is not None:
        yield Missing("groups and scaling of the router", _UNKNOWN)
