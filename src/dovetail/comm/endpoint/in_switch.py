"""Reductions and multicasts inside switches: SHARP, NVLS."""

from __future__ import annotations

from dovetail.comm.endpoint import Use, endpoints
from dovetail.comm.torus import Phase, Work, sent_per_byte


@endpoints.register("in-switch")
def in_switch(phases: tuple[Phase, ...]) -> Use:
    """Switches add and copy: of an all-reduce a payload goes up once and comes down once.

    A reduce-scatter only reads its payload and an all-gather only writes it: the shares of 1/n the other way are taken
    as none, as are the SMs, which only issue. An all-to-all has nothing to add and moves as by DMA.
    """
    sent = sent_per_byte(phases)
    if any(phase.work is Work.ALL_TO_ALL for phase in phases):
        return Use(link_bytes=sent, read_bytes=sent, write_bytes=sent, sm_bytes=0.0, sram_bytes=0.0)
    does_scatter = any(phase.work in (Work.REDUCE_SCATTER, Work.ALL_REDUCE) for phase in phases)
    does_gather = any(phase.work in (Work.ALL_GATHER, Work.ALL_REDUCE) for phase in phases)
    up, down = float(does_scatter), float(does_gather)
    return Use(link_bytes=max(up, down), read_bytes=up, write_bytes=down, sm_bytes=0.0, sram_bytes=0.0)
