"""Collectives that copy engines (DMA) move, with SMs only where bytes are added: ConCCL."""

from __future__ import annotations

from dovetail.comm.endpoint import Use, endpoints, reduced_per_byte
from dovetail.comm.torus import Phase, sent_per_byte


@endpoints.register("copy-engine")
def copy_engine(phases: tuple[Phase, ...]) -> Use:
    """DMA engines move every byte; where bytes are added, SMs read both and write the sum before it is sent on."""
    sent, reduced = sent_per_byte(phases), reduced_per_byte(phases)
    return Use(
        link_bytes=sent,
        read_bytes=sent + 2 * reduced,
        write_bytes=sent + reduced,
        sm_bytes=2 * reduced,
        sram_bytes=0.0,
    )
