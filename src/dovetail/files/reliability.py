"""How a cluster fails and how its jobs go on, as people write it."""

from __future__ import annotations

import re

from pydantic import Field

from dovetail.errors import DovetailError, InvalidInput
from dovetail.files.entry import Entry, followed, placed
from dovetail.files.schema import MAX_WHOLE, Number, Shape, Text, Whole, amount, checked
from dovetail.files.text import quoted
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.failures import failures
from dovetail.hardware.host import Host
from dovetail.hardware.reliability import (
    BestInterval,
    Checkpoints,
    CountedInterval,
    DeviceBandwidth,
    Failures,
    FixedTime,
    Interval,
    Reliability,
    Replacement,
    SharedBandwidth,
    SlowDevices,
    TimedInterval,
    Transfer,
)
from dovetail.units import quantity

_STEPS = re.compile(r"\s*([0-9]{1,10})\s*steps?\s*")
_KEYS = {"mtbf_s": "mtbf", "num_devices": "devices"}


class FailuresShape(Shape):
    """How often devices stop the job, as written."""

    mtbf: amount("s", "150 d")  # type: ignore[valid-type]
    devices: Whole = 1


class CheckpointShape(Shape):
    """What bounds a checkpoint, and how often there is one, as written."""

    storage: amount("bytes_per_s") | None = None  # type: ignore[valid-type]
    device_storage: amount("bytes_per_s") | None = None  # type: ignore[valid-type]
    write: amount("s", "60 s") | None = None  # type: ignore[valid-type]
    asynchronous: bool = False
    staging: amount("bytes_per_s") | None = None  # type: ignore[valid-type]
    copy_time: amount("s", "5 s") | None = Field(None, alias="copy")  # type: ignore[valid-type]
    interval: Text = "best"


class SlowShape(Shape):
    """Devices that are slower than the others, as written."""

    speed: Number
    count: Whole = 1
    onsets: object = None
    detect: amount("s", "2 h") | None = None  # type: ignore[valid-type]


class ReliabilityShape(Shape):
    """All of it, as written."""

    failures: object
    restart: amount("s", "10 min")  # type: ignore[valid-type]
    checkpoint: CheckpointShape
    slow_devices: SlowShape | None = None


def reliability_of(entry: Entry, cluster: Cluster) -> Reliability:
    """What `entry` says of how `cluster` fails."""
    shape: ReliabilityShape = checked(entry, ReliabilityShape)
    slow, place = shape.slow_devices, entry.child("slow_devices")
    return Reliability(
        failures=_failures(entry.child("failures")),
        restart_s=shape.restart,
        checkpoints=_checkpoints(shape.checkpoint, entry.child("checkpoint"), cluster),
        slow_devices=_slow_devices(slow, place) if slow else None,
    )


def _failures(entry: Entry) -> Failures:
    entry = followed(entry, "published count", failures)
    if isinstance(entry.value, str):
        return failures[entry.value]()
    shape: FailuresShape = checked(entry, FailuresShape)
    with placed(entry, _KEYS):
        return Failures(mtbf_s=shape.mtbf, num_devices=shape.devices, source=entry.document.source)


def _checkpoints(shape: CheckpointShape, entry: Entry, cluster: Cluster) -> Checkpoints:
    writes = _transfers(shape.storage, shape.device_storage, shape.write)
    if not writes:
        message = "checkpoint needs what it is written at: storage (of the whole job), device_storage (of one device)"
        raise entry.refused(f"{message} or write (its time)")
    return Checkpoints(writes=writes, copies=_copies(shape, entry, cluster), interval=_interval(shape.interval, entry))


def _transfers(shared: float | None, device: float | None, fixed: float | None) -> tuple[Transfer, ...]:
    """Every bound that is given."""
    found: list[Transfer] = [] if shared is None else [SharedBandwidth(bandwidth_bytes_per_s=shared)]
    found += [] if device is None else [DeviceBandwidth(bandwidth_bytes_per_s=device)]
    found += [] if fixed is None else [FixedTime(time_s=fixed)]
    return tuple(found)


def _copies(shape: CheckpointShape, entry: Entry, cluster: Cluster) -> tuple[Transfer, ...]:
    """What bounds the copy off the device where checkpoints are asynchronous: as given, or the link to the host."""
    given = _transfers(None, shape.staging, shape.copy_time)
    if given and not shape.asynchronous:
        key = "staging" if shape.staging is not None else "copy"
        raise entry.child(key).refused(f"{key} is of asynchronous checkpoints; set asynchronous: true, or remove it")
    if given or not shape.asynchronous:
        return given
    if not isinstance(cluster.host, Host):
        message = f"nothing is known of the hosts of {cluster.name}, which asynchronous checkpoints are copied to"
        raise entry.child("asynchronous").refused(
            f"{message}; give staging, as in '20 GB/s' a device, or copy, its time"
        )
    return (DeviceBandwidth(bandwidth_bytes_per_s=cluster.host.copied_bytes_per_s),)


def _interval(words: str, entry: Entry) -> Interval:
    if words.strip() == "best":
        return BestInterval()
    with placed(entry):
        if steps := _STEPS.fullmatch(words):
            return CountedInterval(num_steps=min(int(steps[1]), MAX_WHOLE))
        return TimedInterval(interval_s=_time_s(words))


def _time_s(words: str) -> float:
    try:
        return quantity(words, "s")
    except DovetailError:
        message = "interval must be best, a time such as '30 min', or a number of steps such as '500 steps'"
        raise InvalidInput(f"{message}; got {quoted(words)}", "interval") from None


def _slow_devices(shape: SlowShape, entry: Entry) -> SlowDevices:
    if (shape.onsets is None) != (shape.detect is None):
        given, missing = ("onsets", "detect") if shape.detect is None else ("detect", "onsets")
        raise entry.child(missing).refused(f"{missing} is missing, and {given} goes with it: devices that are replaced")
    replacement = None
    if shape.onsets is not None and shape.detect is not None:
        replacement = Replacement(onsets=_failures(entry.child("onsets")), detect_s=shape.detect)
    with placed(entry, {"speed_frac": "speed", "num_devices": "count"}):
        return SlowDevices(speed_frac=shape.speed, num_devices=shape.count, replacement=replacement)
