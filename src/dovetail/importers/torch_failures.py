"""What can go wrong while a module runs, and where in its code it did."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType, TracebackType

import torch

from dovetail.errors import InvalidInput, NotModelled

OURS = Path(__file__).parent
PACKAGE = OURS.parent
TORCH = Path(torch.__file__).parent
CALLS_PYTORCH = (
    "__torch_dispatch__",
    "__torch_function__",
    "_recorded",
    "_as_one_step",
    "_on_the_host",
    "_with_numbers",
)
# Of what PyTorch says itself: a word in it, and what helps.
WAYS_OUT = {
    "BF16": "; convert the model with .to(torch.bfloat16)",
    "CUDA": "; leave devices out of the forward pass",
    "HigherOrderOperator": "; write it with plain functions, such as scaled_dot_product_attention",
}


def data_dependent(name: str, where: str, line: str) -> InvalidInput:
    """The run asks for numbers, which a model without weights does not have."""
    what = "the value of a tensor (item, bool, int, float or if)" if name == "aten::_local_scalar_dense" else name
    return InvalidInput(
        f"{where or 'the outermost module'} asks for {what}{line}, but a recording has shapes alone; let sizes and "
        "choices depend on shapes, not on values (a mask among the inputs may have numbers, which are known)"
    )


def unknown_operator(name: str, operands: list[torch.Tensor], where: str) -> NotModelled:
    shapes = ", ".join(f"{_dtype(tensor)}{list(tensor.shape)}" for tensor in operands)
    return NotModelled(
        f"the PyTorch operator {name} of {shapes or 'no tensor'} in {where or 'the outermost module'} is not modelled; "
        f'a plugin can add it: @torch_operators.register("{name}") from dovetail.importers.torch_operators'
    )


def too_many_operators(name: str, most: int, where: str, line: str) -> NotModelled:
    return NotModelled(
        f"{where or 'the outermost module'} runs {name} once more after {most:,} operators{line}, as a loop over "
        "positions does; capture it at fewer positions with --seq, or with a kernel in the place of that loop"
    )


def unknown_dtype(tensor: torch.Tensor, name: str, where: str) -> NotModelled:
    place = f" in {where}" if where else ""
    return NotModelled(
        f"{name}{place} is {_dtype(tensor)} of shape {list(tensor.shape)}, a dtype that is not modelled; "
        "convert it to float32, bfloat16 or float16"
    )


def foreign_parameter(tensor: torch.Tensor, where: str) -> InvalidInput:
    return InvalidInput(
        f"{where or 'the outermost module'} trains a tensor of shape {list(tensor.shape)} that is no parameter of the "
        "model; make it one (nn.Parameter as an attribute of a module)"
    )


def check_autocast(where: str) -> None:
    """Raises where a module lets PyTorch choose dtypes: on meta it would not."""
    if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
        raise under_autocast(where or "the outermost module", user_line())


def under_autocast(where: str, line: str) -> InvalidInput:
    return InvalidInput(
        f"{where} runs under autocast{line}, which a recording cannot follow; convert the model with "
        ".to(torch.bfloat16) and leave autocast out"
    )


def raised(error: Exception, where: str) -> InvalidInput | NotModelled:
    """What a module raised, where, and what may help."""
    message = " ".join(str(error).split())
    line = raising_line(error.__traceback__)
    if ("meta tensor" in message and ("data" in message or "copy out" in message)) or "numpy" in message:
        return data_dependent("the numbers of a tensor", where, line)
    if "SparseTensorImpl" in message:
        return NotModelled(f"{where} has sparse gradients{line}, which are not modelled; leave sparse=True out")
    way = next((way for word, way in WAYS_OUT.items() if word in message), "")
    return InvalidInput(f"{where} raised {type(error).__name__}{line}: {message:.300}{way}")


def is_our_own(traceback: TracebackType | None) -> bool:
    """Whether the innermost code of a traceback is ours, and not where we call PyTorch, so that the mistake is too."""
    code = None
    while traceback is not None:
        code = traceback.tb_frame.f_code
        traceback = traceback.tb_next
    return code is not None and OURS in Path(code.co_filename).parents and code.co_name not in CALLS_PYTORCH


def user_line(skipped: Path | None = None) -> str:
    """' at FILE:LINE' of the innermost code on the stack that is neither PyTorch's nor ours, nor in `skipped`."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        parents = Path(name).parents
        if PACKAGE in parents and OURS not in parents:
            return ""  # the code that has it recorded
        if _is_users(name) and skipped not in parents:
            return f" at {frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def raising_line(traceback: TracebackType | None) -> str:
    """' at FILE:LINE' of the innermost code in a traceback that is neither PyTorch's nor ours."""
    found = ""
    while traceback is not None:
        name = traceback.tb_frame.f_code.co_filename
        if _is_users(name):
            found = f" at {name}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return found


def _is_users(filename: str) -> bool:
    parents = Path(filename).parents
    return not filename.startswith("<") and TORCH not in parents and OURS not in parents


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
