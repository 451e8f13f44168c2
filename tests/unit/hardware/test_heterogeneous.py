from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.errors import InvalidInput, NotModelled
from dovetail.hardware.clusters import clusters
from dovetail.hardware.heterogeneous import (
    HeterogeneousCluster,
    chip_names,
    chips_of,
    devices_label,
    equal_devices,
    pools_of,
)
from dovetail.hardware.link import Link
from dovetail.units import GIGA, MICRO

H100, A100 = clusters["dgx-h100"].build(16), clusters["dgx-a100"].build(8)
BETWEEN = Link(bandwidth_bytes_per_s=25 * GIGA, latency_s=5 * MICRO)
MIXED = HeterogeneousCluster(name="mixed", pools=(H100, A100), between=BETWEEN)


def test_devices_are_those_of_all_pools():
    assert MIXED.num_devices == 24
    assert pools_of(MIXED) == (H100, A100)
    assert pools_of(H100) == (H100,)


def test_chips_are_named_once_each_in_the_order_of_the_pools():
    more = replace(MIXED, pools=(*MIXED.pools, replace(H100, name="more")))
    assert [chip.name for chip in chips_of(more)] == ["h100-sxm", "a100-80gb-sxm"]
    assert chip_names(MIXED) == "h100-sxm and a100-80gb-sxm"
    assert devices_label(MIXED) == "16 x h100-sxm and 8 x a100-80gb-sxm"
    assert devices_label(H100) == "16 x h100-sxm"


def test_one_pool_is_refused():
    with pytest.raises(InvalidInput, match="at least 2; got 1"):
        replace(MIXED, pools=(H100,))


def test_pools_of_one_name_are_refused_with_the_way_out():
    with pytest.raises(InvalidInput, match=r"must differ; got dgx-h100, dgx-h100; give one another"):
        replace(MIXED, pools=(H100, H100))


def test_two_pools_are_joined_by_what_a_device_sends():
    [span] = MIXED.group_between
    assert span.num_ranks == 2
    assert span.dimension.link == BETWEEN


def test_the_library_of_all_pools_sends_between_them_and_none_where_they_differ():
    [span] = replace(MIXED, pools=(H100, replace(H100, name="more"))).group_between
    assert (span.dimension.library, span.dimension.is_network) == ("nccl-h100", True)
    [span] = MIXED.group_between
    assert (span.dimension.library, span.dimension.is_network) == ("", False)


def test_what_is_for_equal_devices_says_so():
    assert equal_devices(H100, "calibration") is H100
    with pytest.raises(NotModelled, match="calibration is not modelled"):
        equal_devices(MIXED, "calibration")
