"""The host of a node: what its devices may offload to, over which link, and how fast its memory is."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.errors import InvalidInput
from dovetail.hardware.link import Link

COPY_FRAC = 0.87  # of the link: 55.2 GB/s down, 55.5 up of PCIe Gen5's 63, pinned 2 GiB copies measured on an H200


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Processors and memory that `num_devices` share evenly; datasheet figures, of which a copy reaches a part.

    `link` is one direction of what a device has to itself while all of them copy: a port that two share counts half.
    """

    num_devices: int
    link: Link
    memory_bytes: float
    memory_bytes_per_s: float  # reads and writes together

    def __post_init__(self) -> None:
        if self.num_devices < 1:
            raise InvalidInput(f"a host has at least 1 device; got {self.num_devices}", "num_devices")
        if not self.memory_bytes > 0:
            raise InvalidInput(f"host memory must be positive; got {self.memory_bytes:g} bytes", "memory_bytes")
        if not self.memory_bytes_per_s > 0:
            raise InvalidInput(
                f"host memory bandwidth must be positive; got {self.memory_bytes_per_s:g} bytes/s", "memory_bytes_per_s"
            )

    @property
    def share_bytes(self) -> float:
        """Memory of the host for each device."""
        return self.memory_bytes / self.num_devices

    @property
    def share_bytes_per_s(self) -> float:
        """Memory bandwidth of the host for each device while all of them use it."""
        return self.memory_bytes_per_s / self.num_devices

    @property
    def copied_bytes_per_s(self) -> float:
        """One direction of a device's pinned copies while all devices copy."""
        return min(COPY_FRAC * self.link.bandwidth_bytes_per_s, self.share_bytes_per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoHost:
    """A node whose host is not given: nothing can be offloaded to it."""
