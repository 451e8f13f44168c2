"""Memory that adds what is written to it: T3."""

from __future__ import annotations

from dovetail.comm.endpoint import Use, endpoints
from dovetail.comm.torus import Phase, sent_per_byte


@endpoints.register("near-memory")
def near_memory(phases: tuple[Phase, ...]) -> Use:
    """One read a byte sent, one update a byte received, no SMs. T3 (Pati et al., ASPLOS 2024)."""
    sent = sent_per_byte(phases)
    return Use(link_bytes=sent, read_bytes=sent, write_bytes=sent, sm_bytes=0.0, sram_bytes=0.0)
