"""Numbers that are known without weights and inputs: positions, masks and choices made of nothing but shapes.

Modules ask for a few of them (is this mask all ones?). They are followed on the side, as small tensors of the host, as
long as every operand is known; what depends on weights or on inputs is not.
"""

from __future__ import annotations

from typing import Any

import torch

from dovetail.units import MEGA

MAX_NUMBERS = MEGA  # positions and masks of a few long samples
MAX_CHECKED = 64 * MEGA  # one truth value stands for all of them; asking whether any holds still looks at each
NOT_FINITE = ("aten::isinf", "aten::isnan")  # no module is trained on numbers that are not
CHANCE = 0.5  # what a single random number is taken to be: choices such as layer drop then fall to the likelier side
_UNKNOWN = """empty empty_strided empty_like empty_permuted new_empty new_empty_strided rand randn randint rand_like
    randn_like randint_like randperm bernoulli bernoulli_ normal normal_ uniform uniform_ exponential_ random_
    geometric_ native_dropout multinomial"""
UNKNOWN = frozenset(f"aten::{name}" for name in _UNKNOWN.split())


class KnownNumbers:
    """The known numbers of tensors on meta, by the tensor. The holder of this keeps the tensors alive."""

    def __init__(self) -> None:
        self._twins: dict[int, torch.Tensor] = {}
        self.num_chances = 0
        self.num_checks = 0

    def of(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The tensor with its numbers, on the host; none where they are not known."""
        return self._twins.get(id(tensor)) if tensor.is_meta else tensor

    def learn(self, tensor: torch.Tensor, numbers: torch.Tensor) -> None:
        self._twins[id(tensor)] = numbers

    def take_as_finite(self, checked: torch.Tensor, answer: bool) -> None:
        """Answers the question of whether each number is finite, or is not."""
        if checked.numel() <= MAX_CHECKED:
            self.num_checks += 1
            self.learn(checked, torch.full((), answer, dtype=torch.bool, device="cpu").expand(checked.shape))

    def follow(self, func: Any, name: str, args: Any, kwargs: Any, made: Any, written: list[torch.Tensor]) -> None:
        """Learns the numbers of what an operator made, where all of its operands are known."""
        if name == "aten::rand" and isinstance(made, torch.Tensor) and made.dim() == 0:
            self.num_chances += 1
            self.learn(made, torch.full((), CHANCE, dtype=made.dtype, device="cpu"))
            return
        if name in NOT_FINITE:
            self.take_as_finite(made, False)
            return
        found = self._all_known(args, kwargs)
        if name in UNKNOWN or found is None or not _is_small(made):
            for tensor in written:
                self._forget(tensor)
            return
        host_args, host_kwargs = found
        if "device" in host_kwargs:
            host_kwargs["device"] = torch.device("cpu")
        numbers = func(*host_args, **host_kwargs)
        if isinstance(made, torch.Tensor):
            self.learn(made, numbers)
        elif isinstance(made, list | tuple):
            for tensor, twin in zip(made, numbers, strict=True):
                if isinstance(tensor, torch.Tensor):
                    self.learn(tensor, twin)

    def _all_known(self, args: Any, kwargs: Any) -> tuple[list[Any], dict[str, Any]] | None:
        host_args = []
        for value in args:
            known = self._host(value)
            if known is None and value is not None:
                return None
            host_args.append(known)
        host_kwargs = {}
        for name, value in kwargs.items():
            known = self._host(value)
            if known is None and value is not None:
                return None
            host_kwargs[name] = known
        return host_args, host_kwargs

    def _host(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self.of(value)
        if isinstance(value, list | tuple) and any(isinstance(inner, torch.Tensor) for inner in value):
            twins = [self._host(inner) for inner in value]
            missing = any(twin is None and inner is not None for twin, inner in zip(twins, value, strict=True))
            return None if missing else twins
        return value

    def _forget(self, written: torch.Tensor) -> None:
        """Nothing that shares memory with a tensor that was overwritten by unknown numbers is known any longer."""
        twin = self._twins.get(id(written))
        if twin is None:
            return
        memory = twin.untyped_storage()._cdata
        gone = [key for key, other in self._twins.items() if other.untyped_storage()._cdata == memory]
        for key in gone:
            del self._twins[key]


def _is_small(made: Any) -> bool:
    tensors = [made] if isinstance(made, torch.Tensor) else made if isinstance(made, list | tuple) else ()
    return all(tensor.numel() <= MAX_NUMBERS for tensor in tensors if isinstance(tensor, torch.Tensor))
