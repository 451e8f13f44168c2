"""Failures and transfers as values: rates scale with devices, the slowest bound counts, nonsense is refused."""

from __future__ import annotations

import pytest

from dovetail.errors import InvalidInput
from dovetail.hardware.reliability import (
    Checkpoints,
    CountedInterval,
    DeviceBandwidth,
    Failures,
    FixedTime,
    Reliability,
    Replacement,
    SharedBandwidth,
    SlowDevices,
    TimedInterval,
    slowest_s,
)

OFTEN = Failures(mtbf_s=800.0, num_devices=8)
CHECKPOINTS = Checkpoints(writes=(FixedTime(time_s=1.0),))


def test_twice_the_devices_fail_twice_as_often():
    assert [OFTEN.among_s(devices) for devices in (8, 16, 1)] == [800.0, 400.0, 6400.0]


def test_a_transfer_takes_what_its_slowest_bound_says():
    bounds = (
        SharedBandwidth(bandwidth_bytes_per_s=10.0),
        DeviceBandwidth(bandwidth_bytes_per_s=2.0),
        FixedTime(time_s=3.0),
    )
    assert slowest_s(bounds, whole_bytes=100.0, share_bytes=8.0) == 10.0
    assert slowest_s(bounds, whole_bytes=20.0, share_bytes=8.0) == 4.0
    assert slowest_s(bounds, whole_bytes=20.0, share_bytes=2.0) == 3.0
    assert slowest_s((), whole_bytes=20.0, share_bytes=2.0) == 0.0


def test_checkpoints_with_a_copy_are_asynchronous():
    assert not CHECKPOINTS.is_asynchronous
    assert Checkpoints(writes=CHECKPOINTS.writes, copies=(FixedTime(time_s=0.0),)).is_asynchronous


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Failures(mtbf_s=0.0), "mtbf must be from 1e-06 s to 1e+15 s; got 0 s"),
        (lambda: Failures(mtbf_s=1e16), "mtbf must be from 1e-06 s to 1e+15 s; got 1e+16 s"),
        (lambda: TimedInterval(interval_s=1e16), "interval must be above 0 and at most 1e+15 s"),
        (lambda: Failures(mtbf_s=1.0, num_devices=0), "devices must be at least 1; got 0"),
        (lambda: FixedTime(time_s=-1.0), "a time must not be negative; got -1 s"),
        (lambda: SharedBandwidth(bandwidth_bytes_per_s=0.0), "bandwidth must be above 0"),
        (lambda: DeviceBandwidth(bandwidth_bytes_per_s=-1.0), "bandwidth must be above 0"),
        (lambda: TimedInterval(interval_s=0.0), "interval must be above 0"),
        (lambda: CountedInterval(num_steps=0), "interval must be at least 1 step; got 0"),
        (lambda: Checkpoints(writes=()), "a checkpoint needs what it is written at"),
        (lambda: Replacement(onsets=OFTEN, detect_s=-1.0), "detect must not be negative"),
        (lambda: SlowDevices(speed_frac=1.1), "speed must be from 0.25 to 1; got 1.1; 1 is the pace of the others"),
        (lambda: SlowDevices(speed_frac=0.2), "speed must be from 0.25 to 1; got 0.2; count a slower one among"),
        (lambda: SlowDevices(speed_frac=0.8, num_devices=0), "count must be at least 1; got 0"),
        (lambda: Reliability(failures=OFTEN, restart_s=-1.0, checkpoints=CHECKPOINTS), "restart must not be negative"),
    ],
)
def test_what_cannot_be_is_refused(build, words):
    with pytest.raises(InvalidInput) as error:
        build()
    assert words in str(error.value)
