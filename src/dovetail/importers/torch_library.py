"""PyTorch, which is an extra of Dovetail; and torchvision beside it, whose own library may be of another build."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from typing import Any

from dovetail.errors import InvalidInput

# What torchvision's Python registers shapes for as it is imported, whether or not its library could be loaded.
NEEDED = ("nms", "qnms")
BOXES = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


def torch_library() -> Any:
    """PyTorch itself."""
    try:
        import torch
    except ImportError:
        raise InvalidInput("capturing a PyTorch module needs PyTorch; pip install 'dovetail-codesign[torch]'") from None
    _declare_for_torchvision()
    return torch


@cache
def _declare_for_torchvision() -> None:
    """Lets torchvision be imported where its library is not for this build of PyTorch, as one for CUDA beside a CPU's.

    Without its operators torchvision raises as it is imported, and so do transformers and diffusers, which import it
    wherever it is installed. None of them is run on a recording's tensors, so it is enough to have names for them.
    """
    import torch

    if "torchvision" in sys.modules:
        return
    try:
        found = importlib.util.find_spec("torchvision")
    except (ImportError, ValueError):
        return
    if found is None or not found.origin:
        return
    for library in sorted(Path(found.origin).parent.glob("_C.*")):
        try:
            torch.ops.load_library(str(library))
        except OSError:
            continue
        return
    missing = [name for name in NEEDED if not hasattr(torch.ops.torchvision, name)]
    if missing:
        _DECLARED.append(torch.library.Library("torchvision", "FRAGMENT"))
    for name in missing:
        _DECLARED[-1].define(f"{name}{BOXES}")


_DECLARED: list[Any] = []  # declarations last as long as what made them
