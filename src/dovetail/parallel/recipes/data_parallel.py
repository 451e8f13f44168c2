"""Every device holds the whole model, or its share of it: data parallelism and the three stages of ZeRO."""

from __future__ import annotations

from dovetail.parallel.plan import Plan
from dovetail.parallel.recipes import PlanEntry, plans

_ZERO = "Rajbhandari et al. 2020, arXiv:1910.02054"

plans.register("ddp")(
    PlanEntry(
        plan=Plan(),
        fills_data_parallel=True,
        summary="every device holds the whole model; gradients are all-reduced behind the backward pass",
        source="Li et al. 2020, arXiv:2006.15704",
    )
)
plans.register("zero1")(
    PlanEntry(
        plan=Plan(zero_stage=1),
        fills_data_parallel=True,
        summary="data parallel with optimizer state sharded, as Megatron-LM's distributed optimizer",
        source=_ZERO,
    )
)
plans.register("zero2")(
    PlanEntry(
        plan=Plan(zero_stage=2),
        fills_data_parallel=True,
        summary="data parallel with optimizer state and gradients sharded",
        source=_ZERO,
    )
)
plans.register("zero3")(
    PlanEntry(
        plan=Plan(zero_stage=3),
        fills_data_parallel=True,
        summary="fully sharded data parallel (FSDP): parameters are gathered layer by layer as they are needed",
        source=f"{_ZERO}; Zhao et al. 2023, arXiv:2304.11277",
    )
)
