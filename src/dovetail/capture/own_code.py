"""Code in memory as bytes to hash: what runs, and not what its file has become since it was imported.

Of the user's own modules everything counts that they define and import from each other; of a library its version, and
the code of `forward` that a module really has, as programs put their own in its place.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

import dovetail

_PLAIN = (str, bytes, bool, int, float, complex, type(None))


@cache
def _library_folders() -> tuple[str, ...]:
    paths = (sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    own = os.path.dirname(os.path.abspath(dovetail.__file__))
    return tuple({os.path.realpath(path) + os.sep for path in (*paths, own) if path})


def is_own_file(file: str) -> bool:
    """Whether it is the user's: of no library, not Python's and not Dovetail's."""
    if not file or file.startswith("<"):
        return False
    return not os.path.realpath(file).startswith(_library_folders())


def is_own_module(module: ModuleType) -> bool:
    """Of a file of the user's, or of none, as what is typed into a notebook."""
    if module.__name__ in sys.builtin_module_names:
        return False
    file = getattr(module, "__file__", None)
    return is_own_file(file) if isinstance(file, str) else module.__name__ == "__main__"


@cache
def version_of(package: str) -> str:
    """The version of a library, empty where nobody says it."""
    try:
        return importlib.metadata.version(package)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return str(getattr(sys.modules.get(package), "__version__", ""))


def numbers_digest(tensor: Any) -> str:
    """A hash of what is in a tensor; nothing is in one of the meta device."""
    if tensor.is_meta:
        return "meta"
    return hashlib.sha256(tensor.detach().cpu().double().numpy().tobytes()).hexdigest()


def code_words(code: CodeType) -> Iterator[str]:
    """What a function does: its instructions and the constants and names in them, wherever it stands in its file."""
    yield from (code.co_code.hex(), repr(code.co_names), repr(code.co_varnames), repr(code.co_freevars))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from code_words(constant)
        else:
            yield repr(sorted(map(repr, constant))) if isinstance(constant, frozenset) else repr(constant)


def class_words(kind: type) -> Iterator[str]:
    """What a class and those of the user's that it inherits from do."""
    for each in kind.__mro__:
        yield f"{each.__module__}.{each.__qualname__}"
        module = sys.modules.get(each.__module__)
        if module is None or is_own_module(module):
            yield from _body_words(each)


def _body_words(kind: type) -> Iterator[str]:
    for name, value in sorted(vars(kind).items()):
        code = _code_of(value)
        if code is not None:
            yield name
            yield from code_words(code)
        elif isinstance(value, _PLAIN):
            yield f"{name}={value!r}"


def _code_of(value: Any) -> CodeType | None:
    for attribute in ("__wrapped__", "__func__", "fget"):
        value = getattr(value, attribute, None) or value
    code = getattr(value, "__code__", None)
    return code if isinstance(code, CodeType) else None


def module_words(names: set[str]) -> Iterator[str]:
    """What the user's modules of these names define, and all modules of the user's that they take something from."""
    seen: set[str] = set()
    todo = sorted(names, reverse=True)
    while todo:
        name = todo.pop()
        module = sys.modules.get(name)
        if name in seen or module is None:
            continue
        seen.add(name)
        if not is_own_module(module):
            package = name.partition(".")[0]
            yield f"{package}=={version_of(package)}"
            continue
        yield name
        for key, value in sorted(vars(module).items()):
            if key.startswith("__"):
                continue
            home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
            if isinstance(home, str) and home != name:
                todo.append(home)
            yield from _global_words(key, value, name)


def _global_words(key: str, value: Any, home: str) -> Iterator[str]:
    if isinstance(value, FunctionType) and value.__module__ == home:
        yield key
        yield from code_words(value.__code__)
    elif isinstance(value, type) and value.__module__ == home:
        yield key
        yield from _body_words(value)
    elif hasattr(value, "shape") and hasattr(value, "detach") and not isinstance(value, type):
        yield f"{key}: {value.dtype} {tuple(value.shape)} {numbers_digest(value)}"
    elif isinstance(value, (*_PLAIN, tuple, list, dict, set, frozenset)):
        words = repr(value)
        if " at 0x" not in words:
            yield f"{key}={words}"
