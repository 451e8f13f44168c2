"""One direction of one channel between two devices."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What one device can send, in one direction, over one network dimension."""

    bandwidth_bytes_per_s: float
    latency_s: float

    def __post_init__(self) -> None:
        if not self.bandwidth_bytes_per_s > 0:
            raise InvalidInput(
                f"link bandwidth must be positive; got {self.bandwidth_bytes_per_s:g} bytes/s", "bandwidth"
            )
        if not self.latency_s >= 0:
            raise InvalidInput(f"link latency must not be negative; got {self.latency_s:g} s", "latency")

    def transfer_s(self, message_bytes: float) -> float:
        return self.latency_s + message_bytes / self.bandwidth_bytes_per_s
