"""Parameters and gradients that one device of a stage holds, in elements: ordinary ones, and those of experts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dovetail.plan.block_elements import BlockElements
from dovetail.units import Amount

Owned = tuple[Amount, Amount]  # ordinary, of experts


def is_owner_here(are_layers: Sequence[bool]) -> bool:
    """Whether what tied weights are tied to is on their stage too, of whose blocks `are_layers` tells the kind.

    A stage that holds both ends of a model, the embedding and the head: a pipeline's only one, the first of ZB-V, the
    first and the last of DualPipe.
    """
    return sum(not is_layer for is_layer in are_layers) > 1


def tied_parameters(block: BlockElements) -> Amount:
    return block.tied


def held_elements(
    pieces: Sequence[tuple[Amount, BlockElements]],
    of_block: Callable[[BlockElements], Owned],
    *,
    has_owner: bool,
    tied: Callable[[BlockElements], Amount] = tied_parameters,
) -> Owned:
    """What `of_block` counts, over as many of each block as a stage holds; tied ones not where it has their owner."""
    plain: Amount = 0.0
    experts: Amount = 0.0
    for count, block in pieces:
        block_plain, block_experts = of_block(block)
        held_twice = np.where(block_plain > 0, tied(block), 0.0) if has_owner else 0.0
        plain = plain + count * (block_plain - held_twice)
        experts = experts + count * block_experts
    return plain, experts
