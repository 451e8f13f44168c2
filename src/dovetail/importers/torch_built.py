"""PyTorch modules to capture, built without memory: by a factory, or by a Hugging Face configuration alone."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from dovetail.errors import InvalidInput, did_you_mean, shown
from dovetail.files.entry import described
from dovetail.files.text import quoted
from dovetail.importers.shapes import InputShape
from dovetail.importers.targets import MAX_WORDS, blamed
from dovetail.importers.torch_library import torch_library

MOST_LAYERS = 512  # style: a count; four times as deep as released models
BATCH = 2  # of example inputs: the graph is for any
# Functions that make weights. What else makes a tensor stays real in a second attempt: factories read such numbers.
_FLOAT_KEY, _FLOATS = "__float__", ("Infinity", "-Infinity", "NaN")
_WEIGHTS = ("empty", "rand", "randn", "zeros", "ones")


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A module, and what to call it with: nothing where its factory returned none."""

    module: Any
    inputs: Any = None


def is_module(value: object) -> bool:
    """Whether it is a PyTorch module, without importing PyTorch: nothing is, where it was not imported."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def built(factory: Any, words: str) -> Built:
    """What `factory` builds on the meta device; where that needs numbers, with its weights alone there."""
    torch = torch_library()
    made: Any
    try:
        with torch.device("meta"), _without_accelerators():
            made = factory()
    except (RuntimeError, NotImplementedError) as error:
        if "meta" not in str(error).lower():
            with blamed(words):
                raise
        with blamed(words), _weights_on_meta(), _without_accelerators():
            made = factory()
    except (Exception, SystemExit):
        with blamed(words):
            raise
    module, inputs = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(module, torch.nn.Module):
        message = "a factory returns a torch.nn.Module, or one and its example inputs"
        raise InvalidInput(f"{message}; {words} gave {type(module).__name__}")
    return Built(module=module, inputs=inputs)


def _without_accelerators() -> Any:
    """Leaves out moves to a GPU, which need not be there."""
    from torch.overrides import TorchFunctionMode

    from dovetail.importers.torch_cuda import AWAY, MOVES, at_home

    class WithoutAccelerators(TorchFunctionMode):
        """For one call of a factory."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            name = getattr(func, "__name__", "")
            if name in MOVES or "device" in kwargs:
                if name in AWAY:
                    return args[0]
                args, kwargs = at_home(name, args, kwargs)
            return func(*args, **kwargs)

    return WithoutAccelerators()


def _weights_on_meta() -> Any:
    """Puts what functions for weights make on the meta device, and leaves numbers that code reads where they are."""
    torch = torch_library()
    from torch.overrides import TorchFunctionMode

    makers = {getattr(torch, name) for name in _WEIGHTS}

    class WeightsOnMeta(TorchFunctionMode):
        """For one call of a factory."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            named = dict(kwargs or {})
            if func in makers and named.get("device") is None:
                named["device"] = "meta"
            return func(*args, **named)

    return WeightsOnMeta()


def built_from_config(config: Mapping[str, Any], where: str = "") -> Built:
    """The model of a configuration, in bf16 and for training; its class is transformers' own."""
    torch, transformers = torch_library(), transformers_library()
    from dovetail.importers.torch_run import quiet

    model_type = config.get("model_type")
    if not isinstance(model_type, str):
        raise InvalidInput("a Hugging Face configuration has a model_type, and this one has none", where)
    _check_depth(config, where)
    _architecture(config.get("architectures"), where)  # before transformers, whose releases refuse it in other words
    given = _with_floats(dict(config))
    given.pop("model_type")
    with blamed("reading the configuration"), quiet():
        if model_type not in transformers.CONFIG_MAPPING:
            known = list(transformers.CONFIG_MAPPING.keys())
            message = f"transformers {transformers.__version__} knows no model_type {quoted(model_type)}"
            raise InvalidInput(f"{message}{did_you_mean(model_type[:100], known)}", where)
        kind = _imported(partial(transformers.CONFIG_MAPPING.__getitem__, model_type), f"what {model_type} needs")
        found = kind.from_dict(given)
    return Built(module=_module_of(found, torch, where))


