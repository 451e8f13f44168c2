"""TPU v4 in the words of the template that searches build chips from, with the vector lanes that TPU v4 has."""

from __future__ import annotations

from dataclasses import replace

from dovetail.hardware.catalog import chips
from dovetail.hardware.catalog import phaze_tpuv4 as phaze
from dovetail.hardware.catalog._google import JAX_TPU_INFO, NUM_LANES, NUM_SUBLANES
from dovetail.hardware.catalog._templates import template_vector
from dovetail.hardware.chip import Chip

LANES_PER_UNIT = NUM_SUBLANES * NUM_LANES  # of the VPU of each of two TensorCores, as the catalogue's tpu-v4 has them
OWN_SOURCES = {
    "vector": f"{JAX_TPU_INFO}: 8 sublanes x 128 lanes in each of two cores; rate derived from them and the clock",
    "tdp_w": "estimate: what its parts draw with everything busy (cost/tdp.py)",
    "die": "estimate: 32 registers of 4 bytes a lane, 7 nm and 4 stacks, as TPU v4; one lane for its link, as PHAZE",
}
SOURCES = tuple((field, OWN_SOURCES.get(field, source)) for field, source in phaze.SOURCES)


@chips.register("tpuv4-like")
def tpuv4_like() -> Chip:
    """TPU v4 in the template's words: 8 tensor cores of 128x128, 2 vector cores of 1,024 lanes, 128 MiB."""
    return replace(
        phaze.phaze_tpuv4(),
        name="tpuv4-like",
        vector=template_vector(2, LANES_PER_UNIT, phaze.CLOCK_HZ),
        tdp_w=258.0,
        die=replace(phaze.DIE, register_bytes=128 * LANES_PER_UNIT),
        sources=SOURCES,
        facts=(),
    )
