"""What one repeat of a block holds that is a device's share already: one cut and one policy of `block_memories`."""

from __future__ import annotations

from dovetail.parallel.block_memory import BlockMemory, block_memories
from dovetail.parallel.frameworks import Framework
from dovetail.parallel.sharding import forward_ops
from dovetail.workload.graph import Axis, Block, IntArray
from dovetail.workload.optimizer import Precision


def block_memory(
    block: Block, recompute: str, precision: Precision, framework: Framework, degrees: dict[Axis, IntArray]
) -> BlockMemory:
    """Of `block` under the one cut that `degrees` make."""
    ops = forward_ops(block)
    return block_memories(block, ops, ops, (recompute,), precision, framework, degrees).at(0, 0)
