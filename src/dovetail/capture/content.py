"""The hash of all that decides what a capture finds: what captures are kept under.

Modules are looked at from outside, by what every `nn.Module` has, so nothing of PyTorch is imported here.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, partial
from itertools import zip_longest
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any

import dovetail
from dovetail.capture.own_code import (
    code_words,
    functions_of,
    is_own,
    is_own_module,
    library_words,
    names_in,
    numbers_digest,
    version_of,
)
from dovetail.plugins import plugins_digest

TOOLS = ("torch", "transformers", "onnx")
CODE = ("workload", "capture", "files/captured.py", "files/value_json.py")  # of Dovetail: what a capture follows from
_PARTS = ("_parameters", "_buffers", "_modules")  # told apart below
_ASIDE = ("generation_config",)  # of transformers: decides no forward pass, and holds a hash that no other run has
MAX_DEPTH = 50


class Unhashable(Exception):
    """Something that a capture may depend on and that has no words: such a capture is not kept."""


@cache
def code_digest() -> str:
    """Of Dovetail's own code that captures follow from."""
    root, digest = Path(dovetail.__file__).parent, hashlib.sha256()
    for name in CODE:
        files = [root / name] if name.endswith(".py") else sorted((root / name).rglob("*.py"))
        for file in files:
            digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def _key(*words: str) -> str:
    versions = [f"{tool}=={version_of(tool)}" for tool in TOOLS]
    own = (dovetail.__version__, code_digest(), plugins_digest(), sys.version, *versions)
    return hashlib.sha256("\0".join((*own, *words)).encode("utf-8", "surrogatepass")).hexdigest()


def config_key(config: Mapping[str, Any], **asked: object) -> str:
    """Of a model that a configuration alone decides."""
    return _key("config", json.dumps(config, sort_keys=True, default=repr), repr(sorted(asked.items())))


def file_key(digest: str, **asked: object) -> str:
    """Of a model that a file alone decides, whose hash `digest` is."""
    return _key("file", digest, repr(sorted(asked.items())))


def module_key(model: Any, example_inputs: Any, **asked: object) -> str:
    """Of a PyTorch module and what it is called with; raises `Unhashable` where something of it has no words."""
    told = _Told()
    words = [*told.module(model), *told.value(example_inputs), *_masks(model, example_inputs)]
    words += told.reached()
    default = getattr(sys.modules.get("torch"), "get_default_dtype", str)()  # of tensors that a forward pass makes
    return _key("module", *words, repr(default), repr(sorted(asked.items())))


def _masks(model: Any, example_inputs: Any) -> Iterator[str]:
    """The numbers of masks among the inputs, which choices of a forward pass may go by; no others are looked at."""
    if isinstance(example_inputs, Mapping):
        named = list(example_inputs.items())
    else:
        given = example_inputs if isinstance(example_inputs, list | tuple) else (example_inputs,)
        named = list(zip_longest(inspect.signature(model.forward).parameters, given))
    for name, value in named:
        for leaf in value if isinstance(value, list | tuple) else (value,):
            if hasattr(leaf, "is_meta"):
                is_mask = "bool" in str(leaf.dtype) or "mask" in str(name)
                yield f"{name} {numbers_digest(leaf) if is_mask or leaf.is_meta else 'numbers'}"


