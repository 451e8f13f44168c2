"""Where gradients start, and whether they reach all parameters from there."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

from dovetail.errors import InvalidInput
from dovetail.importers.torch_tape import Tape
from dovetail.workload.recorded.record import Source

NUM_NAMED = 4  # parameters in one line


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The tensors whose sum training would reduce, and how they were found where that was a choice."""

    tensors: tuple[torch.Tensor, ...]
    note: str = ""


def start_of(outputs: Any) -> Start:
    """The loss of a module's outputs; all of them where none is a single number."""
    named = outputs.get("loss") if isinstance(outputs, Mapping) else getattr(outputs, "loss", None)
    if isinstance(named, torch.Tensor) and named.dim() == 0 and named.requires_grad:
        return Start(tensors=(named,))
    floats = tuple(leaf for leaf in _leaves(outputs) if leaf.is_floating_point() and leaf.requires_grad)
    scalars = tuple(leaf for leaf in floats if leaf.dim() == 0)
    if isinstance(outputs, Mapping) and len(scalars) > 1:
        return Start(tensors=scalars, note=f"the loss is the sum of {len(scalars)} outputs that are single numbers")
    if scalars:
        return Start(tensors=scalars[:1])
    if not floats:
        raise InvalidInput(
            "no output of the module has a gradient; return a loss, or outputs that depend on parameters outside of "
            "torch.no_grad"
        )
    return Start(tensors=floats, note="")


def gradients_from(start: Start) -> None:
    """Runs the backward pass."""
    total = sum((tensor.float().sum() for tensor in start.tensors), torch.zeros((), device="meta"))
    assert isinstance(total, torch.Tensor)
    total.backward()


def missed_parameters(model: torch.nn.Module, tape: Tape, starts: tuple[int, ...]) -> tuple[str, ...]:
    """A note for trained parameters that no gradient belongs to; raises where one should have come and did not.

    Of tensors on meta PyTorch has lost whole backward passes without a word, so this is looked at each time.
    """
    missed = [
        name for name, parameter in model.named_parameters() if parameter.requires_grad and parameter.grad is None
    ]
    if not missed:
        return ()
    wanted = _passed_back(tape, starts)
    numbers = {tensor.name: place for place, tensor in enumerate(tape.tensors) if tensor.source is Source.PARAMETER}
    lost = [name for name in missed if numbers[name] in wanted]
    if lost:
        raise InvalidInput(
            f"the loss depends on {named(lost)}, but no gradient arrives there; freeze what is not trained with "
            "requires_grad_(False)"
        )
    if len(missed) == len(numbers):
        raise InvalidInput("no gradient reaches any parameter from the loss; see that it depends on them")
    return (f"no gradient reaches {named(missed)}: the loss does not depend on {'it' if len(missed) == 1 else 'them'}",)


def named(names: list[str]) -> str:
    more = f" and {len(names) - NUM_NAMED} more" if len(names) > NUM_NAMED else ""
    return ", ".join(names[:NUM_NAMED]) + more


def _passed_back(tape: Tape, starts: tuple[int, ...]) -> set[int]:
    """All values that gradients should reach, going back step by step."""
    wanted = set(starts)
    for step in reversed(tape.steps):
        if wanted.intersection(step.outputs) and not step.attribute("no_grad", False):
            wanted.update(step.inputs)
    return wanted


def _leaves(outputs: Any) -> list[torch.Tensor]:
    if hasattr(outputs, "to_tuple"):  # the outputs of transformers, which are no plain dicts
        outputs = outputs.to_tuple()
    elif dataclasses.is_dataclass(outputs) and not isinstance(outputs, type):
        outputs = [getattr(outputs, field.name) for field in dataclasses.fields(outputs)]
    return [leaf for leaf in tree_flatten(outputs)[0] if isinstance(leaf, torch.Tensor)]
