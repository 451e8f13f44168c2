"""Whether a mask of attention is causal: its numbers are followed on the host where nothing else needs to know them.

`Numbers` follows what code may read, which masks of long samples are too large for. What is known here decides nothing
in the step; a mask whose numbers are not known is not causal.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from dovetail.importers.torch_numbers import DRAWN, EMPTY, Numbers
from dovetail.units import KILO, MEBI

MAX_FLAGS = 32 * MEBI  # true or false in one mask that is followed: 8 samples of 2,048 tokens
MAX_OTHERS = 4 * MEBI  # other numbers
LEAST_HIDDEN = -10 * KILO  # added to a score, it leaves exp() of it 0 in every dtype
_SAME = "expand", "unsqueeze", "squeeze", "view", "_unsafe_view", "clone", "_to_copy"
SAME = frozenset(f"aten::{name}" for name in _SAME)
_NUMBERS, _CAUSAL = "_mask_numbers", "_mask_is_causal"


class Masks:
    """The numbers of square tensors, as queries by keys are, beyond those that `numbers` has."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers
        self._followed: set[int] = set()  # storages
        self._written: set[int] = set()  # of them, those that were written to later

    def follow(self, func: Any, word: str, is_inplace: bool, args: Any, kwargs: Any, made: Any) -> None:
        """After `func` has made `made` on meta."""
        if is_inplace:
            target = kwargs.get("out", args[0] if args else None)
            if isinstance(target, torch.Tensor) and (key := target.untyped_storage()._cdata) in self._followed:
                self._written.add(key)
            return
        if not _is_square(made) or word in EMPTY or word in DRAWN:
            return
        operands = [one for one in tree_flatten((args, kwargs))[0] if isinstance(one, torch.Tensor)]
        if self._passes_on(word, args, operands):
            self._keep(made, operands, _CAUSAL, True)
        elif made.numel() <= (MAX_FLAGS if made.dtype == torch.bool else MAX_OTHERS):
            known = self._known(args, kwargs)
            if known is not None:
                try:
                    self._keep(made, operands, _NUMBERS, func(*known[0], **known[1]))
                except (RuntimeError, NotImplementedError):
                    return  # no such kernel on the host

    def is_causal(self, mask: Any) -> bool:
        """Whether each query is known to see the keys up to its own, and no other."""
        if not _is_square(mask) or not mask.is_meta or mask.untyped_storage()._cdata in self._written:
            return False
        if _CAUSAL not in mask.__dict__:
            numbers = self._of(mask)
            if numbers is None:
                return False
            mask.__dict__[_CAUSAL] = _is_lower_triangle(numbers)
        return bool(mask.__dict__[_CAUSAL])

    def _passes_on(self, word: str, args: Any, operands: list[torch.Tensor]) -> bool:
        """A causal mask in another shape or dtype, or 0 where it holds and far below 0 where it does not."""
        if not operands or not self.is_causal(operands[0]):
            return False
        if word in SAME:
            return operands[0].dtype == torch.bool or word != "aten::_to_copy" or operands[0].is_floating_point()
        if word != "aten::where" or len(args) != 3:
            return False
        seen, hidden = (self._scalar(one) for one in args[1:])
        return seen == 0 and hidden is not None and hidden <= LEAST_HIDDEN

    def _scalar(self, value: Any) -> float | None:
        if not isinstance(value, torch.Tensor):
            return float(value)
        numbers = self._numbers.of(value) if value.numel() == 1 else None
        return None if numbers is None else float(numbers)

    def _of(self, tensor: torch.Tensor) -> torch.Tensor | None:
        found = self._numbers.of(tensor)
        if found is None and tensor.untyped_storage()._cdata not in self._written:
            found = tensor.__dict__.get(_NUMBERS)
        return found

    def _known(self, args: Any, kwargs: Any) -> Any:
        """Arguments with every tensor on the host; none where one is not known."""
        leaves, spec = tree_flatten((args, kwargs))
        found = []
        for leaf in leaves:
            value = self._of(leaf) if isinstance(leaf, torch.Tensor) else leaf
            if value is None and leaf is not None:
                return None
            found.append(torch.device("cpu") if isinstance(value, torch.device) else value)
        return tree_unflatten(found, spec)

    def _keep(self, made: torch.Tensor, operands: list[torch.Tensor], name: str, value: Any) -> None:
        key = made.untyped_storage()._cdata
        if all(one.untyped_storage()._cdata != key for one in operands):
            self._written.discard(key)  # memory that is taken again
        self._followed.add(key)
        made.__dict__[name] = value


def _is_square(made: Any) -> bool:
    return isinstance(made, torch.Tensor) and made.is_meta and made.dim() > 1 and made.shape[-1] == made.shape[-2] > 1


def _is_lower_triangle(numbers: torch.Tensor) -> bool:
    side = numbers.shape[-1]
    lower = torch.ones(side, side, dtype=torch.bool).tril()
    if numbers.dtype == torch.bool:
        return bool((numbers == lower).all())
    if not numbers.is_floating_point():
        return False
    return bool(torch.where(lower, numbers == 0, numbers <= LEAST_HIDDEN).all())
