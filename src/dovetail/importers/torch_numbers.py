"""Small tensors of the step that have numbers although they are on meta: tokens, positions, masks, routes.

Code asks for some of them (how many tokens does this expert get?). They follow on the host as long as every operand is
known. Choices among unknown numbers, such as the experts of a token, are drawn at random.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import torch

from dovetail.errors import NotModelled
from dovetail.importers.torch_failures import user_line
from dovetail.units import KIBI, MEBI

MAX_WHOLE = MEBI  # whole numbers of a tensor that is followed: routes of a batch, not masks of long samples
MAX_FLOATS = 64 * KIBI  # other numbers: positions, chances
MOST_READS = 2_000  # style: a count; of one line, more than any released model's layers and experts read
MAX_LINES = 3  # that notes name
SEED = 0
_DRAWN = """rand randn randint rand_like randn_like randint_like bernoulli bernoulli_ normal_ uniform_ exponential_
    random_ randperm"""
DRAWN = frozenset(f"aten::{name}" for name in _DRAWN.split())
_EMPTY = "empty empty_like empty_strided empty_permuted new_empty new_empty_strided native_dropout"
EMPTY = frozenset(f"aten::{name}" for name in _EMPTY.split())
CHOICES = frozenset(f"aten::{name}" for name in ("topk", "sort", "argmax", "argmin", "argsort", "multinomial"))
UNKNOWN_NUMBERS = "tensors have no data, so values that code reads, as .item() does, are 0.5, and 1 of integers"
_KEY = "_numbers"


class Numbers:
    """The known numbers of tensors on meta; they die with the tensor."""

    def __init__(self) -> None:
        self.notes: dict[str, None] = {}
        self.has_guessed = False
        self._generator = torch.Generator().manual_seed(SEED)
        self._stale: set[int] = set()
        self._reads: Counter[str] = Counter()  # of unknown numbers, by line of code

    def note(self, words: str) -> None:
        self.notes[words] = None

    def of(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """On the host; none where they are not known."""
        if not tensor.is_meta:
            return tensor
        found: torch.Tensor | None = tensor.__dict__.get(_KEY)
        if found is not None and found.untyped_storage()._cdata in self._stale:
            return None
        return found

    def guess(self, tensor: torch.Tensor) -> torch.Tensor:
        """Numbers for one that has none: halves, ones of whole numbers, and true; a note says where."""
        self.has_guessed = True
        value = 0.5 if tensor.dtype.is_floating_point else 1
        words = "true" if tensor.dtype == torch.bool else str(value)
        line = user_line().removeprefix(" at ")
        self._reads[line] += 1
        if line and self._reads[line] > MOST_READS:
            raise NotModelled(
                f"{line} reads a tensor's value {MOST_READS:,} times, and {words} was assumed each time; a loop that "
                "ends by a value is not modelled"
            )
        if list(self._reads).index(line) < MAX_LINES:
            self.note(f"{Path(line).name or 'code'} reads a tensor's value (.item(), if); {words} was assumed")
        else:
            self.note("other lines too read the value of a tensor")
        return torch.full(tensor.shape, value, dtype=tensor.dtype)

    def run(self, func: Any, word: str, is_inplace: bool, args: Any, kwargs: Any) -> Any:
        """What an operator makes on meta, and the numbers of that on the host."""
        known = None
        if word not in EMPTY and word not in DRAWN:
            known = self._known((args, kwargs))
        try:
            made = func(*args, **kwargs)
        except (RuntimeError, NotImplementedError, TypeError):
            if known is None:
                raise
            made = None
        if known is None:
            if word in CHOICES and args[0].is_meta and args[0].numel() <= MAX_WHOLE:
                self._choose(func, args, kwargs, made)
            elif is_inplace:
                self._forget(args, kwargs)
            return made
        if made is not None and not _is_followed(made):
            if is_inplace:
                self._forget(args, kwargs)
            return made
        host_args, host_kwargs = known
        try:
            numbers = func(*host_args, **host_kwargs)
        except (RuntimeError, NotImplementedError):  # no such kernel on the host
            if made is None:
                raise
            if is_inplace:
                self._forget(args, kwargs)
            return made
        if made is None:
            return self._on_meta(numbers)
        self._learn_all(made, numbers)
        return made

    def follow_write(self, func: Any, args: Any, kwargs: Any) -> None:
        """After a write into `args[0]` that ran elsewhere."""
        known = self._known((args, kwargs))
        if known is None:
            self._forget(args, kwargs)
        else:
            func(*known[0], **known[1])

    def _choose(self, func: Any, args: Any, kwargs: Any, made: Any) -> None:
        drawn = torch.rand(args[0].shape, generator=self._generator)
        numbers = func(drawn, *args[1:], **kwargs)
        for tensor, number in zip(_flat(made), _flat(numbers), strict=True):
            if not tensor.dtype.is_floating_point:
                learn(tensor, number)

    def _learn_all(self, made: Any, numbers: Any) -> None:
        for tensor, number in zip(_flat(made), _flat(numbers), strict=False):
            if tensor.is_meta:
                learn(tensor, number)

    def _on_meta(self, numbers: Any) -> Any:
        if isinstance(numbers, torch.Tensor):
            made = torch.empty_like(numbers, device="meta")
            learn(made, numbers)
            return made
        if isinstance(numbers, list | tuple):
            return type(numbers)(self._on_meta(one) for one in numbers)
        return numbers

    def _forget(self, args: Any, kwargs: Any) -> None:
        """What shares memory with a tensor that unknown numbers are written to is not known any longer."""
        target = kwargs.get("out", args[0] if args else None)
        found = target.__dict__.pop(_KEY, None) if isinstance(target, torch.Tensor) else None
        if found is not None:
            self._stale.add(found.untyped_storage()._cdata)

    def _known(self, value: Any) -> Any:
        """`value` with every tensor on the host; none where one is not known."""
        if isinstance(value, torch.Tensor):
            return self.of(value)
        if isinstance(value, tuple | list):
            found = []
            for one in value:
                known = self._known(one)
                if known is None and one is not None:
                    return None
                found.append(known)
            return tuple(found) if isinstance(value, tuple) else found
        if isinstance(value, dict):
            values = {}
            for name, one in value.items():
                known = self._known(one)
                if known is None and one is not None:
                    return None
                values[name] = known
            if "device" in values:
                values["device"] = torch.device("cpu")
            return values
        return value


def learn(tensor: torch.Tensor, numbers: torch.Tensor) -> None:
    """Gives a tensor on meta its numbers."""
    tensor.__dict__[_KEY] = numbers


def _flat(made: Any) -> list[torch.Tensor]:
    if isinstance(made, torch.Tensor):
        return [made]
    return [one for one in made if isinstance(one, torch.Tensor)] if isinstance(made, list | tuple) else []


def _is_followed(made: Any) -> bool:
    return all(
        tensor.numel() <= (MAX_FLOATS if tensor.dtype.is_floating_point else MAX_WHOLE) for tensor in _flat(made)
    )
