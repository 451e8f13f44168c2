"""A cluster is written out as its chip and its dimensions, and any can be given a host."""

from __future__ import annotations

import pytest

from dovetail.errors import InvalidInput
from dovetail.files.job import load_spec
from dovetail.hardware.heterogeneous import equal_devices
from dovetail.hardware.host import Host
from dovetail.hardware.link import Link
from dovetail.units import GIGA, MICRO, TERA

NETWORK = "topology: [{name: a, kind: switch, devices: 8, bandwidth: 400 Gb/s, latency: 2 us, oversubscription: 2}]"


def test_a_cluster_written_out_is_its_chip_and_its_dimensions(write):
    spec = f"workload: llama3-8b\ncluster: {{name: mine, chip: h100-sxm, {NETWORK}}}\nplan: zero1\n"
    cluster = equal_devices(load_spec(write(spec)).cluster, "this test")
    [dimension] = cluster.topology.dimensions
    assert (cluster.name, cluster.chip.name, cluster.num_devices) == ("mine", "h100-sxm", 8)
    assert (dimension.kind, dimension.oversubscription) == ("switch", 2)
    assert (dimension.link.bandwidth_bytes_per_s, dimension.link.latency_s) == (50 * GIGA, 2 * MICRO)
    assert dict(cluster.sources)["a.bandwidth"] == "given in spec.yaml"


HOST = "host: {devices: 4, link: 25 GB/s, latency: 10 us, memory: 1 TB, memory_bandwidth: 400 GB/s}"


@pytest.mark.parametrize(
    "cluster",
    [
        f"{{name: mine, chip: h100-sxm, {NETWORK}, {HOST}}}",
        f"{{name: llama3-grandteton, devices: 8, {HOST}}}",
        f"{{name: dgx-h100, devices: 8, {HOST}}}",
        f"{{base: dgx-h100, devices: 8, calibration: {{compute: 0.9}}, {HOST}}}",
    ],
)
def test_a_host_can_be_given_to_any_cluster(write, cluster):
    spec = f"workload: llama3-8b\ncluster: {cluster}\nplan: zero1\n"
    found = equal_devices(load_spec(write(spec)).cluster, "this test")
    assert found.host == Host(
        num_devices=4,
        link=Link(bandwidth_bytes_per_s=25 * GIGA, latency_s=10 * MICRO),
        memory_bytes=TERA,
        memory_bytes_per_s=400 * GIGA,
    )
    sources = [source for figure, source in found.sources if figure == "host.link"]
    assert sources == ["given in spec.yaml"]


@pytest.mark.parametrize(
    ("host", "message"),
    [
        ("{devices: 8, link: 25 GB/s, memory: 1 TB}", "memory_bandwidth is missing"),
        ("{devices: 0, link: 25 GB/s, memory: 1 TB, memory_bandwidth: 1 GB/s}", "a host has at least 1 device; got 0"),
        ("{devices: 8, link: 25, memory: 1 TB, memory_bandwidth: 1 GB/s}", "a quantity needs its unit"),
        ("{devics: 8, link: 25 GB/s, memory: 1 TB, memory_bandwidth: 1 GB/s}", "no key of host is named 'devics'"),
    ],
)
def test_a_wrong_host_is_refused_in_the_words_of_the_file(write, host, message):
    spec = f"workload: llama3-8b\ncluster: {{name: dgx-h100, devices: 8, host: {host}}}\nplan: zero1\n"
    with pytest.raises(InvalidInput) as refused:
        load_spec(write(spec))
    assert message in refused.value.message
    assert refused.value.where.startswith("spec.yaml:2: cluster.host")
