"""What PyTorch refuses on a GPU and lets pass on meta tensors: products of two dtypes, rows beyond a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from dovetail.errors import InvalidInput
from dovetail.importers.torch_failures import user_line

# By operator, the places of operands that PyTorch wants in one dtype (torch 2.13 on the CPU raises for each).
SAME_DTYPE = {
    "aten::mm": (0, 1),
    "aten::mv": (0, 1),
    "aten::addmm": (1, 2),
    "aten::addmv": (1, 2),
    "aten::convolution": (0, 1),
    "aten::index_add": (0, 3),
    "aten::index_add_": (0, 3),
}
# By operator, the places of a table, the dim that is looked up in it, and the indices.
LOOKED_UP = {"aten::embedding": (0, 0, 1), "aten::index_select": (0, 1, 2)}
CHECKED = SAME_DTYPE.keys() | LOOKED_UP.keys()
Numbers = Callable[[torch.Tensor], torch.Tensor | None]


def check_operands(name: str, args: Any, numbers_of: Numbers, where: str) -> None:
    """Raises where the operator would on a GPU; indices are looked at where their numbers are known."""
    places = SAME_DTYPE.get(name)
    if places is not None:
        _check_dtypes(name, [args[place] for place in places if place < len(args)], where)
    found = LOOKED_UP.get(name)
    if found is not None and type(args[found[2]]) is torch.Tensor:  # fake tensors and DTensors have no numbers
        table, dim, indices = found
        num_rows = args[table].shape[args[dim] if dim else 0]
        _check_range(name, num_rows, numbers_of(args[indices]), where)


def _check_dtypes(name: str, operands: list[Any], where: str) -> None:
    if len({one.dtype for one in operands}) > 1:
        listed = " and ".join(f"{str(one.dtype).removeprefix('torch.')}{list(one.shape)}" for one in operands)
        raise InvalidInput(
            f"{_caller(where)} gives {name} operands of two dtypes{user_line()}: {listed}; PyTorch wants one: convert "
            "the inputs or the module, or run it under autocast"
        )


def _check_range(name: str, num_rows: int, indices: torch.Tensor | None, where: str) -> None:
    if indices is None or not indices.numel():
        return
    least, most = int(indices.min()), int(indices.max())
    if least < 0 or most >= num_rows:
        wrong = least if least < 0 else most
        raise InvalidInput(
            f"{_caller(where)} looks up row {wrong:,} of a table of {num_rows:,} with {name}{user_line()}, which is "
            "out of range; take fewer positions, or a larger table"
        )


def _caller(where: str) -> str:
    return where or "the outermost module"
