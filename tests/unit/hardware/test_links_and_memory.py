from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.errors import InvalidInput
from dovetail.hardware.link import Link
from dovetail.hardware.memory import Memory

LINK = Link(bandwidth_bytes_per_s=4.0, latency_s=1.0)
MEMORY = Memory(capacity_bytes=16.0, bandwidth_bytes_per_s=4.0)


def test_a_transfer_takes_its_latency_and_its_bytes_over_the_bandwidth() -> None:
    assert LINK.transfer_s(8.0) == 3.0


def test_an_empty_message_takes_the_latency() -> None:
    assert LINK.transfer_s(0.0) == LINK.latency_s


@pytest.mark.parametrize("bandwidth_bytes_per_s", [0.0, -1.0, float("nan")])
def test_bandwidth_must_be_positive(bandwidth_bytes_per_s: float) -> None:
    shown = f"{bandwidth_bytes_per_s:g}"
    with pytest.raises(InvalidInput, match=f"link bandwidth must be positive; got {shown} bytes/s"):
        replace(LINK, bandwidth_bytes_per_s=bandwidth_bytes_per_s)
    with pytest.raises(InvalidInput, match=f"memory bandwidth must be positive; got {shown} bytes/s"):
        replace(MEMORY, bandwidth_bytes_per_s=bandwidth_bytes_per_s)


@pytest.mark.parametrize("capacity_bytes", [0.0, -1.0, float("nan")])
def test_a_memory_must_hold_something(capacity_bytes: float) -> None:
    with pytest.raises(InvalidInput, match=f"memory capacity must be positive; got {capacity_bytes:g} bytes"):
        replace(MEMORY, capacity_bytes=capacity_bytes)


def test_latency_may_be_nothing_but_not_negative() -> None:
    assert replace(LINK, latency_s=0.0).transfer_s(4.0) == 1.0
    with pytest.raises(InvalidInput, match="link latency must not be negative; got -1 s"):
        replace(LINK, latency_s=-1.0)
