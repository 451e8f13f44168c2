"""torchvision beside a PyTorch that its compiled operators do not fit: its models are Python and need none of them."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from typing import Any

from dovetail.errors import InvalidInput
from dovetail.importers.torch_library import torch_library

MAX_OPERATORS = 64  # style: a bound on how many are named, so that this ends
_KEPT: list[Any] = []  # definitions live as long as their library


def mend_torchvision() -> None:
    """Imports torchvision where it is installed; operators that its build lacks get a name, so that it imports.

    transformers imports it for many models and breaks where it breaks.
    """
    if "torchvision" in sys.modules or importlib.util.find_spec("torchvision") is None:
        return
    torch = torch_library()
    for _ in range(MAX_OPERATORS):
        try:
            importlib.import_module("torchvision")
        except RuntimeError as error:
            missing = re.search(r"torchvision::(\w+)", str(error))
            if missing is None:
                raise
            if not _KEPT:
                _KEPT.append(torch.library.Library("torchvision", "FRAGMENT"))
            _KEPT[0].define(f"{missing[1]}(Tensor any) -> Tensor")
            for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
                del sys.modules[name]
        else:
            return


def torchvision_models() -> Any:
    """torchvision's module of models."""
    mend_torchvision()
    try:
        return importlib.import_module("torchvision.models")
    except ImportError:
        raise InvalidInput("torchvision is not installed; pip install torchvision") from None
