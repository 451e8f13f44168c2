"""The Accelerator Collectives Engine (Rashidi et al., ISCA 2021): all phases run in an SRAM at the links.

A chunk is read once into SRAM, all phases run there, and it is written back once. An all-gather by itself only writes
its payload and a reduce-scatter only reads it.
"""

from __future__ import annotations

from dovetail.hardware.endpoints import Endpoint, Engine, Resources, Traffic, endpoints

# Through SRAM: in and out once, what is sent, and what is read to be sent or added.
ACE = Resources(reads=Traffic(read=1), writes=Traffic(written=1), sram=Traffic(read=1, written=1, sent=2, reduced=1))

endpoints.register("ace")(
    Endpoint(
        name="ace",
        code=3,
        summary="an engine with its own SRAM and adders moves and adds",
        adding=ACE,
        moving=ACE,
        is_chunked=True,
        engine=Engine(area_mm2=5.3, power_w=4.3),  # ACE's paper: 4 MB of SRAM and 16 FSMs at 28 nm, for 300 GB/s
    )
)
