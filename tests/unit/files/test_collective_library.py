"""A cluster file with a collective library of its own: its constants are those of the cluster's own links."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dovetail.comm.library.on_group import LIBRARIES, constants_on, library_s
from dovetail.comm.library.platforms import HOPPER, Platform
from dovetail.comm.library.timing import library_times
from dovetail.errors import InvalidInput
from dovetail.files.cluster import load_cluster
from dovetail.files.collective_library import KEYS, WORDS, collectives_text
from dovetail.hardware.topology import Group, Span
from dovetail.units import GIGA, MICRO

CONSTANTS = (
    ("base_s", 0, 9 * MICRO), ("hop_s", 0, 2 * MICRO), ("link_bytes_per_s", 2, 100 * GIGA),
    ("link_bytes_per_s", 8, 50 * GIGA), ("tuner_bytes_per_s", 0, 90 * GIGA), ("ll_frac", 0, 0.5),
    ("step_s", 0, 30 * MICRO), ("nic_frac", 0, 0.8),
)  # fmt: skip


def written(folder: Path, text: str) -> str:
    file = folder / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    return str(file)


def whole(name: str) -> Group:
    return tuple(Span(dimension=one, num_ranks=one.num_devices) for one in load_cluster(name).topology.dimensions)


def test_what_is_written_is_read_back_as_the_constants_of_the_clusters_links(tmp_path):
    lines = ["base: dgx-h100", "devices: 16", *collectives_text("nccl-h100", "mine", CONSTANTS, "a log")]
    group = whole(written(tmp_path, "\n".join(lines)))
    platform, network = constants_on(group)
    assert isinstance(platform, Platform)
    assert platform.base_s == pytest.approx(9 * MICRO)
    assert platform.hop_s == pytest.approx(2 * MICRO)
    assert dict(platform.link_bytes_per_s) == pytest.approx({2: 100 * GIGA, 8: 50 * GIGA})
    assert platform.tuner_bytes_per_s == pytest.approx(90 * GIGA)
    assert platform.protocols.ll_frac == pytest.approx(0.5)
    assert network.step_s == pytest.approx(30 * MICRO)  # though InfiniBand's latency is not that of EFA
    assert network.nic_frac == pytest.approx(0.8)
    others, _ = constants_on(whole("dgx-h100x16"))
    assert isinstance(others, Platform)
    assert platform.protocols.simple_s == others.protocols.simple_s  # what is not written stays the library's


def test_slower_links_slow_fitted_constants_down(tmp_path):
    lines = ["base: dgx-h100", "devices: 8", *collectives_text("nccl-h100", "mine", CONSTANTS[:4], "a log")]
    group = whole(written(tmp_path, "\n".join(lines)))
    link = group[0].dimension.link
    halved = replace(link, bandwidth_bytes_per_s=link.bandwidth_bytes_per_s / 2, latency_s=2 * link.latency_s)
    slow = (replace(group[0], dimension=replace(group[0].dimension, link=halved)),)
    sizes = 2.0 ** np.arange(9, 30)
    assert library_s("all-gather", sizes, slow, "least") == pytest.approx(
        2 * library_s("all-gather", sizes, group, "least"), rel=1e-9
    )


def test_a_cluster_of_one_dimension_without_a_library_is_given_one(tmp_path):
    text = (
        "chip: h100-sxm\n"
        "topology: [{name: nvlink, kind: switch, devices: 8, bandwidth: 450 GB/s, latency: 1.9 us}]\n"
        "collectives: {library: nccl-h100, base_latency: 8 us, fitted_on: mine}\n"
    )
    cluster = load_cluster(written(tmp_path, text))
    group = tuple(Span(dimension=one, num_ranks=one.num_devices) for one in cluster.topology.dimensions)
    slow = library_times(replace(HOPPER, base_s=8 * MICRO), "all-gather", 8, 4096.0).seconds[0]
    assert library_s("all-gather", 4096.0, group) == pytest.approx(slow)
    assert ("collectives", "mine (given in mine.yaml)") in cluster.sources


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("base: dgx-h100\ncollectives: {library: nccl}\n", "library must be one of"),
        ("base: dgx-h100\ncollectives: {base_latency: 8 us}\n", "library"),
        ("base: dgx-h100\ncollectives: {library: nccl-h100, latency: 8 us}\n", "latency"),
        ("base: dgx-h100\ncollectives: {library: nccl-h100, base_latency: 8}\n", "base_latency"),
        ("base: h100-pcie-nodes\ncollectives: {library: nccl-l40s}\n", "dimensions without a library"),
        ("base: mi300x-nodes\ncollectives: {library: rccl-mi300x, ll_frac: 0.5}\n", "named 'll_frac'"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line(tmp_path, text, words):
    with pytest.raises(InvalidInput) as caught:
        load_cluster(written(tmp_path, text))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_constant_has_a_key_and_words():
    assert set(WORDS) == {*KEYS, "link_bytes_per_s"}
    library = LIBRARIES["nccl-h100"]
    for name in KEYS:
        assert library.with_constants(((name, 0, 1.0),)) != library
