"""Laws of compute beside communication: nothing held is free, more is never faster, and the loss is bounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.accuracy.sets.contention import kernel_ops
from dovetail.hardware.catalog import chips
from dovetail.step.one_device.contention import OccupiedResources, beside, block_bytes_per_s

CHIP = chips["h200-sxm"]()
SIZES = st.integers(min_value=1, max_value=64).map(lambda n: 128 * n)
COUNTS = st.integers(min_value=0, max_value=120)
KINDS = st.sampled_from(("gelu", "add", "layernorm", "copy", "softmax", "cross_entropy", "embedding"))
NAMES = st.one_of(
    st.builds(lambda m, n, k: f"gemm{m}x{n}x{k}", SIZES, SIZES, SIZES),
    st.builds(lambda kind, m, n: f"{kind}{m}x{n}", KINDS, SIZES, SIZES),
    st.builds(lambda b, s: f"attention{b}x16x{s}x128", st.integers(1, 8), SIZES),
    st.builds(
        lambda c, hw, o, r: f"conv32x{c}x{hw}x{o}x{r}", SIZES, st.integers(7, 56), SIZES, st.sampled_from((1, 3))
    ),
    st.just("embedding_bag"),
)


def slowdown(name: str, num_blocks: int) -> float:
    ops = kernel_ops(name)
    assert ops is not None
    held = OccupiedResources(num_units=num_blocks, sram_bytes_per_s=block_bytes_per_s(num_blocks))
    return float(beside(ops, CHIP, held).compute_slowdown[0])


@given(NAMES)
def test_nothing_held_slows_nothing(name: str) -> None:
    assert slowdown(name, 0) == pytest.approx(1.0, rel=1e-9)


@given(NAMES, COUNTS, COUNTS)
def test_more_blocks_never_speed_compute_up(name: str, one: int, other: int) -> None:
    fewer, more = sorted((one, other))
    assert slowdown(name, more) >= slowdown(name, fewer) * (1 - 1e-9)


@given(NAMES, COUNTS)
def test_compute_is_never_faster_and_loses_no_more_than_units_and_two_waves(name: str, num_blocks: int) -> None:
    left = CHIP.tensor.num_units - num_blocks
    assert 1 <= slowdown(name, num_blocks) <= 4 * CHIP.tensor.num_units / (left - 8)
