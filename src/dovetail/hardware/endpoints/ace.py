"""The Accelerator Collectives Engine (Rashidi et al., ISCA 2021): all phases run in an SRAM at the links."""

from __future__ import annotations

from dovetail.hardware.endpoints import Endpoint, Engine, Taken, endpoints

endpoints.register("ace")(
    Endpoint(
        name="ace",
        code=3,
        summary="an engine with its own SRAM and adders moves and adds",
        mechanism="ace",
        adding=Taken(
            core_bytes=0.0, memory_bytes=1.0
        ),  # of an all-reduce a payload is read and written, and sent twice
        moving=Taken(core_bytes=0.0, memory_bytes=2.0),  # read once, written once
        engine=Engine(area_mm2=5.3, power_w=4.3),  # ACE's paper: 4 MB of SRAM and 16 FSMs at 28 nm, for 300 GB/s
    )
)
