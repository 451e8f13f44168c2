"""Typed access to a config: each value is checked when read, and what was never read is refused in the end."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dovetail.errors import InvalidInput, NotModelled
from dovetail.workload.shape_rules import MAX_LAYERS

_NUM_MOST = 2**19  # above any width, depth or vocabulary in use; keeps sums of products of three within 63 bits
_NUM_MOST_POSITIONS = 2**30
_REQUIRED = object()
_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu",
    "gelu_fast": "gelu",
    "gelu_python": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "silu": "silu",
    "swish": "silu",
    "relu": "relu",
}
_GATED = ("gelu", "silu")  # those with an operator for the product with the gate

# Keys that change neither shapes nor work: names, versions and tokens, initial values, epsilons, rotation speeds,
# weights of losses, how software runs a model, and what only generation or a classifier reads.
_HARMLESS_KEYS = """
    model_type torch_dtype dtype use_bfloat16 auto_map use_cache attn_implementation use_flash_attn torchscript
    initializer_range initializer_factor init_std rms_norm_eps layer_norm_eps layer_norm_epsilon rope_theta rope_scaling
    rope_parameters rope_local_base_freq rope_interleaved rotary_emb_base original_max_position_embeddings
    pretraining_tp task_specific_params id2label label2id num_labels problem_type finetuning_task classifier_dropout
    output_attentions output_hidden_states output_past output_scores return_dict return_dict_in_generate
    gradient_checkpointing prefix router_aux_loss_coef output_router_logits aux_loss_alpha seq_aux norm_topk_prob
    max_length min_length max_new_tokens model_max_length do_sample early_stopping num_beams num_beam_groups
    num_return_sequences diversity_penalty temperature top_k top_p typical_p repetition_penalty length_penalty
    no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids suppress_tokens begin_suppress_tokens
    remove_invalid_values cache_implementation tokenizer_class chunk_size_feed_forward tf_legacy_loss
    is_llama_config unsloth_fixed transformers.js_config
