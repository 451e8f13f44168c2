"""One Blackwell GPU of a GB200 NVL72: the B200 with liquid cooling, a higher power limit and a Grace CPU beside it."""

from __future__ import annotations

from dataclasses import replace

from dovetail.hardware.catalog import b200 as b200_file
from dovetail.hardware.catalog import chips, device_names
from dovetail.hardware.catalog._measured import GH100_ENERGY, power_limited_energy
from dovetail.hardware.catalog._nvidia import GB200_DATASHEET, HBM_BINARY
from dovetail.hardware.chip import Chip
from dovetail.hardware.memory import Memory
from dovetail.units import GIBI, GIGA, TERA

TDP_W = 1200.0
RATES = (
    ("bf16", 2500 * TERA),
    ("fp16", 2500 * TERA),
    ("fp8", 5000 * TERA),
    ("fp4", 10000 * TERA),
    ("int8", 5000 * TERA),
    ("tf32", 1250 * TERA),
    ("fp32", 80 * TERA),
)
ENERGY = replace(
    power_limited_energy(
        tdp_w=TDP_W,
        peak_flop_per_s=2500 * TERA,
        tensor_frac=b200_file.CALIBRATION.tensor_frac,
        node="4 nm",
        link_j_per_byte=GH100_ENERGY.link_j_per_byte,
    ),
    tensor_j_per_flop=GH100_ENERGY.tensor_j_per_flop,  # the same process family, 4N and 4NP
)
OWN_SOURCES = {
    "year": GB200_DATASHEET,
    "clock_hz": f"estimate: the clock that gives the bf16 peak of the {GB200_DATASHEET}: 2500e12 / (148 * 4096 * 2)",
    "tensor": f"{GB200_DATASHEET}: figures for 72 GPUs over 72, halved where stated with sparsity",
    "vector.peak_flop_per_s": f"{GB200_DATASHEET}: 5760 TFLOP/s fp32 for 72",
    "hbm.capacity_bytes": f"{GB200_DATASHEET}: 13.4 TB for 72; {HBM_BINARY}",
    "hbm.bandwidth_bytes_per_s": f"{GB200_DATASHEET}: 576 TB/s for 72",
    "hbm_visible_frac": "PyTorch, out of memory on GB200: total capacity of 184.31 GiB",
    "tdp_w": f"{GB200_DATASHEET}: configurable up to 1200 W a GPU",
    "interconnect_bytes_per_s": f"{GB200_DATASHEET}: NVLink5, 130 TB/s both ways for 72",
}
SOURCES = tuple((field, OWN_SOURCES.get(field, source)) for field, source in b200_file.SOURCES)


@chips.register("gb200")
@device_names("NVIDIA GB200")
def gb200() -> Chip:
    """The B200 as it stands in an NVL72 rack."""
    base = b200_file.b200()
    return replace(
        base,
        name="gb200",
        clock_hz=2.062 * GIGA,
        tensor=replace(base.tensor, rates=RATES),
        vector=replace(base.vector, peak_flop_per_s=80 * TERA),
        hbm=Memory(capacity_bytes=186 * GIBI, bandwidth_bytes_per_s=8.0 * TERA),
        hbm_visible_frac=184.31 / 186,
        tdp_w=TDP_W,
        energy=ENERGY,
        sources=SOURCES,
        facts=(("transistors", "208 billion on two dies", GB200_DATASHEET),),
    )
