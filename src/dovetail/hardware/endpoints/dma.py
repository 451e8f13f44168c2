"""Collectives that copy engines move, with SMs only where bytes are added: ConCCL.

DMA engines move every byte; where bytes are added, SMs read both and write the sum before it is sent on. Dies that the
area model is fitted on have copy engines, which are in what it does not name: they add no silicon.
"""

from __future__ import annotations

from dovetail.hardware.endpoints import Endpoint, Resources, Traffic, endpoints

COPIES = Resources(reads=Traffic(sent=1, reduced=2), writes=Traffic(sent=1, reduced=1), cores=Traffic(reduced=2))

endpoints.register("dma")(
    Endpoint(
        name="dma",
        code=2,
        summary="copy engines move, SMs add",
        aliases=("copy-engine",),
        adding=COPIES,
        moving=COPIES,
    )
)
