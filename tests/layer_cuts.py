"""Ways to cut a model's layers into stages, all of them: what planners are checked against."""

from __future__ import annotations

from collections.abc import Iterator


def splits(num_layers: int, num_parts: int) -> Iterator[tuple[int, ...]]:
    """All ways to give every part a layer or more."""
    if num_parts == 1:
        yield (num_layers,)
        return
    for first in range(1, num_layers - num_parts + 2):
        for rest in splits(num_layers - first, num_parts - 1):
            yield (first, *rest)


def recomputes(policies: tuple[str, ...], num_layers: int) -> list[tuple[str, int]]:
    """What a stage may recompute: nothing, or by one of `policies` but the first some or all of its layers."""
    return [("none", 0), *((policy, k) for policy in policies[1:] for k in range(1, num_layers + 1))]
