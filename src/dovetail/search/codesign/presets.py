"""Spaces of systems by name: what may be chosen, and which combinations are part of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from dovetail.cost.phaze_area import phaze_mm2
from dovetail.hardware.die import RETICLE_MM2
from dovetail.parallel.plan import Overlap
from dovetail.search.codesign.phaze_space import BUFFERS_BYTES, COUNTS, LEAST_AREA_FRAC, SIDES, most_mm2
from dovetail.search.codesign.question import Rule, Systems, everything
from dovetail.search.codesign.systems import BY_LANES
from dovetail.search.planners.plan_space import PlanSpace
from dovetail.units import MEBI
from dovetail.workload.graph import BoolArray

ORDER = ("tp", "cp", "pp", "dp")
# What a plan may be by default: what training of large models is mostly run with.
PLANS = PlanSpace(
    tensor_parallel=(1, 2, 4, 8),
    context_parallel=(1,),
    interleave=(1,),
    zero_stage=(1,),
    microbatch=(1, 2, 4, 8),
    axis_order=(ORDER,),
)
# PHAZE's: no sequence parallelism, no ZeRO, nothing beside compute; of recompute, all or nothing of a layer.
PHAZE_PLANS = PlanSpace(
    tensor_parallel=(1, 2, 4, 8),
    sequence_parallel=(False,),
    context_parallel=(1,),
    interleave=(1,),
    zero_stage=(0,),
    microbatch=(1, 2, 4, 8),
    recompute=("none", "full"),
    axis_order=(ORDER,),
    overlap=(Overlap(data=False, context=False, pipeline=False),),
)
POWERS = tuple(2**power for power in range(9))


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A space with what belongs to it: the chip to build on, devices, network, plans, and which combinations count."""

    base: str
    num_devices: int
    network: str
    values: Mapping[str, tuple[int, ...]]
    plans: PlanSpace
    rule: Rule = field(default=everything)
    die_mm2: float = RETICLE_MM2  # at the most of a die, where no limit is given
    summary: str = ""


def phaze_rule(systems: Systems) -> BoolArray:
    """Vector cores as wide as tensor cores, no larger than PHAZE's TPU v4, nor far smaller unless one kind has one."""
    area_mm2 = phaze_mm2(
        num_tensor_units=systems["num_tensor"],
        num_rows=systems["num_rows"],
        num_cols=systems["num_cols"],
        num_vector_units=systems["num_vector"],
        num_lanes=systems["num_lanes"],
        sram_bytes=systems["sram_mib"] * MEBI,
    )
    limit_mm2 = most_mm2()
    has_one_core = (systems["num_tensor"] == 1) | (systems["num_vector"] == 1)
    is_kept = (area_mm2 <= limit_mm2) & ((area_mm2 >= LEAST_AREA_FRAC * limit_mm2) | has_one_core)
    return np.asarray(is_kept & (systems["num_lanes"] == systems["num_cols"]))


PRESETS: dict[str, Preset] = {
    "phaze": Preset(
        base="phaze-tpuv4",
        num_devices=1024,
        network="flat",
        values={
            "num_tensor": COUNTS,
            "num_rows": SIDES,
            "num_cols": SIDES,
            "num_vector": COUNTS,
            "num_lanes": SIDES,
            "sram_mib": tuple(round(size / MEBI) for size in BUFFERS_BYTES),
            "stack_gib": (8, 16, 20),  # of four stacks: 32, 64 and 80 GiB
        },
        plans=PHAZE_PLANS,
        rule=phaze_rule,
        die_mm2=math.inf,  # the paper's own rule limits the area, by its own model of it
        summary="PHAZE's 29,360 chips with 32, 64 or 80 GiB of HBM",
    ),
    "cores": Preset(
        base="tpuv2-like",
        num_devices=256,
        network="torus",
        values={
            "num_tensor": POWERS,
            "num_rows": POWERS[2:],
            "num_cols": POWERS[2:],
            "num_vector": POWERS,
            "num_lanes": POWERS[2:],
        },
        plans=PLANS,
        summary="WHAM's 27,783 combinations of cores, all else as the base has it",
    ),
    "chip": Preset(
        base="tpu-v4",
        num_devices=256,
        network="pod",
        values={
            "num_tensor": POWERS[:7],
            "num_rows": POWERS[4:],
            "num_cols": POWERS[4:],
            "num_vector": POWERS[:7],
            "num_lanes": (*POWERS[4:], 512, 1024),
            "vmem_bytes_per_clock": (int(BY_LANES), 8192, 16_384),
            "sram_mib": (16, 32, 64, 128),
            "hbm_stacks": (2, 4, 6, 8),
            "stack_gib": (8, 16, 24),
        },
        plans=PLANS,
        summary="cores, vector memory's bandwidth, shared SRAM, HBM stacks and size, at a TPU v4's area and power",
    ),
}
