"""An NVDLA-like training chip: many small nv_full cores in place of two large arrays.

NVDLA is an inference core. To train on it we take its fp16 mode, put 32 of them side by side so that they hold as many
multipliers as the TPUv2-like chip, give each its 16-lane post-processor as vector core, and feed them from the same
HBM at the same clock. What is left is the question the comparison asks: large arrays or many small ones.
"""

from __future__ import annotations

from dataclasses import replace

from dovetail.hardware.catalog import chips
from dovetail.hardware.catalog import tpuv2_like as tpuv2
from dovetail.hardware.catalog._templates import template_tensor, template_vector
from dovetail.hardware.chip import Chip
from dovetail.units import KIBI

NVDLA = "NVDLA primer and hardware documentation, nv_full"
OWN_SOURCES = {
    "tensor": f"{NVDLA}: 64 x 32 int8 multipliers, 64 x 16 in fp16; estimate: 32 cores, to match the TPUv2-like chip",
    "vector": f"estimate: {NVDLA} has a post-processor of 16 elements a clock (recalled); one a core",
    "core_buffer_bytes": f"{NVDLA}: 512 KB convolution buffer a core",
    "sram.capacity_bytes": "estimate: the TPUv2-like chip's, behind NVDLA's second memory interface",
    "die": "estimate: the TPUv2-like chip's, with a buffer beside every array; 12 bytes of registers a lane, as PHAZE",
    "interconnect_bytes_per_s": "estimate: the TPUv2-like chip's, as NVDLA has none",
}
SOURCES = tuple((field, OWN_SOURCES.get(field, source)) for field, source in tpuv2.SOURCES)
FACTS = (
    ("core area", "5.5 mm2 at 28 nm, so 176 mm2 for 32", "NVDLA primer"),
    ("inference speed of one core", "269 ResNet-50 images/s in int8", "NVDLA primer"),
)


@chips.register("nvdla-like")
def nvdla_like() -> Chip:
    """32 cores of 64x16 multipliers: as many as the TPUv2-like chip has, in small pieces."""
    base = tpuv2.tpuv2_like()
    return replace(
        base,
        name="nvdla-like",
        tensor=template_tensor(32, 64, 16, base.clock_hz, ("fp16", "bf16")),
        vector=template_vector(32, 16, base.clock_hz),
        core_buffer_bytes=512 * KIBI,
        die=replace(base.die, register_bytes=12 * 16, buffered_units="tensor"),
        sources=SOURCES,
        facts=FACTS,
    )
