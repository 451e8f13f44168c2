from __future__ import annotations

import pytest

from dovetail.errors import InvalidInput
from dovetail.hardware.clusters import clusters
from dovetail.hardware.clusters._dgx import three_tier_ports
from dovetail.hardware.clusters._nodes import filled, fills
from dovetail.hardware.clusters._torus import cube_shapes, shape_of, torus
from dovetail.hardware.link import Link
from dovetail.hardware.topology import Dimension, Topology
from dovetail.units import GIGA

LINK = Link(bandwidth_bytes_per_s=4.0, latency_s=1.0)
PAIR = Dimension(name="pair", kind="switch", num_devices=2, link=LINK)
BOARD = Dimension(name="board", kind="switch", num_devices=4, link=LINK)
NETWORK = Dimension(name="network", kind="fat-tree", num_devices=10, link=LINK)
FAMILY = (PAIR, BOARD, NETWORK)


def sides(topology: Topology) -> list[tuple[str, int, float]]:
    return [(d.kind, d.num_devices, d.link.bandwidth_bytes_per_s) for d in topology.dimensions]


@pytest.mark.parametrize(
    ("num_devices", "extents"), [(1, [1]), (2, [2]), (4, [2, 2]), (8, [2, 4]), (16, [2, 4, 2]), (80, [2, 4, 10])]
)
def test_devices_fill_a_family_from_the_inside_out(num_devices: int, extents: list[int]) -> None:
    assert [d.num_devices for d in filled("toy", num_devices, FAMILY).dimensions] == extents


@pytest.mark.parametrize("num_devices", [3, 5, 10, 12, 79])
def test_nodes_filled_in_part_are_refused_beside_others(num_devices: int) -> None:
    assert not fills(num_devices, FAMILY)
    with pytest.raises(InvalidInput, match=f"got {num_devices} devices; try"):
        filled("toy", num_devices, FAMILY)


def test_a_refusal_names_the_nearest_counts_that_build() -> None:
    with pytest.raises(InvalidInput, match="got 12 devices; try 8 or 16"):
        filled("toy", 12, FAMILY)


def test_a_three_tier_tree_of_forty_port_switches_has_sixteen_thousand_ports() -> None:
    assert three_tier_ports(40) == 16_000


def test_boxes_of_cubes_are_listed_shortest_side_first_within_the_limits() -> None:
    assert cube_shapes(4, (2, 1, 2)) == ((4, 4, 4), (4, 4, 8), (4, 8, 8))


def test_of_several_shapes_the_one_nearest_to_a_cube_is_taken() -> None:
    assert shape_of("toy", 64, ((1, 64), (4, 16), (8, 8))) == (8, 8)


def test_a_side_that_wraps_sends_both_ways_round() -> None:
    assert sides(torus((4, 8), 5.0, 1.0, wraps=lambda side: side == 8)) == [
        ("mesh", 4, 10.0),
        ("bidirectional-ring", 8, 10.0),
    ]


def test_two_chips_on_a_line_have_one_link() -> None:
    assert sides(torus((1, 2), 5.0, 1.0, wraps=lambda _: False)) == [("mesh", 2, 5.0)]


@pytest.mark.parametrize(
    ("name", "num_devices", "extents"),
    [
        ("tpu-v4-pod", 3072, [12, 16, 16]),  # half of PaLM (Chowdhery et al. 2022 used two such slices)
        ("tpu-v5p-pod", 6144, [16, 16, 24]),  # the largest job, Cloud TPU v5p documentation
        ("tpu-v5p-pod", 8960, [16, 20, 28]),
        ("tpu-v7-pod", 64, [4, 4, 4]),
        ("tpu-v7-pod", 9216, [16, 16, 36]),
        ("tpu-v5e-pod", 128, [8, 16]),
        ("tpu-v3-pod", 512, [16, 32]),
        ("trn2-ultraserver", 128, [4, 4, 4, 2]),
        ("llama3-grandteton", 16384, [8, 256, 8]),
        ("llama3-grandteton", 3072, [8, 384]),
        ("selene", 4480, [8, 560]),
    ],
)
def test_published_sizes_have_their_published_shapes(name: str, num_devices: int, extents: list[int]) -> None:
    cluster = clusters[name].build(num_devices)
    assert [dimension.num_devices for dimension in cluster.topology.dimensions] == extents


def test_small_tpu_slices_are_lines_and_cubes_are_rings() -> None:
    build = clusters["tpu-v4-pod"].build
    assert {d.kind for d in build(32).topology.dimensions} == {"mesh"}
    assert {d.kind for d in build(64).topology.dimensions} == {"bidirectional-ring"}


def test_a_box_filled_in_part_uses_only_the_links_to_its_neighbours() -> None:
    build = clusters["gaudi2-nodes"].build
    assert build(2).topology.dimensions[0].link.bandwidth_bytes_per_s == pytest.approx(37.5 * GIGA)
    assert build(8).topology.dimensions[0].link.bandwidth_bytes_per_s == pytest.approx(262.5 * GIGA)


@pytest.mark.parametrize(
    ("num_devices", "injection_bytes_per_s"),
    [(16, 400 * GIGA), (32, 283.3 * GIGA), (64, 300 * GIGA), (128, 264.3 * GIGA)],
)
def test_the_ace_tori_inject_at_the_rates_of_the_paper(num_devices: int, injection_bytes_per_s: float) -> None:
    """Hierarchical all-reduce: bytes sent per payload byte over the time of the slowest dimension."""
    local, vertical, horizontal = clusters["ace-torus"].build(num_devices).topology.dimensions
    size = local.num_devices
    sent = [
        2 * (size - 1) / size,
        2 * (vertical.num_devices - 1) / (vertical.num_devices * size),
        2 * (horizontal.num_devices - 1) / (horizontal.num_devices * size),
    ]
    links = [dimension.link.bandwidth_bytes_per_s for dimension in (local, vertical, horizontal)]
    slowest_s = max(share / speed for share, speed in zip(sent, links, strict=True))
    assert sum(sent) / slowest_s == pytest.approx(injection_bytes_per_s, rel=1e-3)