"""
_HARMLESS = frozenset(_HARMLESS_KEYS.split())
_HARMLESS_ENDINGS = ("_version", "_token_id")
_HARMLESS_BEGINNINGS = ("_name_or_path", "_attn_implementation", "_commit_hash", "_flash_attn")


@dataclass(slots=True)
class Fields:
    """A config being read. Every method names the key in the error it raises."""

    config: Mapping[str, Any]
    notes: list[str] = field(default_factory=list)  # what was assumed or left out, for the model to tell
    _keys_read: set[str] = field(default_factory=set)

    def count(self, key: str, default: int | object = _REQUIRED, *, least: int = 1, most: int = _NUM_MOST) -> int:
        """A whole number from `least` to `most`; absent or null: `default`."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidInput(f"{key} must be a whole number; got {shown(value)}", key)
        if not least <= value <= most:
            raise InvalidInput(f"{key} must be from {least} to {most:,}; got {shown(value)}", key)
        return value

    def layers(self, key: str, default: int | object = _REQUIRED) -> int:
        return self.count(key, default, most=MAX_LAYERS)

    def positions(self, key: str, default: int | object = _REQUIRED) -> int:
        return self.count(key, default, most=_NUM_MOST_POSITIONS)

    def divisor(self, key: str, whole: int, whole_key: str, default: int | object = _REQUIRED) -> int:
        """A count that must divide `whole`, the value of `whole_key`."""
        parts = self.count(key, default)
        if whole % parts:
            raise InvalidInput(f"{key}={parts} must divide {whole_key}={whole}", key)
        return parts

    def frac(self, key: str, default: float) -> float:
        """A number from 0 to 1."""
        value = self._value(key, default)
        if not _is_number(value) or not 0 <= value <= 1:
            raise InvalidInput(f"{key} must be a number from 0 to 1; got {shown(value)}", key)
        return float(value)

    def rotary_frac(self, key: str, default: float, head_width: int) -> float:
        """The part of a head that turns with its position, at least one column of it."""
        nested = self.config.get("rope_parameters")  # where newer versions of Transformers keep it
        if isinstance(nested, Mapping) and nested.get("partial_rotary_factor") is not None:
            default = Fields(nested).frac("partial_rotary_factor", default)
        frac = self.frac(key, default)
        if int(head_width * frac) < 1:
            raise InvalidInput(f"{key}={frac:g} leaves no column of a head of {head_width}", key)
        return frac

    def is_dropping(self, key: str, default: float = 0.0) -> bool:
        return self.frac(key, default) > 0

    def is_capping(self, key: str, default: float | None) -> bool:
        """Whether values are capped; null says that they are not."""
        value = self._value(key, None if key in self.config else default)
        if value is not None and not (_is_number(value) and value > 0):
            raise InvalidInput(f"{key} must be a positive number or null; got {shown(value)}", key)
        return value is not None

    def flag(self, key: str, default: bool) -> bool:
        value = self._value(key, default)
        if not isinstance(value, bool):
            raise InvalidInput(f"{key} must be true or false; got {shown(value)}", key)
        return value

    def text(self, key: str, default: str | object = _REQUIRED) -> str:
        value = self._value(key, default)
        if not isinstance(value, str):
            raise InvalidInput(f"{key} must be a string; got {shown(value)}", key)
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings, empty when absent."""
        return tuple(self._items(key, str, "strings"))

    def counts(self, key: str) -> tuple[int, ...]:
        """A list of whole numbers, empty when absent."""
        return tuple(self._items(key, int, "whole numbers"))

    def activation(self, key: str, default: str, *, is_gated: bool = False) -> str:
        """The operator of an activation; with a gate, the one that also multiplies."""
        name = self.text(key, default)
        kind = _ACTIVATIONS.get(name)
        if kind is None or (is_gated and kind not in _GATED):
            raise NotModelled(f"{key}: {'gated ' if is_gated else ''}activation {shown(name)} is not modelled", key)
        return f"{kind}_mul" if is_gated else kind

    def must_be(self, key: str, *allowed: object) -> None:
        """Refuses any value but those `allowed`; absent and null are allowed too."""
        value = self._value(key, allowed[0])
        if not any(type(value) is type(one) and value == one for one in allowed):
            raise NotModelled(f"{key}={shown(value)} is not modelled", key)

    def ignore(self, *keys: str) -> None:
        """Marks keys of one family as read: they change neither shapes nor work."""
        self._keys_read.update(keys)

    def refuse_the_rest(self) -> None:
        """Refuses every key that has a value and that no reader read."""
        for key, value in self.config.items():
            says_nothing = value is None or value is False or value in (0, "", [], {})
            if not says_nothing and key not in self._keys_read and not _is_harmless(key):
                message = f"key {shown(key)} is not known and may change the network"
                raise NotModelled(f"{message}; take it out if it does not", shown(key).strip("'"))

    def _items(self, key: str, kind: type, noun: str) -> list[Any]:
        value = self._value(key, [])
        if not isinstance(value, list | tuple):
            raise InvalidInput(f"{key} must be a list of {noun}; got {shown(value)}", key)
        for index, item in enumerate(value):
            if not isinstance(item, kind) or isinstance(item, bool):
                raise InvalidInput(f"{key} must be a list of {noun}; got {shown(item)}", f"{key}.{index}")
        return list(value)

    def _value(self, key: str, default: object) -> Any:
        self._keys_read.add(key)
        value = self.config.get(key)
        if value is None:
            value = default
        if value is _REQUIRED:
            raise InvalidInput(f"{key} is missing", key)
        return value


def _is_harmless(key: object) -> bool:
    named = key in _HARMLESS
    return named or (isinstance(key, str) and (key.endswith(_HARMLESS_ENDINGS) or key.startswith(_HARMLESS_BEGINNINGS)))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def shown(value: object) -> str:
    """A value on one short line, whatever it is."""
    if isinstance(value, Mapping | list | tuple):
        return f"a {type(value).__name__}"
    if isinstance(value, int) and not -_NUM_MOST_POSITIONS <= value <= _NUM_MOST_POSITIONS:
        return f"a number of {value.bit_length()} bits"
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
