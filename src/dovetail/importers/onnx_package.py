"""The `onnx` package, which only ONNX files need: imported when the first of them is read."""

from __future__ import annotations

import importlib
from types import ModuleType

from dovetail.errors import InvalidInput


def onnx_package(module: str = "onnx") -> ModuleType:
    """`onnx`, or a module of it by name."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise InvalidInput(
            "ONNX files need the package onnx; install it with: pip install 'dovetail-codesign[onnx]'"
        ) from None
