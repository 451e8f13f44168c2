"""What a spec says of failures: names, quantities, intervals, and the line that a mistake is told in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dovetail.files.job import load_spec
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.failures import failures
from dovetail.hardware.host import COPY_FRAC, Host
from dovetail.hardware.reliability import (
    BestInterval,
    CountedInterval,
    DeviceBandwidth,
    Failures,
    FixedTime,
    NotStated,
    Reliability,
    SharedBandwidth,
    TimedInterval,
)
from dovetail.units import GIGA, SECONDS_PER_DAY, TERA
from tests.unit.files.conftest import PLAN, WORKLOAD

CHECKPOINT = "{storage: 2 TB/s}"


def cluster_in(write: Callable[..., Path], written: str) -> Cluster:
    found = load_spec(write(f"{WORKLOAD}cluster: {written}\n{PLAN}")).cluster
    assert isinstance(found, Cluster)
    return found


@pytest.fixture
def read(write) -> Callable[..., Reliability]:
    """The reliability that keys of it come to, in a cluster of the catalogue."""

    def reliability(cluster: str = "name: dgx-h100, devices: 64", **keys: str) -> Reliability:
        good = {"failures": "llama3-405b", "restart": "10 min", "checkpoint": CHECKPOINT} | keys
        written = ", ".join(f"{key}: {value}" for key, value in good.items())
        found = cluster_in(write, f"{{{cluster}, reliability: {{{written}}}}}").reliability
        assert isinstance(found, Reliability)
        return found

    return reliability


def test_nothing_written_is_nothing_stated(write):
    assert cluster_in(write, "{name: dgx-h100, devices: 64}").reliability == NotStated()


def test_a_published_count_is_named_and_another_is_written(read):
    assert read().failures == failures["llama3-405b"]()
    assert read(failures="{mtbf: 100 d, devices: 8}").failures == Failures(
        mtbf_s=100 * SECONDS_PER_DAY, num_devices=8, source="given in spec.yaml"
    )


def test_failures_may_be_in_a_file_of_their_own(read, write):
    write("{mtbf: 2 h, devices: 1024}", "ours.yaml")
    assert read(failures="ours.yaml").failures.among_s(2048) == 3600.0


@pytest.mark.parametrize(
    ("words", "interval"),
    [
        ("best", BestInterval()),
        ("30 min", TimedInterval(interval_s=1800.0)),
        ("500 steps", CountedInterval(num_steps=500)),
        ("1 step", CountedInterval(num_steps=1)),
    ],
)
def test_an_interval_is_best_a_time_or_steps(read, words, interval):
    assert read(checkpoint=f"{{write: 60 s, interval: {words}}}").checkpoints.interval == interval


def test_every_bound_of_a_checkpoint_is_kept(read):
    found = read(checkpoint="{storage: 2 TB/s, device_storage: 1 GB/s, write: 9 s}").checkpoints
    assert found.writes == (
        SharedBandwidth(bandwidth_bytes_per_s=2 * TERA),
        DeviceBandwidth(bandwidth_bytes_per_s=1 * GIGA),
        FixedTime(time_s=9.0),
    )
    assert not found.is_asynchronous


def test_asynchronous_checkpoints_are_copied_at_what_is_given_or_over_the_hosts_link(read, write):
    given = read(checkpoint="{storage: 2 TB/s, asynchronous: true, staging: 20 GB/s, copy: 1 s}").checkpoints.copies
    assert given == (DeviceBandwidth(bandwidth_bytes_per_s=20 * GIGA), FixedTime(time_s=1.0))
    implied = read(checkpoint="{storage: 2 TB/s, asynchronous: true}").checkpoints.copies
    host = cluster_in(write, "{name: dgx-h100, devices: 64}").host
    assert isinstance(host, Host)
    assert implied == (DeviceBandwidth(bandwidth_bytes_per_s=COPY_FRAC * host.link.bandwidth_bytes_per_s),)
    assert COPY_FRAC * host.link.bandwidth_bytes_per_s < host.share_bytes_per_s


def test_slow_devices_stay_or_are_replaced(read):
    stays = read(slow_devices="{speed: 0.8, count: 2}").slow_devices
    assert stays is not None
    assert (stays.speed_frac, stays.num_devices, stays.replacement) == (0.8, 2, None)
    replaced = read(slow_devices="{speed: 0.8, onsets: {mtbf: 1000 d}, detect: 2 h}").slow_devices
    assert replaced is not None
    assert replaced.replacement is not None
    assert replaced.replacement.detect_s == 7200.0
    assert replaced.replacement.onsets.among_s(10) == 100 * SECONDS_PER_DAY


def test_onsets_are_named_or_in_a_file_as_failures_are(read, write):
    write("{mtbf: 2 h, devices: 1024}", "ours.yaml")
    for written, onsets in (("opt-175b", failures["opt-175b"]().mtbf_s), ("ours.yaml", 7200.0)):
        slow = read(slow_devices=f"{{speed: 0.8, onsets: {written}, detect: 2 h}}").slow_devices
        assert slow is not None
        assert slow.replacement is not None
        assert slow.replacement.onsets.mtbf_s == onsets


@pytest.mark.parametrize("cluster", ["base: {name: dgx-h100, devices: 64}", "base: dgx-h100, devices: 64"])
def test_a_base_may_be_given_failures_alone(read, cluster):
    assert read(cluster=cluster).restart_s == 600.0


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ("failures: opt-175", "no count of failures is named 'opt-175'; did you mean opt-175b?"),
        ("failures: {mtbf: 150}", "a quantity needs its unit, as in '150 d'; got 150"),
        ("failures: []", "failures must be a published count's name, a file or a mapping; got a list of 0"),
        ("failures: {mtbf: 0 s}", "got 0 s (spec.yaml:2: cluster.reliability.failures.mtbf)"),
        ("failures: {mtbf: 1 d, devices: 0}", "devices must be at least 1; got 0"),
        ("restart: 5", "a quantity needs its unit"),
        ("checkpoint: {}", "checkpoint needs what it is written at: storage (of the whole job), device_storage"),
        ("checkpoint: {wrte: 1 s}", "no key of checkpoint is named 'wrte'; did you mean write?"),
        (
            "checkpoint: {write: 1 s, interval: fast}",
            "interval must be best, a time such as '30 min', or a number of steps such as '500 steps'; got 'fast'",
        ),
        ("checkpoint: {write: 1 s, interval: 0 steps}", "interval must be at least 1 step; got 0"),
        ("checkpoint: {write: 1 s, copy: 1 s}", "copy is of asynchronous checkpoints; set asynchronous: true"),
        ("checkpoint: {write: 1 s, staging: 1 GB/s}", "staging is of asynchronous checkpoints"),
        ("slow_devices: {speed: 0.1}", "speed must be from 0.25 to 1; got 0.1; count a slower one among the failures"),
        ("slow_devices: {speed: 1.5}", "speed must be from 0.25 to 1; got 1.5; 1 is the pace of the others"),
        (
            "slow_devices: {speed: 0.8, count: 999}",
            "count must be at most the 64 devices of dgx-h100; got 999; count fewer, or take more devices"
            " (spec.yaml:2: cluster.reliability.slow_devices.count)",
        ),
        ("slow_devices: {speed: 0.9, onsets: 5, detect: 1 h}", "onsets must be a published count's name"),
        ("slow_devices: {speed: 0.9, count: 0}", "count must be at least 1; got 0"),
        ("slow_devices: {speed: 0.9, detect: 1 h}", "onsets is missing, and detect goes with it"),
        ("slow_devices: {speed: 0.9, onsets: {mtbf: 9 d}}", "detect is missing, and onsets goes with it"),
    ],
)
def test_a_mistake_is_told_in_one_line(refusal, keys, line):
    good = {"failures": "llama3-405b", "restart": "10 min", "checkpoint": CHECKPOINT}
    key, _, value = keys.partition(": ")
    written = ", ".join(f"{name}: {words}" for name, words in (good | {key: value}).items())
    told = refusal(cluster=f"{{name: dgx-h100, devices: 64, reliability: {{{written}}}}}")
    assert line in told
    assert "cluster.reliability." in told


def test_hosts_that_nothing_is_known_of_need_a_staging_bandwidth(refusal):
    checkpoint = "{storage: 2 TB/s, asynchronous: true}"
    keys = f"failures: llama3-405b, restart: 10 min, checkpoint: {checkpoint}"
    told = refusal(cluster=f"{{name: gaudi2-nodes, devices: 64, reliability: {{{keys}}}}}")
    assert "nothing is known of the hosts of gaudi2-nodes" in told
    assert "give staging, as in '20 GB/s' a device, or copy" in told
