"""NVIDIA A100 SXM4 40 GB: the 80 GB part with half the memory and slower stacks."""

from __future__ import annotations

from dataclasses import replace

from dovetail.hardware.catalog import a100_80gb_sxm as a100
from dovetail.hardware.catalog import chips, device_names
from dovetail.hardware.catalog._nvidia import A100_DATASHEET
from dovetail.hardware.chip import Chip
from dovetail.hardware.memory import Memory
from dovetail.units import GIBI, TERA

OWN_SOURCES = {
    "hbm.bandwidth_bytes_per_s": f"{A100_DATASHEET}: 1555 GB/s, 40 GB part",
    "hbm_visible_frac": "CUDA deviceQuery of an A100-SXM4-40GB: 42,298,834,944 bytes (bottlerocket, pull request 3873)",
}
SOURCES = tuple((field, OWN_SOURCES.get(field, source)) for field, source in a100.SOURCES)


@chips.register("a100-40gb-sxm")
@device_names("NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB")
def a100_40gb_sxm() -> Chip:
    """The first A100, of the original DGX A100 and of the cloud instances of 2020."""
    return replace(
        a100.a100_80gb_sxm(),
        name="a100-40gb-sxm",
        hbm=Memory(capacity_bytes=40 * GIBI, bandwidth_bytes_per_s=1.555 * TERA),
        hbm_visible_frac=42_298_834_944 / (40 * GIBI),
        die=replace(a100.DIE, hbm_generation="HBM2"),
        sources=SOURCES,
    )