@dataclass(slots=True)
class _Told:
    """Values in words. What was told once is referred to; `pending` are functions whose globals are to be told yet."""

    seen: dict[int, int] = field(default_factory=dict)
    kept: list[Any] = field(default_factory=list)  # so that no number of `seen` is given anew
    pending: list[FunctionType] = field(default_factory=list)
    looked_up: set[tuple[int, str]] = field(default_factory=set)

    def module(self, model: Any) -> Iterator[str]:
        """Every part: its class, what is set on it, its tensors and whether they are shared."""
        parts = list(model.named_modules(remove_duplicate=False))
        self._refer(*(part for _, part in parts))
        for kind in dict.fromkeys(type(part) for _, part in parts):
            yield from self.value(kind)
            yield from self._code(kind.forward)
        told: set[int] = set()
        for name, part in parts:
            yield f"{name}#{self.seen[id(part)]}:{type(part).__module__}.{type(part).__qualname__}"
            if id(part) not in told:
                told.add(id(part))
                yield from self._own(name, part)

    def _own(self, name: str, part: Any) -> Iterator[str]:
        for kind in ("_parameters", "_buffers"):
            for key, tensor in getattr(part, kind).items():
                yield f"{kind}.{key}"
                yield from self.value(tensor)
        for key, value in sorted(vars(part).items()):
            is_empty = isinstance(value, dict | list | set | tuple) and not value
            if key in (*_PARTS, *_ASIDE) or (key.startswith("_") and is_empty):
                continue
            yield key
            try:
                yield from self.value(value)
            except Unhashable as error:
                raise Unhashable(f"{f'{name}.' if name else ''}{key}: {error}") from None

    def value(self, value: Any, depth: int = 0) -> Iterator[str]:
        if depth > MAX_DEPTH:
            raise Unhashable("it is nested too deep")
        if value is None or isinstance(value, str | bytes | bool | int | float | complex | Enum):
            yield f"{type(value).__name__} {value!r}"
            return
        if id(value) in self.seen:
            yield f"as {self.seen[id(value)]}"
            return
        self._refer(value)
        yield type(value).__qualname__
        for part in self._parts(value):
            yield from (part,) if isinstance(part, str) else self.value(part[0], depth + 1)
        yield "end"

    def _parts(self, value: Any) -> Iterator[str | tuple[Any]]:
        """Words, and further values each on its own in a tuple."""
        if isinstance(value, Mapping):
            yield from ((item,) for pair in value.items() for item in pair)
        elif isinstance(value, list | tuple):
            yield from ((item,) for item in value)
        elif isinstance(value, set | frozenset):
            yield from sorted(map(_plainly, value))
        elif isinstance(value, type):
            yield from self._class_parts(value)
        elif hasattr(value, "shape") and hasattr(value, "dtype"):
            yield f"{tuple(value.shape)} {value.dtype} {getattr(value, 'requires_grad', False)}"
        elif isinstance(value, partial):
            yield from ((value.func,), (value.args,), (value.keywords,))
        elif isinstance(value, weakref.ReferenceType):  # an LSTM of PyTorch holds its weights so
            yield (value(),)
        elif isinstance(value, MethodType):
            yield from ((value.__func__,), (value.__self__,))
        elif isinstance(value, FunctionType):
            yield from self._code(value) if is_own(value) else (library_words(value),)
            yield from ((item,) for item in _bound(value) if is_own(value))
        elif type(value).__module__ == "builtins" or not _attributes(value):
            yield _plainly(value)
        else:
            yield (type(value),)
            yield from ((item,) for pair in sorted(_attributes(value).items()) for item in pair)

    def _class_parts(self, kind: type) -> Iterator[str | tuple[Any]]:
        """What a class and those that it inherits from do: the user's by their code, others by their version."""
        for each in kind.__mro__:
            if not is_own(each):
                yield library_words(each)
                continue
            yield each.__qualname__
            for name, value in sorted(vars(each).items()):
                functions = tuple(functions_of(value))
                if functions or isinstance(value, str | bytes | bool | int | float | tuple | Enum):
                    yield name
                    yield from ((item,) for item in (functions or (value,)))

    def _code(self, function: Any) -> Iterator[str]:
        yield f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '')}"
        if isinstance(function, FunctionType):
            yield from code_words(function.__code__)
            if is_own(function):
                self.pending.append(function)

    def reached(self) -> Iterator[str]:
        """What the user's functions look up in their modules, and what is reached from there."""
        while self.pending:
            function = self.pending.pop()
            for name in names_in(function.__code__):
                place = (id(function.__globals__), name)
                if name in function.__globals__ and place not in self.looked_up:
                    self.looked_up.add(place)
                    yield name
                    yield from self._global(function.__globals__[name])

    def _global(self, value: Any) -> Iterator[str]:
        if isinstance(value, ModuleType):
            yield from self._python_module(value)
        elif hasattr(value, "detach") and hasattr(value, "is_meta") and not isinstance(value, type):
            yield f"{value.dtype} {tuple(value.shape)} {numbers_digest(value)}"
        else:
            try:
                yield from self.value(value)
            except Unhashable:
                if is_own(type(value)) and type(value).__module__ != "builtins":
                    raise
                yield library_words(value)  # a logger, a lock: what forward passes do not go by

    def _python_module(self, module: ModuleType) -> Iterator[str]:
        """All that a module of the user's defines, as nobody can tell which of it is meant."""
        if not is_own_module(module):
            package = module.__name__.partition(".")[0]
            yield f"{package}=={version_of(package)}"
        elif id(module) not in self.seen:
            self._refer(module)
            for key, value in sorted(vars(module).items()):
                if not key.startswith("__"):
                    yield key
                    yield from self._global(value)

    def _refer(self, *values: Any) -> None:
        for value in values:
            self.seen.setdefault(id(value), len(self.seen))
            self.kept.append(value)


def _bound(value: Any) -> Iterator[Any]:
    """What a function holds beside its code."""
    yield getattr(value, "__defaults__", None)
    yield getattr(value, "__self__", None)
    for cell in getattr(value, "__closure__", None) or ():
        try:
            yield cell.cell_contents
        except ValueError:  # nothing is in it yet
            yield "empty"


def _attributes(value: Any) -> dict[str, Any]:
    """What is set on a value, in its dictionary and in its slots."""
    slots = [slot for kind in type(value).__mro__ for slot in _listed(getattr(kind, "__slots__", ()))]
    found = {slot: getattr(value, slot) for slot in slots if hasattr(value, slot) and not slot.startswith("__")}
    return found | dict(getattr(value, "__dict__", {}))


def _listed(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _plainly(value: Any) -> str:
    """A value of no parts, as it shows itself: if that names a place in memory it says nothing."""
    words = repr(value)
    if " at 0x" in words:
        raise Unhashable(f"a {type(value).__name__} has no words")
    return f"{type(value).__name__} {words}"
