"""Example inputs of models of transformers: which there are follows from what a model's forward takes."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass, field, replace
from typing import Any

from dovetail.errors import InvalidInput
from dovetail.importers.torch_built import BATCH
from dovetail.importers.torch_library import torch_library
from dovetail.workload.huggingface import DEFAULT_SEQ

POSITIONS = (
    *("max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "n_ctx"),
    *("max_target_positions", "context_length"),
)
ONE_A_SAMPLE = ("next_sentence_label", "start_positions", "end_positions")
IMAGE_TOKEN = ("image_token_id", "image_token_index")
NUM_PATCHES = 32  # on each side of an image of which no configuration says the size: 448 pixels in patches of 14
_WAY = "give its inputs: --inputs 'name:dtype[batch,...]'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Examples:
    """What a model is called with, and notes on what was assumed.

    `known` are inputs whose numbers decide what runs; the sides of those in `fixed` do not follow the length.
    """

    inputs: dict[str, Any]
    notes: tuple[str, ...] = ()
    known: frozenset[str] = field(default_factory=frozenset)
    fixed: frozenset[str] = field(default_factory=frozenset)


def has_examples(model: Any) -> bool:
    """Whether it is a model of transformers, whose inputs follow from what it is."""
    return hasattr(model, "config") and isinstance(getattr(model, "main_input_name", None), str)


def examples_of(model: Any, batch: int = 0, seq: int = 0) -> Examples:
    """Inputs for `model`, its labels among them so that it computes its loss."""
    main, batch = model.main_input_name, batch or BATCH
    takes = set(inspect.signature(model.forward).parameters)
    if main == "pixel_values" and "input_ids" not in takes:
        return _of_images(model, batch, seq, takes)
    if main not in ("input_ids", "pixel_values", "input_features"):
        raise InvalidInput(f"the size of {main} of {type(model).__name__} is not given; {_WAY}")
    length, notes = (seq, ()) if seq else _length(model.config)
    found = Examples(inputs={}, notes=notes)
    if main == "input_features":
        sides = _audio(model)
        heard = {main: torch_library().empty((batch, *sides), dtype=_dtype(model), device="meta")}
        found = replace(found, inputs=heard, fixed=frozenset(heard))
    else:
        found.inputs["input_ids"] = _whole(batch, length)
    if "pixel_values" in takes and hasattr(model.config, "vision_config"):
        found = _with_images(model, found, batch, length, takes)
    _add_labels(model, found.inputs, batch, length, takes)
    return found


def _add_labels(model: Any, inputs: dict[str, Any], batch: int, seq: int, takes: set[str]) -> None:
    if "labels" in takes:
        inputs["labels"] = _whole(batch) if _is_classifier(model) else _whole(batch, seq)
    elif "decoder_input_ids" in takes:
        inputs["decoder_input_ids"] = _whole(batch, seq)
    elif "return_loss" in takes:  # of pairs of a text and an image
        inputs["return_loss"] = True
    inputs |= {name: _whole(batch) for name in ONE_A_SAMPLE if name in takes}


def _of_images(model: Any, batch: int, seq: int, takes: set[str]) -> Examples:
    """Of a model that sees nothing else; only a classifier has labels whose shape is known."""
    if seq:
        raise InvalidInput(f"samples of {type(model).__name__} are images and have no length", "--seq")
    sides = _image(model.config, model)
    inputs = {"pixel_values": torch_library().empty((batch, *sides), dtype=_dtype(model), device="meta")}
    if "labels" in takes and _is_classifier(model):
        inputs["labels"] = _whole(batch)
    return Examples(inputs=inputs)


def _with_images(model: Any, found: Examples, batch: int, seq: int, takes: set[str]) -> Examples:
    """One image a sample, and where text and image are one sequence as many tokens of it as the model makes of one."""
    torch = torch_library()
    seen = _patches(model, batch) if "image_grid_thw" in takes else {}
    if not seen:
        sides = _image(model.config.vision_config, model)
        seen = {"pixel_values": torch.empty((batch, *sides), dtype=_dtype(model), device="meta")}
    token = next((getattr(model.config, name) for name in IMAGE_TOKEN if hasattr(model.config, name)), None)
    fixed = found.fixed | frozenset(seen)
    if token is None:
        return replace(found, inputs={**found.inputs, **seen}, fixed=fixed)
    num_tokens = _tokens_of_images(model, seen) // batch
    if num_tokens >= seq:
        message = f"an image of {type(model).__name__} is {num_tokens:,} tokens"
        raise InvalidInput(f"{message}; give samples more than that", "--seq")
    ids = torch.zeros((batch, seq), dtype=torch.int64, device="cpu")
    ids[:, :num_tokens] = token
    inputs, known = (
        {"input_ids": ids, **seen},
        frozenset(("input_ids", "image_grid_thw", "token_type_ids", "mm_token_type_ids")),
    )
    for name in ("token_type_ids", "mm_token_type_ids"):
        if name in takes:
            inputs[name] = (ids == token).to(torch.int64)
    note = f"each sample has one image, {num_tokens:,} of its {seq:,} tokens"
    return replace(found, inputs=inputs, notes=(*found.notes, note), known=known, fixed=fixed)


def _patches(model: Any, batch: int) -> dict[str, Any]:
    """Images cut into patches, one after another, and how many each has: frames, rows and columns."""
    torch, config = torch_library(), model.config.vision_config
    sides: list[Any] = [getattr(config, name, None) for name in ("in_channels", "temporal_patch_size", "patch_size")]
    if not all(isinstance(side, int) for side in sides):
        return {}
    channels, frames, patch = sides
    rows = torch.empty((batch * NUM_PATCHES**2, channels * frames * patch * patch), dtype=_dtype(model), device="meta")
    grid = torch.tensor([[1, NUM_PATCHES, NUM_PATCHES]] * batch, dtype=torch.int64, device="cpu")
    return {"pixel_values": rows, "image_grid_thw": grid}


def _tokens_of_images(model: Any, seen: dict[str, Any]) -> int:
    """As the model itself makes them; patches that it merges by squares are one token each."""
    if "image_grid_thw" in seen:
        num_patches = int(seen["image_grid_thw"].prod(dim=1).sum())
        return num_patches // int(model.config.vision_config.spatial_merge_size) ** 2
    from dovetail.importers.targets import blamed
    from dovetail.importers.torch_copy import meta_copy
    from dovetail.importers.torch_run import quiet

    torch = torch_library()
    maker = getattr(model, "get_image_features", None)
    if maker is None:
        raise InvalidInput(f"the number of tokens per image of {type(model).__name__} is not given; {_WAY}")
    with blamed(f"{type(model).__name__}.get_image_features"), quiet(), torch.no_grad():
        copied = meta_copy(model)
        made = copied.get_image_features(**seen)
    made = getattr(made, "pooler_output", made)
    tensors = made if isinstance(made, list | tuple) else [made]
    return int(sum(tensor.numel() // tensor.shape[-1] for tensor in tensors))


def _whole(*sides: int) -> Any:
    torch = torch_library()
    return torch.empty(sides, dtype=torch.int64, device="meta")


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
    message = f"the config allows {allowed:,} positions" if allowed else "the config gives no number of positions"
    return DEFAULT_SEQ, (f"{message}; {DEFAULT_SEQ:,} unless seq is set",)


def _audio(model: Any) -> tuple[int, int]:
    """Mel bins and frames; convolutions at the front of the encoder halve the frames (Whisper)."""
    bins, positions = (getattr(model.config, name, None) for name in ("num_mel_bins", "max_source_positions"))
    if not isinstance(bins, int) or not isinstance(positions, int):
        raise InvalidInput(f"the size of input_features of {type(model).__name__} is not given; {_WAY}")
    strides = [module.stride[0] for module in model.modules() if isinstance(module, torch_library().nn.Conv1d)]
    return bins, positions * math.prod(strides)


def _image(config: Any, model: Any) -> tuple[int, ...]:
    size, channels = getattr(config, "image_size", None), getattr(config, "num_channels", None)
    if not size or not channels:
        raise InvalidInput(f"the configuration of {type(model).__name__} gives no image_size; {_WAY}")
    return channels, *((size, size) if isinstance(size, int) else tuple(size))
