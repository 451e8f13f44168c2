"""Memory that adds what is written to it, and DMA engines that a tracker triggers: T3 (Pati et al., ASPLOS 2024).

One read per byte sent, one update per byte received, no SMs. Adders lie in the HBM stacks and the tracker is some tens
of KB: area and power of either are not published for training chips, so none is counted, and what a joint search
gains by this endpoint is an upper bound. `Engine` of an entry of one's own says more.
"""

from __future__ import annotations

from dovetail.hardware.endpoints import Endpoint, Resources, Traffic, endpoints

UPDATES = Resources(reads=Traffic(sent=1), writes=Traffic(sent=1))

endpoints.register("near-memory")(
    Endpoint(
        name="near-memory",
        code=6,
        summary="DMA engines move, memory adds what is written to it, as T3 has it",
        aliases=("t3",),
        adding=UPDATES,
        moving=UPDATES,
    )
)
