"""Functions of PyTorch that are one step to us, though they run as many operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  the name everyone gives it

from dovetail.errors import InvalidInput, NotModelled
from dovetail.importers.torch_operators import Reading
from dovetail.workload.recorded.record import Attribute


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """One call of a function, as one step: its operands in order."""

    word: str
    operands: tuple[Any, ...]
    attributes: tuple[tuple[str, Attribute], ...] = ()

    def reading(self, number: Callable[[Any], int]) -> Reading:
        inputs = tuple(number(tensor) for tensor in self.operands)
        return Reading(word=self.word, inputs=inputs, attributes=self.attributes)


WholeReader = Callable[..., Whole | None]  # None: let its operators be recorded one by one


def _present(*tensors: Any) -> tuple[Any, ...]:
    return tuple(tensor for tensor in tensors if tensor is not None)


def _linear(input: Any, weight: Any, bias: Any = None) -> Whole:
    return Whole(word="linear", operands=_present(input, weight, bias), attributes=(("turned", True),))


def _attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Any = None,
    enable_gqa: bool = False,
) -> Whole | None:
    del scale, enable_gqa
    if query.dim() != 4:
        return None
    if not 0 <= dropout_p <= 1:
        raise InvalidInput(f"dropout of attention must be from 0 to 1; got {dropout_p!r:.40}")
    return Whole(
        word="attention",
        operands=_present(query, key, value, attn_mask),
        attributes=(("dropout", float(dropout_p)), ("is_causal", bool(is_causal))),
    )


def _dropout(
    input: Any, p: float = 0.5, training: bool = True, inplace: bool = False, train: bool = True
) -> Whole | None:
    del inplace
    if not training or not train or p == 0:
        return None
    return Whole(word="dropout", operands=(input,))


def _layer_norm(
    input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, *rest: Any, **more: Any
) -> Whole:
    del normalized_shape, rest, more
    return Whole(word="layernorm", operands=_present(input, weight, bias))


def _rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: Any = None) -> Whole:
    del normalized_shape, eps
    return Whole(word="rmsnorm", operands=_present(input, weight))


def _group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, *rest: Any, **more: Any) -> Whole:
    del num_groups, rest, more
    return Whole(word="groupnorm", operands=_present(input, weight, bias))


def _instance_norm(
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    *rest: Any,
    **more: Any,
) -> Whole:
    del running_mean, running_var, rest, more
    return Whole(word="groupnorm", operands=_present(input, weight, bias))


def _embedding_bag(input: Any, weight: Any, offsets: Any = None, *rest: Any, **more: Any) -> Whole:
    per_sample = more.get("per_sample_weights", rest[5] if len(rest) > 5 else None)
    rows = input.shape[0] if input.dim() == 2 else (offsets.shape[0] - bool(more.get("include_last_offset", False)))
    pool = -(-input.numel() // max(rows, 1))
    return Whole(
        word="embedding_bag", operands=_present(weight, input, offsets, per_sample), attributes=(("pool", int(pool)),)
    )


def _lstm(input: Any, *rest: Any) -> Whole:
    """Two forms: padded (input, hidden, weights, ..., batch first) and packed (data, batch sizes, hidden, ...)."""
    if isinstance(rest[0], torch.Tensor):
        raise NotModelled("an LSTM over packed sequences is not modelled; give it padded ones")
    hidden, weights, has_biases, num_layers, _dropout_share, _train, bidirectional, batch_first = rest
    step = 4 if has_biases else 2
    if len(weights) != step * num_layers * (1 + bool(bidirectional)):
        raise NotModelled("an LSTM with projections (proj_size) is not modelled")
    # Weights of all layers and directions first, then biases.
    matrices = [weight for weight in weights if weight.dim() == 2]
    biases = [weight for weight in weights if weight.dim() == 1]
    return Whole(
        word="lstm",
        operands=(input, *matrices, *biases),
        attributes=(
            ("batch_first", bool(batch_first)),
            ("directions", 1 + bool(bidirectional)),
            ("hidden", int(hidden[0].shape[-1])),
            ("layers", int(num_layers)),
        ),
    )


FINITE = (torch.isfinite, torch.Tensor.isfinite)


def _is_finite(input: Any) -> Whole:
    return Whole(word="compare", operands=(input,))


def _not_modelled(name: str) -> WholeReader:
    def reading(*_arguments: Any, **_more: Any) -> Whole:
        raise NotModelled(f"{name} layers are not modelled; LSTM is, and cells written out step by step are")

    return reading


def _functions() -> dict[Any, WholeReader]:
    """By the function that `__torch_function__` gets: where torch has one under two names both are here."""
    drops = (F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout)
    more = ("dropout", "dropout_", "alpha_dropout", "alpha_dropout_", "feature_dropout", "feature_dropout_")
    table: dict[Any, WholeReader] = dict.fromkeys(drops, _dropout)
    table |= {getattr(torch, name): _dropout for name in more if hasattr(torch, name)}
    table |= dict.fromkeys(FINITE, _is_finite)
    table |= {
        F.linear: _linear,
        F.scaled_dot_product_attention: _attention,
        F.layer_norm: _layer_norm,
        torch.layer_norm: _layer_norm,
        F.rms_norm: _rms_norm,
        F.group_norm: _group_norm,
        torch.group_norm: _group_norm,
        F.instance_norm: _instance_norm,
        F.embedding_bag: _embedding_bag,
        torch.lstm: _lstm,
        torch.gru: _not_modelled("GRU"),
        torch.rnn_tanh: _not_modelled("RNN"),
        torch.rnn_relu: _not_modelled("RNN"),
    }
    if hasattr(torch, "rms_norm"):
        table[torch.rms_norm] = _rms_norm
    return table


WHOLE: dict[Any, WholeReader] = _functions()

# Between devices: a recording has one.
MOVES = frozenset(
    getattr(torch.Tensor, name) for name in ("to", "cuda", "cpu", "xpu", "hpu", "npu") if hasattr(torch.Tensor, name)
)


def at_home(func: Any, args: Any, kwargs: Any) -> tuple[Any, Any, str]:
    """A call with every device named in it replaced by meta, and the first of those that were named."""
    moved = [value for value in (*args[1:], kwargs.get("device")) if _is_away(value)]
    if func in MOVES and func is not torch.Tensor.to:
        return args, kwargs, func.__name__
    if not moved:
        return args, kwargs, ""
    args = (*args[:1], *("meta" if _is_away(value) else value for value in args[1:])) if func in MOVES else args
    if _is_away(kwargs.get("device")):
        kwargs = kwargs | {"device": "meta"}
    return args, kwargs, str(moved[0])


def _is_away(value: Any) -> bool:
    if isinstance(value, str):
        value = value.partition(":")[0]
        return value in ("cuda", "cpu", "xpu", "mps", "hpu", "npu")
    return isinstance(value, torch.device) and value.type != "meta"
