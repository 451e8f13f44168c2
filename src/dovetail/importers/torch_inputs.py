"""Example inputs at other sizes: what their batch and positions are, and the same with others."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from dovetail.errors import InvalidInput

TILE = 64  # positions: kernels are tuned for multiples of it, so another length should be one too


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What a module is called with: flat leaves, the names of those, and how they go together again."""

    leaves: tuple[Any, ...]
    names: tuple[str, ...]
    structure: Any
    batch: int  # samples in the example
    seq: int  # positions in the example; 1 where it has none
    seq_dim: int
    known: frozenset[str] = frozenset()  # whose numbers are known, as those of masks are
    fixed: frozenset[str] = frozenset()  # whose sides do not follow the length

    def at(self, *, batch: int, seq: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The same on meta, with so many samples of so many positions."""
        leaves = [
            self._resized(name, leaf, batch, seq) if isinstance(leaf, torch.Tensor) else leaf
            for name, leaf in zip(self.names, self.leaves, strict=True)
        ]
        args, kwargs = tree_unflatten(leaves, self.structure)
        return tuple(args), dict(kwargs)

    def _resized(self, name: str, tensor: torch.Tensor, batch: int, seq: int) -> torch.Tensor:
        shape = list(tensor.shape)
        if shape:
            dim = self.batch_dim if tensor.dim() > 1 else 0
            shape[dim] = self._samples(name, tensor, shape[dim], batch)
        for dim in self._dims_of_positions(name, tensor):
            shape[dim] = shape[dim] * seq // self.seq
        return torch.empty(shape, dtype=tensor.dtype, device="meta").requires_grad_(tensor.requires_grad)

    def _samples(self, name: str, tensor: torch.Tensor, num_given: int, batch: int) -> int:
        """What `num_given`, found where the batch is, becomes at another batch.

        Without positions flat integers are indices of bags: so many a sample, or offsets and the end of the last.
        Patches of images stand one after another, as many a sample.
        """
        if num_given == self.batch:
            return batch
        if name in self.fixed and num_given % self.batch == 0:
            return num_given // self.batch * batch
        if tensor.dim() == 1 and not tensor.is_floating_point() and self.seq == 1 and self.batch > 1:
            if num_given % self.batch == 0:
                return num_given // self.batch * batch
            if num_given == self.batch + 1:
                return batch + 1
        return num_given

    def _dims_of_positions(self, name: str, tensor: torch.Tensor) -> list[int]:
        if self.seq == 1 or name in self.fixed:
            return []
        is_index, shape = not tensor.is_floating_point(), tensor.shape
        if tensor.dim() == 1:
            return [0] if is_index and shape[0] == self.seq != self.batch else []
        if is_index and tensor.dim() == 2:
            return [self.seq_dim] if shape[self.seq_dim] > 1 else []
        if tensor.dim() == 4 and shape[2] == shape[3] == self.seq:  # a mask or bias of attention
            return [2, 3]
        return [self.seq_dim] if tensor.dim() > self.seq_dim and shape[self.seq_dim] == self.seq else []

    @property
    def batch_dim(self) -> int:
        """The first, unless positions are."""
        return 1 if self.seq_dim == 0 else 0

    def lengths(self) -> list[int]:
        """All sides of the example that follow the length."""
        return [
            leaf.shape[dim]
            for name, leaf in zip(self.names, self.leaves, strict=True)
            if isinstance(leaf, torch.Tensor)
            for dim in self._dims_of_positions(name, leaf)
        ]

    def known_masks(self, args: Any, kwargs: Any) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Masks whose numbers the example has, repeated or cut to size; one of attention without numbers is of ones."""
        leaves, _structure = tree_flatten((list(args), kwargs))
        for name, given, leaf in zip(self.names, self.leaves, leaves, strict=True):
            if not isinstance(given, torch.Tensor) or not given.numel():
                continue
            if name in self.assumed_masks():
                yield leaf, torch.ones(leaf.shape, dtype=given.dtype, device="cpu")
            elif not given.is_meta and (given.dtype == torch.bool or "mask" in name or name in self.known):
                numbers = given.detach().cpu()
                for dim, size in enumerate(leaf.shape):
                    numbers = numbers.index_select(dim, torch.arange(size, device="cpu") % given.shape[dim])
                yield leaf, numbers

    def assumed_masks(self) -> tuple[str, ...]:
        return tuple(
            name
            for name, given in zip(self.names, self.leaves, strict=True)
            if isinstance(given, torch.Tensor)
            and given.is_meta
            and name in ("attention_mask", "decoder_attention_mask")
        )

    def names_of(self, args: Any, kwargs: Any) -> Iterator[tuple[str, torch.Tensor]]:
        leaves, _structure = tree_flatten((list(args), kwargs))
        for name, leaf in zip(self.names, leaves, strict=True):
            if isinstance(leaf, torch.Tensor):
                yield name, leaf


def read_inputs(
    model: torch.nn.Module,
    example: Any,
    seq_dim: int | None,
    *,
    known: frozenset[str] = frozenset(),
    fixed: frozenset[str] = frozenset(),
) -> Inputs:
    """Inputs as a tensor, a tuple of positional ones, or a mapping of named ones."""
    args, kwargs = _called_with(example)
    _check_signature(model, args, kwargs)
    leaves, structure = tree_flatten((args, kwargs))
    names = tuple(_names(model, args, kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    free = [leaf for name, leaf in zip(names, leaves, strict=True) if torch.is_tensor(leaf) and name not in fixed]
    batch_dim = 1 if seq_dim == 0 else 0
    sized = [tensor for tensor in tensors if tensor.dim() > batch_dim]
    if not sized or not sized[0].shape[batch_dim]:
        raise InvalidInput(
            "the example inputs hold no tensor with a batch dim of at least 1; give one, such as [batch, seq]"
        )
    return Inputs(
        leaves=tuple(leaves),
        names=names,
        structure=structure,
        batch=sized[0].shape[batch_dim],
        seq=_positions(free, seq_dim),
        seq_dim=1 if seq_dim is None else seq_dim,
        known=known,
        fixed=fixed,
    )


def other_lengths(inputs: Inputs, seq: int) -> tuple[int, ...]:
    """Lengths to try beside `seq`: about half of it, or a tile less; in whole tiles where there are some."""
    lengths = inputs.lengths()
    half, less = seq // 2, seq - TILE
    tried = (half - half % TILE or half, less, half, seq - 1)
    return tuple(
        dict.fromkeys(
            wanted
            for wanted in tried
            if 1 < wanted < seq and all(length * wanted % inputs.seq == 0 for length in lengths)
        )
    )


def _called_with(example: Any) -> tuple[list[Any], dict[str, Any]]:
    if isinstance(example, torch.Tensor):
        return [example], {}
    if isinstance(example, Mapping):
        return [], dict(example)
    if isinstance(example, tuple | list):
        return list(example), {}
    raise InvalidInput(f"example inputs are a tensor, a tuple or a dict of them; got {type(example).__name__}")


def _check_signature(model: torch.nn.Module, args: list[Any], kwargs: dict[str, Any]) -> None:
    signature = inspect.signature(model.forward)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        taken = ", ".join(str(parameter).partition(":")[0] for parameter in signature.parameters.values())
        raise InvalidInput(
            f"the example inputs do not fit {type(model).__name__}: {error}; its forward takes ({taken:.200})"
        ) from error


def _names(model: torch.nn.Module, args: list[Any], kwargs: dict[str, Any]) -> Iterator[str]:
    expected = [name for name in inspect.signature(model.forward).parameters if name not in kwargs]
    for place, value in enumerate(args):
        name = expected[place] if place < len(expected) else f"input{place}"
        yield from _leaf_names(name, value)
    for name, value in kwargs.items():
        yield from _leaf_names(name, value)


def _leaf_names(name: str, value: Any) -> Iterator[str]:
    num_leaves = len(tree_flatten(value)[0])
    if num_leaves == 1:
        yield name
    else:
        yield from (f"{name}.{place}" for place in range(num_leaves))


def _positions(tensors: list[torch.Tensor], seq_dim: int | None) -> int:
    if seq_dim is not None:
        sizes = [tensor.shape[seq_dim] for tensor in tensors if tensor.dim() > seq_dim]
        if not sizes:
            raise InvalidInput(f"seq_dim={seq_dim} is beyond the dims of every example input")
        return int(sizes[0])
    sizes = [tensor.shape[1] for tensor in tensors if tensor.dim() == 2 and not tensor.is_floating_point()]
    if not sizes or any(size < 2 for size in sizes):
        return 1
    return int(sizes[0])
