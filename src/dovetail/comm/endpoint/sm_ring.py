"""Collectives that SMs run as kernels, as NCCL does."""

from __future__ import annotations

from dovetail.comm.endpoint import Use, endpoints
from dovetail.comm.torus import Phase, reads_per_byte, sent_per_byte


@endpoints.register("sm-ring")
def sm_ring(phases: tuple[Phase, ...]) -> Use:
    """SMs read what they send, and what they add to it; every byte received is written. ACE's baseline."""
    sent, reads = sent_per_byte(phases), reads_per_byte(phases)
    return Use(link_bytes=sent, read_bytes=reads, write_bytes=sent, sm_bytes=reads, sram_bytes=0.0)
