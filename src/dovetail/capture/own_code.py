"""Code in memory as bytes to hash: what runs, and not what its file has become since it was imported.

Of the user's own code everything counts that can be reached: functions, what they look up, classes and their methods.
Of a library it is its version, and the code of `forward` that a module really has, as programs put their own in its
place.
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


def names_in(code: CodeType) -> Iterator[str]:
    """Names that a function or one inside it looks up, in its module or on something."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_in(constant)


def is_own(value: Any) -> bool:
    """Whether a class or function is the user's; what says no module was made as a program ran."""
    home = getattr(value, "__module__", None)
    module = sys.modules.get(home) if isinstance(home, str) else None
    return module is None or is_own_module(module)


def library_words(value: Any) -> str:
    """A class or function of a library, with the library's version."""
    home = str(getattr(value, "__module__", "")).partition(".")[0]
    return f"{home}=={version_of(home)} {getattr(value, '__qualname__', type(value).__qualname__)}"


def functions_of(value: Any) -> Iterator[FunctionType]:
    """The functions behind what stands in a class: a method, static or of the class, or a property."""
    parts = (value, getattr(value, "__func__", None), *(getattr(value, name, None) for name in ("fget", "fset")))
    yield from (part for part in parts if isinstance(part, FunctionType))
