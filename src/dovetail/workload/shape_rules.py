"""Which transformer shapes there are: what each field may say, and what cannot be had together.

A combination that layers would leave out without a word is refused here, so that no answer is for another network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dovetail.errors import InvalidInput, NotModelled, did_you_mean, require_positive
from dovetail.workload.layer_types import FIELDS, check_pattern
from dovetail.workload.operator_tables import own_operators

if TYPE_CHECKING:
    from dovetail.workload.transformer import Transformer

ACTIVATIONS = ("gelu", "gelu_mul", "relu", "silu", "silu_mul", "clamped_silu_mul")  # '..._mul': gated
NORMS = ("layernorm", "rmsnorm")
HEADS = ("lm", "mlm")
NUM_NORMS = (1, 2, 4)
ELEMENT_WISE = ("add", "dropout", "gelu", "hardsigmoid", "hardswish", "mul", "relu", "scale", "sigmoid", "silu", "tanh")

MAX_LAYERS = 10_000  # style: a bound, more than any model has

_OTHER_WORDS = {"swiglu": "silu_mul", "geglu": "gelu_mul", "swish": "silu", "layer_norm": "layernorm"}
_POSITIVE = ("num_layers", "hidden", "num_heads", "num_kv_heads", "head_width", "ffn_width", "vocab")
_NOT_NEGATIVE = (
    "window",
    "num_positions",
    "num_token_types",
    "embedding_width",
    "num_relative_buckets",
    "num_encoder_layers",
    "num_dense_layers",
)
_KINDS = ("embedding_kinds", "score_kinds", "head_kinds", "logit_kinds")
# Pairs that no layer is written for: with both, one of them would be left out.
_NOT_TOGETHER = (
    ("is_parallel", "experts"),
    ("is_parallel", "num_encoder_layers"),
    ("num_dense_layers", "num_encoder_layers"),
    ("window", "num_encoder_layers"),
    ("has_dropout", "experts"),
    ("has_ffn_dropout", "experts"),
    ("ffn_bias", "experts"),
    ("layer_types", "num_encoder_layers"),
    ("mlp_layer_types", "num_encoder_layers"),
    ("has_attention_sinks", "num_encoder_layers"),
    ("qk_norm", "latent"),
    ("qkv_bias", "latent"),
)


def check_shape(shape: Transformer) -> None:
    """Raises `InvalidInput` for what no transformer has, `NotModelled` for what no layer is written for."""
    require_positive(shape, *_POSITIVE)
    for label in _NOT_NEGATIVE:
        if getattr(shape, label) < 0:
            raise InvalidInput(f"{label} must not be negative; got {getattr(shape, label)}; 0 is none", label)
    for label in ("num_layers", "num_encoder_layers"):
        if getattr(shape, label) > MAX_LAYERS:
            raise InvalidInput(f"{label} must be at most {MAX_LAYERS:,}; got {getattr(shape, label):,}", label)
    own = own_operators()  # of plugins
    for label, known in (("activation", (*ACTIVATIONS, *own)), ("norm", NORMS), ("head", HEADS)):
        _require_known(getattr(shape, label), known, label, label)
    for label in _KINDS:
        for kind in getattr(shape, label):
            _require_known(kind, (*ELEMENT_WISE, *own), label, "element-wise operator")
    for label, other in _NOT_TOGETHER:
        if getattr(shape, label) and getattr(shape, other):
            raise NotModelled(f"{label} together with {other} is not modelled; leave one of them out", label)
    _check_attention(shape)
    _check_norms(shape)
    _check_dense_layers(shape)
    for field in FIELDS:
        check_pattern(shape, field)


def _require_known(name: str, known: tuple[str, ...], label: str, noun: str) -> None:
    if name not in known:
        other = _OTHER_WORDS.get(str(name).casefold())
        hint = f"; here it is called {other}" if other in known else did_you_mean(name, known)
        raise InvalidInput(f"no {noun} is named {name!r}{hint}", label)


def _check_attention(shape: Transformer) -> None:
    if shape.num_heads % shape.num_kv_heads:
        few, many = shape.num_kv_heads, shape.num_heads
        raise InvalidInput(f"num_kv_heads={few} must divide num_heads={many}", "num_kv_heads")
    if not 0 < shape.rotary_frac <= 1:
        raise InvalidInput(f"rotary_frac must be above 0 and at most 1; got {shape.rotary_frac:g}", "rotary_frac")
    if shape.has_rope and int(shape.head_width * shape.rotary_frac) < 1:
        message = f"rotary_frac={shape.rotary_frac:g} leaves no column of a head of {shape.head_width}"
        raise InvalidInput(f"{message}; set has_rope: false if nothing turns", "rotary_frac")
    if shape.latent is not None and shape.rotary_frac != 1:
        raise InvalidInput("rotary_frac goes with plain attention; of latent attention set rotary_width", "rotary_frac")
    if shape.window and not shape.is_causal:
        raise InvalidInput(f"window={shape.window} needs causal attention; set window to 0", "window")


def _check_norms(shape: Transformer) -> None:
    if shape.num_norms not in NUM_NORMS:
        raise InvalidInput(f"num_norms must be 1, 2 or 4; got {shape.num_norms}", "num_norms")
    if shape.num_norms == 1 and not shape.is_parallel:
        raise InvalidInput("num_norms=1 needs is_parallel: true; layers in series have 2 or 4", "num_norms")
    if shape.num_norms == 4 and shape.is_parallel:
        raise InvalidInput("num_norms=4 needs is_parallel: false; parallel branches have 1 or 2", "num_norms")
    if shape.num_norms == 4 and (shape.experts is not None or shape.has_dropout):
        with_what = "experts" if shape.experts is not None else "has_dropout"
        raise NotModelled(f"num_norms=4 together with {with_what} is not modelled; set 2", "num_norms")


def _check_dense_layers(shape: Transformer) -> None:
    if shape.num_dense_layers and shape.mlp_layer_types:
        raise InvalidInput(
            "num_dense_layers and mlp_layer_types both set which layers are dense; leave one out", "num_dense_layers"
        )
    if shape.num_dense_layers and shape.experts is None:
        raise InvalidInput("num_dense_layers needs experts; remove it or give experts", "num_dense_layers")
    if shape.num_dense_layers >= shape.num_layers:
        few, many = shape.num_dense_layers, shape.num_layers
        raise InvalidInput(f"num_dense_layers={few} must be below num_layers={many}", "num_dense_layers")
