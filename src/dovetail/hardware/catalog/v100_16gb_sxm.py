"""NVIDIA V100 SXM2 16 GB: the 32 GB part with half the memory."""

from __future__ import annotations

from dataclasses import replace

from dovetail.hardware.catalog import chips, device_names
from dovetail.hardware.catalog import v100_32gb_sxm as v100
from dovetail.hardware.catalog._nvidia import HBM_BINARY, V100_DATASHEET
from dovetail.hardware.chip import Chip
from dovetail.units import GIBI

OWN_SOURCES = {
    "year": V100_DATASHEET,
    "hbm.capacity_bytes": f"{V100_DATASHEET}, 16 GB part; {HBM_BINARY}",
    "hbm_visible_frac": "torch.cuda.get_device_properties of a V100-SXM2-16GB: total_memory 16160 MiB",
}
SOURCES = tuple((field, OWN_SOURCES.get(field, source)) for field, source in v100.SOURCES)


@chips.register("v100-16gb-sxm")
@device_names("Tesla V100-SXM2-16GB")
def v100_16gb_sxm() -> Chip:
    """The V100 as launched."""
    base = v100.v100_32gb_sxm()
    return replace(
        base,
        name="v100-16gb-sxm",
        hbm=replace(base.hbm, capacity_bytes=16 * GIBI),
        hbm_visible_frac=15.78 / 16,
        sources=SOURCES,
    )
