from __future__ import annotations

import pytest

from dovetail.errors import InvalidInput
from dovetail.hardware.clusters import clusters
from dovetail.hardware.host import Host, NoHost
from dovetail.hardware.link import Link
from dovetail.units import GIGA, TERA

LINK = Link(bandwidth_bytes_per_s=32 * GIGA, latency_s=0.0)


def test_devices_share_their_host_evenly():
    host = Host(num_devices=8, link=LINK, memory_bytes=2 * TERA, memory_bytes_per_s=400 * GIGA)
    assert host.share_bytes == 250 * GIGA
    assert host.share_bytes_per_s == 50 * GIGA


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"num_devices": 0}, "a host has at least 1 device; got 0"),
        ({"memory_bytes": 0.0}, "host memory must be positive; got 0 bytes"),
        ({"memory_bytes_per_s": -1.0}, "host memory bandwidth must be positive; got -1 bytes/s"),
    ],
)
def test_a_host_that_cannot_be_is_refused(changes: dict[str, float], told: str):
    given = {"num_devices": 8, "link": LINK, "memory_bytes": TERA, "memory_bytes_per_s": GIGA} | changes
    with pytest.raises(InvalidInput, match=told):
        Host(**given)  # type: ignore[arg-type]


def test_two_devices_of_a_dgx_share_a_port_and_one_alone_has_it():
    def host(num_devices: int) -> Host:
        found = clusters["dgx-h100"].build(num_devices).host
        assert isinstance(found, Host)
        return found

    alone, pair, node, more = (host(n) for n in (1, 2, 8, 64))
    assert alone.link.bandwidth_bytes_per_s == 2 * pair.link.bandwidth_bytes_per_s
    assert node == more
    assert alone.share_bytes == 2 * pair.share_bytes == 8 * node.share_bytes


def test_clusters_of_whose_hosts_nothing_is_known_have_none():
    assert clusters["gaudi2-nodes"].build(64).host == NoHost()
