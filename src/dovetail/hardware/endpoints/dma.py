"""Collectives that copy engines move, with SMs only where bytes are added: ConCCL.

Dies that the area model is fitted on have copy engines, which are in what it does not name: they add no silicon.
"""

from __future__ import annotations

from dovetail.hardware.endpoints import Endpoint, Taken, endpoints

endpoints.register("dma")(
    Endpoint(
        name="dma",
        code=2,
        summary="copy engines move, SMs add",
        mechanism="copy-engine",
        adding=Taken(core_bytes=1.0, memory_bytes=3.5),  # sums: both read, the sum written, and each sent (ConCCL)
        moving=Taken(core_bytes=0.0, memory_bytes=2.0),  # read once, written once
    )
)
