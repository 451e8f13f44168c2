"""Products by the names that tables, logs and clusters have for them."""

import pytest

from dovetail.comm.library.platforms import (
    ADA_PCIE,
    AMPERE,
    BLACKWELL,
    BLACKWELL_PCIE,
    HOPPER,
    MI300X,
    Platform,
    RingPlatform,
    platform_of,
)
from dovetail.errors import InvalidInput, NotModelled

PRODUCTS = (
    ("a100_sxm", AMPERE),
    ("NVIDIA A100-SXM4-80GB", AMPERE),
    ("h100_sxm", HOPPER),
    ("NVIDIA H100 80GB HBM3", HOPPER),
    ("NVIDIA H200", HOPPER),
    ("dgx-h100x16", HOPPER),
    ("b200_sxm", BLACKWELL),
    ("gb200-nvl72", BLACKWELL),
    ("NVIDIA GB300", BLACKWELL),
    ("b300_sxm", BLACKWELL),
    ("NVIDIA L40S", ADA_PCIE),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition", BLACKWELL_PCIE),
    ("mi300x-nodesx16", MI300X),
    ("AMD Instinct MI300X", MI300X),
)


@pytest.mark.parametrize(("product", "platform"), PRODUCTS)
def test_a_product_is_of_its_generation(product: str, platform: Platform | RingPlatform) -> None:
    assert platform_of(product) is platform


@pytest.mark.parametrize("product", ["", "v100", "NVIDIA H100 PCIe", "NVIDIA H100 NVL", "TPU v4", "h" * 1000])
def test_what_was_not_measured_is_refused_by_name(product: str) -> None:
    with pytest.raises(NotModelled) as caught:
        platform_of(product)
    assert product[:40] in caught.value.message


def test_a_platform_without_links_is_refused() -> None:
    from dataclasses import replace

    with pytest.raises(InvalidInput):
        replace(HOPPER, link_bytes_per_s=((2, 0.0),))
