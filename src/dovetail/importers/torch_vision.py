"""torchvision, where it is installed."""

from __future__ import annotations

import importlib
from typing import Any

from dovetail.errors import InvalidInput
from dovetail.importers.torch_library import torch_library


def torchvision_models() -> Any:
    """torchvision's module of models."""
    torch_library()  # which lets it be imported beside a PyTorch of another build
    try:
        return importlib.import_module("torchvision.models")
    except ImportError:
        raise InvalidInput("torchvision is not installed; pip install torchvision") from None
