"""PyTorch's caching allocator: rounding, segments, what is left of blocks, and reuse."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dovetail.step.allocator import BLOCK_BYTES, CachingAllocator, allocator_after

MIB = 2**20


def test_a_small_request_takes_whole_blocks_of_a_segment_of_2_mib() -> None:
    allocator = CachingAllocator()
    allocator.allocate(1)
    allocator.allocate(513)
    assert allocator.allocated_bytes == 512 + 1024
    assert allocator.reserved_bytes == 2 * MIB


def test_a_request_up_to_10_mib_is_cut_from_a_segment_of_20() -> None:
    allocator = CachingAllocator()
    for _ in range(3):
        allocator.allocate(6 * MIB)
    assert allocator.reserved_bytes == 20 * MIB
    assert allocator.allocated_bytes == 18 * MIB
    allocator.allocate(3 * MIB)  # 2 MiB are left
    assert allocator.reserved_bytes == 40 * MIB


def test_what_is_left_of_a_large_block_stays_with_it_up_to_1_mib() -> None:
    allocator = CachingAllocator()
    allocator.allocate(19 * MIB + BLOCK_BYTES)  # of 20, rounded to whole 2 MiB
    assert allocator.allocated_bytes == allocator.reserved_bytes == 20 * MIB
    other = CachingAllocator()
    other.allocate(19 * MIB - BLOCK_BYTES)
    assert other.allocated_bytes == 19 * MIB - BLOCK_BYTES


def test_the_smallest_block_that_is_large_enough_is_taken_again() -> None:
    allocator = CachingAllocator()
    small, large = allocator.allocate(30 * MIB), allocator.allocate(50 * MIB)
    allocator.free(large, is_small=False)
    allocator.free(small, is_small=False)
    assert allocator.allocate(30 * MIB).address == small.address
    assert allocator.reserved_bytes == 80 * MIB


def test_freed_neighbours_become_one_block() -> None:
    allocator = CachingAllocator()
    blocks = [allocator.allocate(8 * MIB), allocator.allocate(8 * MIB)]
    for block in blocks:
        allocator.free(block, is_small=False)
    big = allocator.allocate(9 * MIB)  # neither of the two alone would do
    assert allocator.reserved_bytes == 20 * MIB
    assert big.address == 0


def test_the_peak_is_of_a_step_that_others_went_before() -> None:
    """What the first step leaves free is taken again, and nothing more is reserved."""
    events = (30 * MIB, 40 * MIB, -1, 25 * MIB, -2, -3)
    once, often = (allocator_after((8 * MIB,), events, num_steps) for num_steps in (1, 5))
    assert once.peak_bytes == 8 * MIB + 70 * MIB
    assert often.reserved_bytes <= once.reserved_bytes + 40 * MIB
    assert often.allocated_bytes == 8 * MIB


@given(st.lists(st.integers(1, 64 * MIB), min_size=1, max_size=30), st.randoms())
def test_nothing_is_lost_and_no_less_is_reserved_than_handed_out(sizes: list[int], random: object) -> None:
    allocator = CachingAllocator()
    held = []
    for size in sizes:
        held.append((allocator.allocate(size), size <= MIB))
        assert allocator.reserved_bytes >= allocator.allocated_bytes >= sum(block.size_bytes for block, _ in held)
        if len(held) > 3:
            block, is_small = held.pop(random.randrange(len(held)))  # type: ignore[attr-defined]
            allocator.free(block, is_small=is_small)
    for block, is_small in held:
        allocator.free(block, is_small=is_small)
    assert allocator.allocated_bytes == 0
    assert allocator.peak_bytes <= allocator.reserved_bytes
