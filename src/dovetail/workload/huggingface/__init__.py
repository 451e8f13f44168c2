"""Models from the `config.json` that Hugging Face Transformers keeps beside weights: one file per kin of families.

A reader turns the fields of one `model_type` into a transformer's shape. Whatever changes the network and is not
modelled is refused, down to keys that no reader asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dovetail.errors import InvalidInput, NotModelled, did_you_mean
from dovetail.registry import Registry
from dovetail.workload.huggingface.fields import Fields
from dovetail.workload.model import Model
from dovetail.workload.transformer import Transformer


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a reader makes of a config: the transformer, and the longest sample it was made for."""

    transformer: Transformer
    seq: int


Reader = Callable[[Fields, str], Shape]
readers: Registry[Reader] = Registry("Hugging Face model_type", __name__)

# How the classes end that train the network a reader builds; another head is another network.
_ENDINGS = ("ForCausalLM", "LMHeadModel", "ForMaskedLM", "ForPreTraining", "ForConditionalGeneration")
_WRAPPERS = ("vision_config", "text_config", "audio_config", "thinker_config", "encoder", "decoder")


def model_from_config(config: Mapping[str, Any], name: str) -> Model:
    """The model that a `config.json`, read into a dictionary, describes.

    Its `seq` is the longest sequence the config names. A config says no parameter count, so none is given. Assumes
    pre-training: every position is scored, and BERT has both of its pre-training heads. DeepSeek's module for
    predicting further tokens is left out, as Transformers leaves it out. Raises `InvalidInput` for what no network
    can have and `NotModelled` for what Dovetail has no physics for, both with the key in `where`.
    """
    if not isinstance(config, Mapping):
        raise InvalidInput(f"a config must be a mapping of keys to values; got {type(config).__name__}")
    fields = Fields(config)
    _refuse_wrappers(config)
    model_type = _model_type(fields)
    _refuse_other_heads(fields)
    shape = readers[model_type](fields, name)
    fields.refuse_the_rest()
    return Model(
        architecture=shape.transformer,
        family=model_type,
        seq=shape.seq,
        sample="tokens",
        published_parameters=0,
        is_exact=False,
        source="Hugging Face config.json",
    )


def _model_type(fields: Fields) -> str:
    model_type = fields.text("model_type")
    if model_type not in readers:
        hint = did_you_mean(model_type, readers.names()) if len(model_type) < 60 else ""
        closest = hint if "did you mean" in hint else ""
        supported = ", ".join(readers.names())
        raise InvalidInput(f"model_type {model_type[:60]!r} is not one of {supported}{closest}", "model_type")
    return model_type


def _refuse_wrappers(config: Mapping[str, Any]) -> None:
    for key in _WRAPPERS:
        if config.get(key):
            raise NotModelled("models of several parts, such as vision and text, are not modelled", key)
    if config.get("quantization_config"):
        way_out = "take quantization_config out to model the network in the precision of the run"
        raise NotModelled(f"training quantised weights is not modelled; {way_out}", "quantization_config")


def _refuse_other_heads(fields: Fields) -> None:
    for index, architecture in enumerate(fields.texts("architectures")):
        if not architecture.endswith(_ENDINGS):
            known = ", ".join(f"...{ending}" for ending in _ENDINGS)
            raise NotModelled(f"{architecture[:60]!a} is not modelled; known: {known}", f"architectures.{index}")
