"""Layers cut inside a node, the node repeated."""

from __future__ import annotations

from dovetail.parallel.plan import Plan
from dovetail.parallel.recipes import PlanEntry, plans

plans.register("tensor-8")(
    PlanEntry(
        plan=Plan(tensor_parallel=8, sequence_parallel=True, zero_stage=1),
        fills_data_parallel=True,
        summary="tensor and sequence parallel over the 8 devices of a node, data parallel with ZeRO-1 between nodes",
        source="Shoeybi et al. 2019, arXiv:1909.08053; Korthikanti et al. 2022, arXiv:2205.05198",
    )
)
