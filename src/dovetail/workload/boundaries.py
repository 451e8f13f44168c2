"""What a block hands on and the next one keeps is one tensor: it is counted once, with the block that reads it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dovetail.workload.graph import Block, Need


def kept_once(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """`blocks` in order, each with a mark on its output where both it and its reader keep that for the backward pass.

    So a relu keeps its output and the product behind it its input: PyTorch saves one tensor for both. A block that
    repeats is read by itself; where the block behind its last repeat keeps another thing, that repeat stands apart.
    """
    listed = list(blocks)
    found: list[Block] = []
    for block, behind in zip(listed, [*listed[1:], None], strict=True):
        by_next = behind is not None and _is_kept_by_both(block, behind)
        by_itself = _is_kept_by_both(block, block) if block.repeat > 1 else by_next
        if by_itself == by_next:
            found.append(_marked(block) if by_next else block)
            continue
        rest = replace(block, repeat=block.repeat - 1)
        last = replace(block, repeat=1, name=f"{block.name}_last")
        found += [_marked(rest), last] if by_itself else [rest, _marked(last)]
    return tuple(found)


def _is_kept_by_both(block: Block, reader: Block) -> bool:
    """Whether the last row's output is kept, and is what `reader` keeps as its input."""
    has_both = block.ops.need[-1] != Need.NONE and reader.ops.need[0] != Need.NONE
    return bool(has_both and block.ops.output_elements[-1] == reader.ops.output_elements[0])


def _marked(block: Block) -> Block:
    need = block.ops.need.copy()
    need[-1] |= Need.BY_NEXT
    return replace(block, ops=replace(block.ops, need=need))
