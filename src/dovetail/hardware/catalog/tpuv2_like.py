"""TPU v2 in the words of the template that searches build chips from, with the vector lanes that TPU v2 has."""

from __future__ import annotations

from dataclasses import replace

from dovetail.hardware.catalog import chips
from dovetail.hardware.catalog import wham_tpuv2 as wham
from dovetail.hardware.catalog._google import JAX_TPU_INFO, NUM_LANES, NUM_SUBLANES
from dovetail.hardware.catalog._templates import template_vector
from dovetail.hardware.chip import Chip

LANES_PER_UNIT = NUM_SUBLANES * NUM_LANES  # of the VPU of each of two TensorCores, as the catalogue's tpu-v2 has them
OWN_SOURCES = {
    "vector": f"{JAX_TPU_INFO}: 8 sublanes x 128 lanes in each of two cores; rate derived from them and the clock",
    "die": "estimate: 16 nm, 4 stacks, 20 lanes a link and 32 registers of 4 bytes a lane, as TPU v2",
}
SOURCES = tuple((field, OWN_SOURCES.get(field, source)) for field, source in wham.SOURCES)


@chips.register("tpuv2-like")
def tpuv2_like() -> Chip:
    """TPU v2 in the template's words: two 128x128 tensor cores and two vector cores of 1,024 lanes."""
    return replace(
        wham.wham_tpuv2(),
        name="tpuv2-like",
        vector=template_vector(2, LANES_PER_UNIT, wham.CLOCK_HZ),
        die=replace(wham.DIE, register_bytes=128 * LANES_PER_UNIT),
        sources=SOURCES,
    )
