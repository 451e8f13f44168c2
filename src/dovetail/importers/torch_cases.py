"""Training steps by the name of a case: models of transformers and torchvision, as a script measured them.

A case is a name, a batch, a length or a side of images, a mode, whether layers are recomputed, and whether weights are
fp32 under autocast. `tv:NAME` is torchvision's model, `tvl:NAME` the same with channels last; other names are keys of
`CONFIGS` in a file of cases, which is read and never run.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dovetail.errors import InvalidInput, did_you_mean
from dovetail.files.text import JSON_LIMIT_BYTES, one_line, quoted
from dovetail.importers.targets import blamed
from dovetail.importers.torch_built import built, transformers_library
from dovetail.importers.torch_library import torch_library

if TYPE_CHECKING:
    from dovetail.workload.dispatched import DispatchedStep

CONFIGS = "CONFIGS"
VISION = {"tv": False, "tvl": True}  # whether channels are last
NUM_CLASSES = 1000  # of ImageNet, which torchvision's models are for
FIRST_TOKEN = 2  # of random tokens: those below pad and end samples


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One step to record; `config` is empty for a model of torchvision."""

    name: str
    config: tuple[tuple[str, Any], ...]
    batch: int
    seq: int
    is_checkpointed: bool
    is_autocast: bool
    is_fp32: bool = False  # throughout and without TF32, attention written out

    @property
    def content(self) -> str:
        """All that decides what is recorded, as text."""
        facts: tuple[object, ...] = (
            self.name if not self.config else "",
            self.batch,
            self.seq,
            self.is_checkpointed,
            self.is_autocast,
        )
        facts += ("fp32",) if self.is_fp32 else ()
        return json.dumps([facts, dict(self.config)], sort_keys=True, default=repr)


def configs_in(file: Path) -> dict[str, dict[str, Any]]:
    """`CONFIGS` of a Python file: literals and calls of dict, and nothing is run."""
    try:
        data = file.read_bytes()[: JSON_LIMIT_BYTES + 1]
        tree = ast.parse(data.decode(), filename=str(file))
    except OSError as error:
        raise InvalidInput(f"cannot read file {quoted(str(file))}: {one_line(str(error.strerror)).lower()}") from None
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise InvalidInput(f"{quoted(str(file))} is no Python file: {one_line(str(error))}") from None
    for statement in tree.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        if any(isinstance(one, ast.Name) and one.id == CONFIGS for one in targets):
            found = _literal(statement.value, file)  # type: ignore[attr-defined]
            if isinstance(found, dict) and all(isinstance(one, dict) for one in found.values()):
                return {str(name): config for name, config in found.items()}
            raise InvalidInput(f"{CONFIGS} must be a dict of configurations by name", one_line(str(file)))
    raise InvalidInput(f"there is no {CONFIGS} in {quoted(str(file))}: a dict of configurations by name")


def _literal(node: ast.expr | None, file: Path) -> Any:
    if isinstance(node, ast.Dict):
        if all(key is not None for key in node.keys):
            return {
                _literal(key, file): _literal(value, file) for key, value in zip(node.keys, node.values, strict=True)
            }
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict" and not node.args:
        if all(keyword.arg is not None for keyword in node.keywords):
            return {keyword.arg: _literal(keyword.value, file) for keyword in node.keywords}
    elif isinstance(node, ast.List | ast.Tuple):
        return [_literal(one, file) for one in node.elts]
    elif node is not None:
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            pass
    line = f":{node.lineno}" if node is not None else ""
    raise InvalidInput(f"{CONFIGS} has something that is no literal; cases are read and not run", f"{file}{line}")


