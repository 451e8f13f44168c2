"""Example inputs of models of transformers: which there are follows from what a model's forward takes."""

from __future__ import annotations

import inspect
from typing import Any

from dovetail.errors import InvalidInput
from dovetail.importers.torch_built import BATCH
from dovetail.importers.torch_model import torch_library
from dovetail.workload.huggingface import DEFAULT_SEQ

POSITIONS = ("max_position_embeddings", "n_positions", "max_sequence_length", "n_ctx")
ONE_A_SAMPLE = ("next_sentence_label", "start_positions", "end_positions")
_WAY = "say what it is called with: --inputs 'name:dtype[batch,...]'"


def has_examples(model: Any) -> bool:
    """Whether it is a model of transformers, whose inputs follow from what it is."""
    return hasattr(model, "config") and isinstance(getattr(model, "main_input_name", None), str)


def examples_of(model: Any, batch: int = 0, seq: int = 0) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Inputs for `model`, its labels among them so that it computes its loss; and notes on what was assumed."""
    torch = torch_library()
    batch = batch or BATCH
    main, takes = model.main_input_name, set(inspect.signature(model.forward).parameters)

    def whole(*sides: int) -> Any:
        return torch.empty(sides, dtype=torch.int64, device="meta")

    if main == "input_ids":
        seq, notes = (seq, ()) if seq else _length(model.config)
        found = {main: whole(batch, seq)}
        per_label = (batch,) if _is_classifier(model) else (batch, seq)
    elif main == "pixel_values":
        if seq:
            raise InvalidInput(f"samples of {type(model).__name__} are images and have no length", "--seq")
        sides = _image(model)
        found, notes = {main: torch.empty((batch, *sides), dtype=_dtype(model), device="meta")}, ()
        per_label = (batch,)
        if not _is_classifier(model):
            takes = set()
    else:
        raise InvalidInput(f"nothing says how large {main} of {type(model).__name__} is; {_WAY}")
    if "labels" in takes:
        found["labels"] = whole(*per_label)
    elif "decoder_input_ids" in takes:
        found["decoder_input_ids"] = whole(batch, seq)
    found |= {name: whole(batch) for name in ONE_A_SAMPLE if name in takes}
    return found, notes


def _is_classifier(model: Any) -> bool:
    """Whether a sample has one label, and not each of its positions."""
    name = type(model).__name__
    return "Classification" in name and "Token" not in name


def _dtype(model: Any) -> Any:
    return next((each.dtype for each in model.parameters() if each.is_floating_point()), torch_library().float32)


def _length(config: Any) -> tuple[int, tuple[str, ...]]:
    """As long as the configuration allows, but no more than Dovetail's default; with a note where that decides."""
    inside = config.get_text_config() if hasattr(config, "get_text_config") else config
    allowed = next((getattr(inside, name) for name in POSITIONS if isinstance(getattr(inside, name, None), int)), 0)
    if 0 < allowed <= DEFAULT_SEQ:
        return allowed, ()
    message = f"the config allows {allowed:,} positions" if allowed else "the config says no number of positions"
    return DEFAULT_SEQ, (f"{message}; {DEFAULT_SEQ:,} unless seq says otherwise",)


def _image(model: Any) -> tuple[int, ...]:
    config = model.config
    size, channels = getattr(config, "image_size", None), getattr(config, "num_channels", None)
    if not size or not channels:
        raise InvalidInput(f"the configuration of {type(model).__name__} says no image_size; {_WAY}")
    return channels, *((size, size) if isinstance(size, int) else tuple(size))
