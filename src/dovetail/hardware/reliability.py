"""How the devices of a cluster fail, and what its jobs do about it: restarts, checkpoints, slow devices."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from dovetail.errors import InvalidInput
from dovetail.units import MICRO, PETA

MIN_MTBF_S = MICRO  # style: a million devices that fail so often still leave quotients of times finite
MAX_TIME_S = PETA  # style: thirty million years, so that sums and products of times stay finite
MIN_SPEED_FRAC = 0.25  # a device that is slower still counts as failed; the bound of a cluster's own pace, too


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """`num_devices` devices, with all they hang on, stop the job they share once in `mtbf_s` on average.

    Failures are independent and do not age: twice the devices fail twice as often, and when the next one comes does
    not depend on the last. `source` says who counted.
    """

    mtbf_s: float
    num_devices: int = 1
    source: str = "given"

    def __post_init__(self) -> None:
        if not MIN_MTBF_S <= self.mtbf_s <= MAX_TIME_S:
            bounds = f"from {MIN_MTBF_S:g} s to {MAX_TIME_S:g} s"
            raise InvalidInput(f"mtbf must be {bounds}; got {self.mtbf_s:g} s", "mtbf_s")
        if self.num_devices < 1:
            raise InvalidInput(f"devices must be at least 1; got {self.num_devices}", "num_devices")

    def among_s(self, num_devices: int) -> float:
        """Mean time between failures of any of so many devices."""
        return self.mtbf_s * self.num_devices / num_devices


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedTime:
    """A transfer that takes as long as it was measured to, whatever the plan."""

    time_s: float

    def __post_init__(self) -> None:
        if not self.time_s >= 0:
            raise InvalidInput(f"a time must not be negative; got {self.time_s:g} s", "time_s")

    def transfer_s(self, whole_bytes: float, share_bytes: float) -> float:
        del whole_bytes, share_bytes
        return self.time_s


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedBandwidth:
    """What all devices of a job together write at, as to a file system."""

    bandwidth_bytes_per_s: float

    def __post_init__(self) -> None:
        _require_bandwidth(self.bandwidth_bytes_per_s)

    def transfer_s(self, whole_bytes: float, share_bytes: float) -> float:
        del share_bytes
        return whole_bytes / self.bandwidth_bytes_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceBandwidth:
    """What one device writes at, as to its host's memory."""

    bandwidth_bytes_per_s: float

    def __post_init__(self) -> None:
        _require_bandwidth(self.bandwidth_bytes_per_s)

    def transfer_s(self, whole_bytes: float, share_bytes: float) -> float:
        del whole_bytes
        return share_bytes / self.bandwidth_bytes_per_s


Transfer: TypeAlias = FixedTime | SharedBandwidth | DeviceBandwidth


def _require_bandwidth(bandwidth_bytes_per_s: float) -> None:
    if not bandwidth_bytes_per_s > 0:
        raise InvalidInput(f"bandwidth must be above 0; got {bandwidth_bytes_per_s:g} bytes/s", "bandwidth_bytes_per_s")


def slowest_s(transfers: tuple[Transfer, ...], whole_bytes: float, share_bytes: float) -> float:
    """A transfer that each of `transfers` bounds: of `whole_bytes` in all, `share_bytes` on the fullest device."""
    return max((one.transfer_s(whole_bytes, share_bytes) for one in transfers), default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BestInterval:
    """As often as loses least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedInterval:
    """After so much work; a job stops between steps only, so the nearest whole number of them."""

    interval_s: float

    def __post_init__(self) -> None:
        if not 0 < self.interval_s <= MAX_TIME_S:
            bounds = f"above 0 and at most {MAX_TIME_S:g} s"
            raise InvalidInput(f"interval must be {bounds}; got {self.interval_s:g} s", "interval")


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedInterval:
    """After so many steps."""

    num_steps: int

    def __post_init__(self) -> None:
        if self.num_steps < 1:
            raise InvalidInput(f"interval must be at least 1 step; got {self.num_steps}", "interval")


Interval: TypeAlias = BestInterval | TimedInterval | CountedInterval


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """How often state is saved, and what bounds the time of it.

    With `copies`, checkpoints are asynchronous: training waits for the copy off the device alone, and what `writes`
    bounds runs beside it. Without, training waits for all of it.
    """

    writes: tuple[Transfer, ...]
    copies: tuple[Transfer, ...] = ()
    interval: Interval = field(default_factory=BestInterval)

    def __post_init__(self) -> None:
        if not self.writes:
            raise InvalidInput("a checkpoint needs what it is written at: storage, device_storage or write", "writes")

    @property
    def is_asynchronous(self) -> bool:
        return bool(self.copies)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """How often devices turn slow, and how long each stays: a spare takes its place when it is found out."""

    onsets: Failures
    detect_s: float

    def __post_init__(self) -> None:
        if not self.detect_s >= 0:
            raise InvalidInput(f"detect must not be negative; got {self.detect_s:g} s", "detect_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowDevices:
    """`num_devices` devices that compute at `speed_frac` of the others' pace.

    Always, or where there is a `replacement` only from the time one turns slow until it is replaced.
    """

    speed_frac: float
    num_devices: int = 1
    replacement: Replacement | None = None  # none: it stays as it is

    def __post_init__(self) -> None:
        if not MIN_SPEED_FRAC <= self.speed_frac <= 1:
            is_slower = self.speed_frac < MIN_SPEED_FRAC
            way_out = "count a slower one among the failures" if is_slower else "1 is the pace of the others"
            rule = f"speed must be from {MIN_SPEED_FRAC:g} to 1; got {self.speed_frac:g}"
            raise InvalidInput(f"{rule}; {way_out}", "speed_frac")
        if self.num_devices < 1:
            raise InvalidInput(f"count must be at least 1; got {self.num_devices}", "num_devices")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """Failures of a cluster's devices, and how its jobs go on after one.

    `restart_s` is from the failure until the job runs again, beside reading the last checkpoint: finding out,
    replacing the device, starting all processes.
    """

    failures: Failures
    restart_s: float
    checkpoints: Checkpoints
    slow_devices: SlowDevices | None = None  # none: all are as fast as each other

    def __post_init__(self) -> None:
        if not self.restart_s >= 0:
            raise InvalidInput(f"restart must not be negative; got {self.restart_s:g} s", "restart_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class NotStated:
    """No failures are given, so none are predicted."""
