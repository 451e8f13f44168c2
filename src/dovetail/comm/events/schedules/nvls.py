"""NVLink SHARP as NCCL runs an all-reduce: each rank has the switch add its 1/n of the buffer, and multicasts the sum.

A rank's port so carries the buffer once to where it is added and 1/n of it again as the result of its own part, and as
much the other way: (n + 1) / n of the payload each way, once chunks follow one another.

Source: NCCL's all_reduce.h, RunWorkColl of NCCL_ALGO_NVLS: multimem.ld_reduce, then multimem.st, of a rank's own chunk.
"""

from __future__ import annotations

from dataclasses import replace

from dovetail.comm.events.schedules import Ask, Schedule, algorithms, not_modelled
from dovetail.comm.events.schedules.in_switch import in_switch


@algorithms.register("nvls")
def nvls(ask: Ask) -> Schedule:
    """A reduce-scatter in the switch, then an all-gather by its multicast."""
    if ask.collective in ("all-gather", "reduce-scatter"):
        return in_switch(ask)
    if ask.collective != "all-reduce":
        raise not_modelled(ask, "nvls")
    [scattered], [gathered] = (in_switch(replace(ask, collective=what)) for what in ("reduce-scatter", "all-gather"))
    return (scattered + gathered,)
