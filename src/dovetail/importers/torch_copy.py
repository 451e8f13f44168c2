"""A copy of a module without its numbers: shapes and dtypes on PyTorch's meta device. The module stays as it was."""

from __future__ import annotations

import copy
import inspect
from collections import defaultdict
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from dovetail.errors import InvalidInput, NotModelled
from dovetail.importers.torch_gradients import named

WRAPPERS = ("_orig_mod", "module")  # of torch.compile, and of DataParallel and its kin


class _Emptied(TorchFunctionMode):
    """Deep copies of tensors hold no memory."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.__deepcopy__:
            tensor, memo = args
            return memo.setdefault(id(tensor), _empty(tensor))
        return func(*args, **(kwargs or {}))


def meta_copy(model: torch.nn.Module) -> torch.nn.Module:
    """Parameters that are tied stay tied: one tensor stands for all names of one parameter."""
    memo: dict[int, Any] = {}
    for name, parameter in model.named_parameters():
        if torch.nn.parameter.is_lazy(parameter):
            raise InvalidInput(f"{name} has no shape yet: run the lazy module once, or give it its sizes")
        memo[id(parameter)] = torch.nn.Parameter(_empty(parameter), requires_grad=parameter.requires_grad)
    for buffer in model.buffers():
        memo[id(buffer)] = _empty(buffer)
    with _Emptied():
        try:
            return copy.deepcopy(model, dict(memo))
        except Exception:  # a lock, a file or a generator: a user's __deepcopy__ may raise anything
            shared = memo | _uncopied(model, memo)
        try:
            return copy.deepcopy(model, shared)
        except Exception as error:
            raise InvalidInput(
                f"{type(model).__name__} cannot be copied ({type(error).__name__}: {error}); capture a factory that "
                "builds it instead"
            ) from error


def unwrapped(model: Any) -> Any:
    """The module inside of those that only change how it is run."""
    if isinstance(model, torch.jit.ScriptModule):
        raise NotModelled("a scripted module hides its operators; capture the module before torch.jit.script")
    kind = type(model).__name__
    for attribute in WRAPPERS:
        inner = getattr(model, attribute, None)
        if isinstance(inner, torch.nn.Module) and kind in (
            "OptimizedModule",
            "DataParallel",
            "DistributedDataParallel",
        ):
            return unwrapped(inner)
    return model


def settle(copied: torch.nn.Module) -> tuple[str, ...]:
    """Switches off, in the copy, what training does not do or plans decide; says so."""
    notes = list(settle_configs(copied))
    kept = [module for module in copied.modules() if getattr(module, "gradient_checkpointing", False) is True]
    for module in kept:
        module.gradient_checkpointing = False
    if kept:
        notes.append("the module's own recomputation is switched off: plans decide on it")
    return tuple(notes)


def settle_configs(copied: torch.nn.Module) -> tuple[str, ...]:
    """What models of transformers need in order to train without numbers; says what of it changes the step."""
    notes = []
    configs = {id(config): config for module in copied.modules() if (config := getattr(module, "config", None))}
    cached = [config for config in configs.values() if getattr(config, "use_cache", False) is True]
    for config in cached:
        config.use_cache = False
    if cached and "use_cache" in inspect.signature(copied.forward).parameters:
        notes.append("the cache of keys and values is switched off, as trainers do")
    for config in configs.values():  # which token a decoder starts with changes no shape
        if getattr(config, "is_encoder_decoder", False) and getattr(config, "decoder_start_token_id", None) is None:
            config.decoder_start_token_id = getattr(config, "pad_token_id", None) or 0
    for module in copied.modules():
        if hasattr(module, "warn_if_padding_and_no_attention_mask"):  # looks at tokens, and says something or nothing
            module.warn_if_padding_and_no_attention_mask = lambda *_arguments, **_more: None
    return tuple(notes)


def window_notes(model: torch.nn.Module, seq: int) -> tuple[str, ...]:
    """Of a window that a sequence as short as the recorded one does not reach: no mask shows it then."""
    windows = set()
    for module in model.modules():
        config = getattr(module, "config", None)
        kinds = getattr(config, "layer_types", None) or ["sliding_attention"]
        window = getattr(config, "sliding_window", None)
        if type(window) is int and getattr(config, "use_sliding_window", True) and "sliding_attention" in kinds:
            windows.add(window)
    hidden = sorted(window for window in windows if 1 < seq <= window)
    return tuple(
        f"a window of {window:,} keys is not seen at {seq:,} positions; longer sequences are counted as if there were"
        f" none: capture with more than {window:,} positions (--seq)"
        for window in hidden
    )


def parameter_notes(model: torch.nn.Module) -> tuple[str, ...]:
    """What there is to say of a module's parameters: tied, frozen, and whether it is being trained at all."""
    notes = []
    names = defaultdict(list)
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names[id(parameter)].append(name)
    tied = [f"{' and '.join(same[1:])} as {same[0]}" for same in names.values() if len(same) > 1]
    if tied:
        notes.append(f"shared weights are counted once: {named(tied)}")
    frozen = {name: parameter.numel() for name, parameter in model.named_parameters() if not parameter.requires_grad}
    if frozen:
        count, total = sum(frozen.values()), sum(parameter.numel() for parameter in model.parameters())
        notes.append(f"{count:,} of {total:,} parameters are frozen: {named(list(frozen))}")
    if not model.training:
        notes.append("the module is in eval mode, without dropout and batch statistics; call train() to have them")
    return tuple(notes)


def _uncopied(model: torch.nn.Module, memo: dict[int, Any]) -> dict[int, Any]:
    """Attributes of modules that cannot be copied; the copy shares them."""
    found: dict[int, Any] = {}
    for module in model.modules():
        for name, value in vars(module).items():
            if name in ("_modules", "_parameters", "_buffers"):
                continue
            try:
                copy.deepcopy(value, dict(memo))
            except Exception:  # as above
                found[id(value)] = value
    return found


def _empty(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