def case_of(
    name: str,
    configs: Mapping[str, Mapping[str, Any]],
    *,
    batch: int,
    seq: int,
    is_checkpointed: bool,
    is_autocast: bool,
    is_fp32: bool = False,
) -> Case:
    layout, _, model = name.partition(":")
    is_vision = layout in VISION and bool(model)
    if not is_vision and name not in configs:
        raise InvalidInput(f"no configuration is named {quoted(name)}{did_you_mean(name[:100], list(configs))}")
    return Case(
        name=name,
        config=() if is_vision else tuple(configs[name].items()),
        batch=batch,
        seq=seq,
        is_checkpointed=is_checkpointed,
        is_autocast=is_autocast,
        is_fp32=is_fp32,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltCase:
    """A module on meta, what it is called with, and how its outputs become a loss (none where they hold one)."""

    module: Any
    inputs: dict[str, Any]
    args: tuple[Any, ...] = ()
    loss: Any = None


def recorded_case(case: Case, *, is_compiled: bool = False) -> DispatchedStep:
    """The step of a case, eager or under torch.compile; the script that measures cases allows TF32 but in fp32 ones."""
    from dovetail.importers.torch_step import StepJob, recorded_step

    made = built_case(case)
    job = StepJob(autocast="bf16" if case.is_autocast else "", is_checkpointed=case.is_checkpointed)
    if is_compiled:
        from dovetail.importers.torch_compiled import compiled_step

        step = compiled_step(made.module, made.args, made.inputs, job, made.loss)
    else:
        step = recorded_step(made.module, made.args, made.inputs, job, made.loss)
    return replace(step, has_tf32=not case.is_fp32)


def built_case(case: Case) -> BuiltCase:
    torch = torch_library()
    dtype = torch.float32 if case.is_autocast or case.is_fp32 else torch.bfloat16
    layout, _, name = case.name.partition(":")
    return _of_torchvision(case, name, VISION[layout], dtype) if not case.config else _of_transformers(case, dtype)


def _of_torchvision(case: Case, name: str, is_channels_last: bool, dtype: Any) -> BuiltCase:
    torch = torch_library()
    models = torchvision_models()
    make = getattr(models, name, None)
    if not callable(make) or name not in models.list_models():
        raise InvalidInput(f"torchvision has no model {quoted(name)}{did_you_mean(name[:100], models.list_models())}")
    options = {"aux_logits": False, "init_weights": False} if name in ("inception_v3", "googlenet") else {}
    module = built(lambda: make(weights=None, **options), f"building torchvision's {name}").module.to(dtype).train()
    images = torch.empty((case.batch, 3, case.seq, case.seq), dtype=dtype, device="meta")
    if is_channels_last:
        module, images = module.to(memory_format=torch.channels_last), images.to(memory_format=torch.channels_last)
    labels = torch.empty((case.batch,), dtype=torch.int64, device="meta")
    return BuiltCase(
        module=module,
        inputs={},
        args=(images,),
        loss=lambda outputs: torch.nn.functional.cross_entropy(outputs, labels),
    )


def torchvision_models() -> Any:
    """torchvision's module of models."""
    torch_library()  # which lets it be imported beside another build of PyTorch
    try:
        return importlib.import_module("torchvision.models")
    except ImportError:
        raise InvalidInput("torchvision is not installed; pip install torchvision") from None


def _of_transformers(case: Case, dtype: Any) -> BuiltCase:
    torch, transformers = torch_library(), transformers_library()
    from dovetail.importers.torch_examples import examples_of
    from dovetail.importers.torch_run import quiet

    config = dict(case.config)
    names, kind = config.pop("architectures", None) or [""], config.pop("model_type", "")
    kind_of = getattr(transformers, str(names[0]), None)
    if not isinstance(kind_of, type) or not issubclass(kind_of, transformers.PreTrainedModel):
        raise InvalidInput(f"transformers {transformers.__version__} has no class {quoted(str(names[0]))}")
    with blamed(f"building {names[0]}"), quiet(), torch.device("meta"), _default_dtype(torch, dtype):
        made = transformers.AutoConfig.for_model(kind, **config)
        try:
            made._attn_implementation = "eager" if case.is_fp32 else "sdpa"
            module = kind_of(made)
        except ValueError:  # the class has no such attention
            made._attn_implementation = "eager"
            module = kind_of(made)
    module = module.to(device="meta", dtype=dtype).train()
    module.config.use_cache = False
    takes = set(inspect.signature(module.forward).parameters)
    if module.main_input_name not in ("pixel_values", "input_ids") or {"input_ids", "pixel_values"} <= takes:
        inputs = examples_of(module, case.batch, 0 if module.main_input_name != "input_ids" else case.seq).inputs
    elif module.main_input_name == "pixel_values":
        inputs = _images(module, case, dtype)
    else:
        vocab = int(getattr(made.get_text_config(), "vocab_size", 0)) or FIRST_TOKEN + 1
        inputs = {"input_ids": known_tokens((case.batch, case.seq), vocab)}
        inputs["labels"] = inputs["input_ids"]
    return BuiltCase(module=module, inputs=inputs)


def known_tokens(shape: tuple[int, ...], vocab: int) -> Any:
    """Random tokens on meta whose numbers are known to the recorder."""
    torch = torch_library()
    from dovetail.importers.torch_numbers import learn

    tokens = torch.empty(shape, dtype=torch.int64, device="meta")
    learn(tokens, random_tokens(shape, vocab))
    return tokens


def random_tokens(shape: tuple[int, ...], vocab: int) -> Any:
    torch = torch_library()
    return torch.randint(FIRST_TOKEN, vocab, shape, generator=torch.Generator().manual_seed(0))


def _images(module: Any, case: Case, dtype: Any) -> dict[str, Any]:
    torch = torch_library()
    side = getattr(module.config, "image_size", None) or case.seq
    sides = (side, side) if isinstance(side, int) else tuple(side)
    channels = getattr(module.config, "num_channels", 3)
    images = torch.empty((case.batch, channels, *sides), dtype=dtype, device="meta")
    return {"pixel_values": images, "labels": torch.empty((case.batch,), dtype=torch.int64, device="meta")}


class _default_dtype:  # noqa: N801  reads like the function that PyTorch has not got
    def __init__(self, torch: Any, dtype: Any) -> None:
        self._torch, self._dtype = torch, dtype

    def __enter__(self) -> None:
        self._before = self._torch.get_default_dtype()
        self._torch.set_default_dtype(self._dtype)

    def __exit__(self, *_error: object) -> None:
        self._torch.set_default_dtype(self._before)