def _with_floats(given: Any) -> Any:
    """With the floats that JSON has no word for, which transformers writes as {"__float__": "Infinity"}."""
    if isinstance(given, Mapping):
        tag = given.get(_FLOAT_KEY) if len(given) == 1 else None
        return float(tag) if tag in _FLOATS else {key: _with_floats(value) for key, value in given.items()}
    return [_with_floats(value) for value in given] if isinstance(given, list) else given


def _check_depth(config: Mapping[str, Any], where: str) -> None:
    """Raises where more layers are to be built, one by one, than is practical."""
    for key, given in config.items():
        if isinstance(given, Mapping):
            _check_depth(given, where)  # of its text or image part
        elif re.search(r"(^n|_)_?layers?$", str(key)) and isinstance(given, int) and given > MOST_LAYERS:
            message = f"at most {MOST_LAYERS} layers are captured, as each is built and run; {key} is {shown(given)}"
            raise InvalidInput(f"{message}; take the configuration as --model, which Dovetail reads itself", where)


def _module_of(config: Any, torch: Any, where: str) -> Any:
    from dovetail.importers.torch_run import quiet

    kind = _class_of(config, where)
    if config._experts_implementation is None and kind._can_set_experts_implementation():
        config._experts_implementation = "grouped_mm"  # the one without a loop over experts, whose sizes vary
    with blamed(f"building {kind.__name__}"), quiet(), torch.device("meta"):
        return kind(config).to(torch.bfloat16).train()


def _class_of(config: Any, where: str) -> Any:
    """The class that the configuration names, or else the language model of its kind."""
    transformers = transformers_library()
    named = _architecture(config.architectures, where)
    if named:
        found = _imported(partial(getattr, transformers, named, None), named)
        if not isinstance(found, type) or not issubclass(found, transformers.PreTrainedModel):
            message = f"transformers {transformers.__version__} has no class {quoted(named)}, and no other code is run"
            raise InvalidInput(f"{message}; name one of its own under architectures", where)
        return found
    for mapping in (transformers.MODEL_FOR_CAUSAL_LM_MAPPING, transformers.MODEL_MAPPING):
        if type(config) in mapping:
            return _imported(partial(mapping.__getitem__, type(config)), type(config).__name__)
    message = f"no model of transformers is built by {type(config).__name__} alone"
    raise InvalidInput(f"{message}; name a class under architectures", where)


def _architecture(given: Any, where: str) -> str:
    """The first class that `architectures` names; nothing where it names none."""
    names = given if isinstance(given, list) else [given or ""]
    if not all(isinstance(name, str) for name in names):
        message = f"architectures must be names of classes, as in [LlamaForCausalLM]; got {described(given)}"
        raise InvalidInput(message, where)
    return names[0] if names else ""


def _imported(find: Callable[[], Any], name: str) -> Any:
    """What `find` gives: a class of transformers, which imports its file when it is first used."""
    from dovetail.importers.torch_run import quiet

    try:
        with quiet():
            return find()
    except Exception as error:  # whatever a library beside it raises, such as torchvision of another build
        cause: BaseException = error
        while (before := cause.__cause__ or cause.__context__) is not None:
            cause = before
        message = " ".join(f"{type(cause).__name__}: {cause}".split())
        raise InvalidInput(f"transformers cannot import {name}: {message[:MAX_WORDS]}") from error


def transformers_library() -> Any:
    """transformers, which is an extra of Dovetail."""
    torch_library()  # first, for what has to be done before transformers looks around
    try:
        import transformers
    except ImportError:
        message = "capturing a Hugging Face model needs transformers; pip install 'dovetail-codesign[transformers]'"
        raise InvalidInput(message) from None
    return transformers


def tensors_of(shapes: tuple[InputShape, ...]) -> Any:
    """Inputs without memory: a mapping where they have names, else a tuple."""
    torch = torch_library()
    made = [torch.empty(one.sides, dtype=getattr(torch, one.dtype), device="meta") for one in shapes]
    if shapes and shapes[0].name:
        return {one.name: tensor for one, tensor in zip(shapes, made, strict=True)}
    return tuple(made)
