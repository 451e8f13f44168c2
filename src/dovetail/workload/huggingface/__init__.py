"""Models from the `config.json` that Hugging Face Transformers keeps beside weights: one file per kin of families.

A reader turns the fields of one `model_type` into a transformer's shape. Whatever changes the network and is not
modelled is refused, down to keys that no reader knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dovetail.errors import InvalidInput, NotModelled
from dovetail.registry import Registry
from dovetail.workload.huggingface.fields import Fields, shown
from dovetail.workload.model import Model
from dovetail.workload.transformer import Transformer


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a reader makes of a config: the transformer, and the longest sample it was made for."""

    transformer: Transformer
    seq: int


Reader = Callable[[Fields, str], Shape]
readers: Registry[Reader] = Registry("Hugging Face model_type", __name__)

# How the classes end that train the network a reader builds; another head is another network. Longest first.
_ENDINGS = (
    "ForConditionalGeneration",
    "WithLMHeadModel",
    "ForPreTraining",
    "ForCausalLM",
    "ForMaskedLM",
    "LMHeadModel",
)
_WRAPPERS = ("vision_config", "text_config", "audio_config", "thinker_config", "encoder", "decoder")
_QUANTISED = ("quantization_config", "quantization")  # Transformers' key and MLX's
DEFAULT_SEQ = 8192  # what Llama 3 was trained with; configs of today allow far more, and few runs use it


def model_from_config(config: Mapping[str, Any], name: str) -> Model:
    """The model that a `config.json`, read into a dictionary, describes.

    Its `seq` is the longest sequence the config allows, but no more than `DEFAULT_SEQ`. A config says no parameter
    count, so none is given. Assumes pre-training: every position is scored, and BERT has both of its pre-training
    heads. What was assumed or left out beyond that stands in the model's `notes`. Raises `InvalidInput` for what no
    network can have and `NotModelled` for what Dovetail has no physics for, both with the key in `where`.
    """
    if not isinstance(config, Mapping):
        raise InvalidInput(f"a config must be a mapping of keys to values; got {type(config).__name__}")
    fields = Fields(config)
    _refuse_wrappers(config)
    model_type = _model_type(fields)
    _check_architectures(fields, model_type)
    shape = readers[model_type](fields, name)
    _note_quantisation(fields)
    fields.refuse_the_rest()
    if shape.seq > DEFAULT_SEQ:
        fields.notes.append(f"the config allows {shape.seq:,} positions; {DEFAULT_SEQ:,} unless seq is set")
    return Model(
        architecture=shape.transformer,
        family=model_type,
        seq=min(shape.seq, DEFAULT_SEQ),
        sample="tokens",
        published_parameters=0,
        is_exact=False,
        source="Hugging Face config.json",
        notes=tuple(fields.notes),
    )


def _model_type(fields: Fields) -> str:
    model_type = fields.text("model_type")
    if model_type not in readers:
        supported = ", ".join(readers.names())
        raise InvalidInput(f"model_type {shown(model_type)} is not supported; supported: {supported}", "model_type")
    return model_type


def _refuse_wrappers(config: Mapping[str, Any]) -> None:
    for key in _WRAPPERS:
        if config.get(key):
            message = f"{key}: models of several parts, such as vision and text, are not modelled"
            raise NotModelled(f"{message}; give the config of the text model alone", key)


def _note_quantisation(fields: Fields) -> None:
    """Training starts from whole weights, so the format they were released in changes nothing, but is noted."""
    for key in _QUANTISED:
        fields.ignore(key)
        quantised = fields.config.get(key)
        if not quantised:
            continue
        if not isinstance(quantised, Mapping):
            raise InvalidInput(f"{key} must be a mapping of keys to values; got {shown(quantised)}", key)
        method = quantised.get("quant_method")
        kind = f" ({method[:40]})" if isinstance(method, str) and method.replace("-", "_").isidentifier() else ""
        fields.notes.append(f"released weights are quantised{kind}; trained here in the workload's precision")


def _check_architectures(fields: Fields, model_type: str) -> None:
    for index, architecture in enumerate(fields.texts("architectures")):
        where = f"architectures.{index}"
        ending = next((ending for ending in _ENDINGS if architecture.endswith(ending)), "")
        if not ending:
            known = ", ".join(f"...{ending}" for ending in _ENDINGS)
            raise NotModelled(f"architectures: {shown(architecture)} is not modelled; known: {known}", where)
        if _letters(architecture.removesuffix(ending)) != _letters(model_type.removesuffix("_text")):
            message = f"architectures and model_type must agree; got {shown(architecture)} and {model_type}"
            raise InvalidInput(f"{message}; correct one, or take architectures out", where)


def _letters(name: str) -> str:
    """A name as classes and model types have it in common: GPTNeoX and gpt_neox are one."""
    return name.replace("_", "").casefold()
