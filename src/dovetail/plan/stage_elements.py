"""Parameters and gradients that one device of a stage holds, in elements: ordinary ones, and those of experts."""

from __future__ import annotations

from collections.abc import Callable

from dovetail.plan.block_memory import block_gradients, block_parameters, block_sparse_gradients, tied_elements
from dovetail.plan.shard import Stage
from dovetail.workload.graph import Block


def parameter_elements(stage: Stage) -> tuple[float, float]:
    """One device's parameters on `stage`; tied ones count only where their owner is on another stage."""
    return _stage_elements(stage, block_parameters)


def gradient_elements(stage: Stage) -> tuple[float, float]:
    """One device's gradients on `stage`, as `parameter_elements`."""
    return _stage_elements(stage, block_gradients)


def sparse_elements(stage: Stage) -> tuple[float, float]:
    """Those of `gradient_elements` that belong to tables of which only looked-up rows have one."""
    return _stage_elements(stage, block_sparse_gradients)


def _stage_elements(stage: Stage, of_block: Callable[[Block], tuple[float, float]]) -> tuple[float, float]:
    is_owner_here = stage.index == 0 and any(not piece.block.is_layer for piece in stage.pieces)
    plain = experts = 0.0
    for piece in stage.pieces:
        block_plain, block_experts = of_block(piece.block)
        is_held_twice = is_owner_here and block_plain > 0
        plain += piece.count * (block_plain - (tied_elements(piece.block) if is_held_twice else 0.0))
        experts += piece.count * block_experts
    return plain, experts
