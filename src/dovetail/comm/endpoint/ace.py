"""The Accelerator Collectives Engine."""

from __future__ import annotations

from dovetail.comm.endpoint import Use, endpoints
from dovetail.comm.torus import Phase, Work, reads_per_byte, sent_per_byte


@endpoints.register("ace")
def ace(phases: tuple[Phase, ...]) -> Use:
    """A chunk is read once into SRAM, all phases run there, and it is written back once. ACE, ISCA 2021.

    An all-gather by itself only writes its payload and a reduce-scatter only reads it: the 1/n share is taken as none.
    """
    works = {phase.work for phase in phases}
    reads = 0.0 if works == {Work.ALL_GATHER} else 1.0
    writes = 0.0 if works == {Work.REDUCE_SCATTER} else 1.0
    sent = sent_per_byte(phases)
    through = reads + writes + sent + reads_per_byte(phases)
    return Use(link_bytes=sent, read_bytes=reads, write_bytes=writes, sm_bytes=0.0, sram_bytes=through)
