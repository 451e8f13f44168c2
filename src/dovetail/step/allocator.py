"""PyTorch's caching allocator: how much it hands out and how much it reserves, block by block.

Requests are rounded to 512 bytes and cut from segments: of 2 MiB for up to 1 MiB, of 20 MiB for up to 10 MiB, of their
own size in whole 2 MiB above. A free block is taken where one is large enough, the smallest first; what is left of it
becomes a block of its own, unless that is small. Freed neighbours become one block.
Source: c10/cuda/CUDACachingAllocator.cpp, torch 2.11, default settings.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass, field

from dovetail.units import MEBI

BLOCK_BYTES = 512
SMALL_BYTES = int(MEBI)  # requests up to this are of the small pool
SMALL_SEGMENT_BYTES = int(2 * MEBI)
LARGE_SEGMENT_BYTES = int(20 * MEBI)
LARGEST_SHARED_BYTES = int(10 * MEBI)  # a larger request has a segment of its own
ROUND_BYTES = int(2 * MEBI)
NUM_STEPS = 3  # after which blocks lie as in every later step


@dataclass(slots=True, eq=False)
class _Block:
    size_bytes: int
    address: int
    is_free: bool = True
    before: _Block | None = None
    after: _Block | None = None


@dataclass(slots=True)
class CachingAllocator:
    """The state of the allocator on one device and one stream."""

    allocated_bytes: int = 0
    peak_bytes: int = 0
    reserved_bytes: int = 0
    _free: tuple[list[tuple[int, int]], list[tuple[int, int]]] = field(default_factory=lambda: ([], []))
    _blocks: dict[int, _Block] = field(default_factory=dict)  # free ones, by address

    def allocate(self, num_bytes: int) -> _Block:
        size_bytes = -(-max(num_bytes, 1) // BLOCK_BYTES) * BLOCK_BYTES
        is_small = size_bytes <= SMALL_BYTES
        pool = self._free[is_small]
        place = bisect_left(pool, (size_bytes, -1))
        if place < len(pool):
            block = self._blocks.pop(pool.pop(place)[1])
        else:
            block = self._segment(size_bytes, is_small)
        rest = block.size_bytes - size_bytes
        if rest >= BLOCK_BYTES if is_small else rest > SMALL_BYTES:
            left = _Block(size_bytes=rest, address=block.address + size_bytes, before=block, after=block.after)
            if block.after is not None:
                block.after.before = left
            block.after, block.size_bytes = left, size_bytes
            self._keep(left, is_small)
        block.is_free = False
        self.allocated_bytes += block.size_bytes
        self.peak_bytes = max(self.peak_bytes, self.allocated_bytes)
        return block

    def free(self, block: _Block, *, is_small: bool) -> None:
        self.allocated_bytes -= block.size_bytes
        block.is_free = True
        for other in (block.before, block.after):
            if other is not None and other.is_free:
                self._drop(other, is_small)
                block = _joined(block, other)
        self._keep(block, is_small)

    def _segment(self, size_bytes: int, is_small: bool) -> _Block:
        if is_small:
            whole = SMALL_SEGMENT_BYTES
        elif size_bytes < LARGEST_SHARED_BYTES:
            whole = LARGE_SEGMENT_BYTES
        else:
            whole = -(-size_bytes // ROUND_BYTES) * ROUND_BYTES
        block = _Block(size_bytes=whole, address=self.reserved_bytes)
        self.reserved_bytes += whole
        return block

    def _keep(self, block: _Block, is_small: bool) -> None:
        insort(self._free[is_small], (block.size_bytes, block.address))
        self._blocks[block.address] = block

    def _drop(self, block: _Block, is_small: bool) -> None:
        pool = self._free[is_small]
        del pool[bisect_left(pool, (block.size_bytes, block.address))]
        del self._blocks[block.address]


def _joined(block: _Block, other: _Block) -> _Block:
    first, second = (other, block) if other.address < block.address else (block, other)
    first.size_bytes += second.size_bytes
    first.after = second.after
    if first.after is not None:
        first.after.before = first
    return first


def allocator_after(state: Iterable[int], events: tuple[int, ...], num_steps: int = NUM_STEPS) -> CachingAllocator:
    """The allocator after some steps of `events` beside `state`; its peak is of the last of them.

    An event is the bytes of a new tensor, or -n where the n-th tensor of the step is freed. Tensors that outlive a step
    are freed before the next, as gradients are.
    """
    allocator = CachingAllocator()
    for num_bytes in state:
        if num_bytes > 0:
            allocator.allocate(num_bytes)
    for _ in range(num_steps):
        allocator.peak_bytes = allocator.allocated_bytes
        held: dict[int, tuple[_Block, bool]] = {}
        number = 0
        for event in events:
            if event < 0:
                if -event in held:
                    block, is_small = held.pop(-event)
                    allocator.free(block, is_small=is_small)
                continue
            number += 1
            if event:
                held[number] = allocator.allocate(event), event <= SMALL_BYTES
        for block, is_small in held.values():
            allocator.free(block, is_small=is_small)
    return allocator
