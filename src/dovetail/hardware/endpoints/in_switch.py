"""Reductions and multicasts inside switches: SHARP (Graham et al., COM-HPC 2016), NVLink SHARP (NVLS).

Switches add and copy: of an all-reduce a payload goes up once and comes down once. A reduce-scatter only reads its
payload and an all-gather only writes it; SMs only issue. An all-to-all has nothing to add and moves as by DMA. What
adds is silicon of the switches, which networks of switches are priced with; the device's own die has none of it.
"""

from __future__ import annotations

from dovetail.hardware.endpoints import Endpoint, Resources, Traffic, endpoints

endpoints.register("in-switch")(
    Endpoint(
        name="in-switch",
        code=5,
        summary="switches add and multicast, as NVLS and SHARP do",
        aliases=("nvls", "sharp"),
        adding=Resources(reads=Traffic(read=1), writes=Traffic(written=1)),
        moving=Resources(reads=Traffic(sent=1), writes=Traffic(sent=1)),
        is_in_switch=True,
    )
)
