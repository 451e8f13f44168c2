"""An endpoint that costs nothing: only links bind. No device has it; it bounds what any other can gain."""

from __future__ import annotations

from dovetail.hardware.endpoints import Endpoint, Resources, endpoints

endpoints.register("ideal")(
    Endpoint(
        name="ideal",
        code=7,
        summary="costs nothing: a lower bound, which no device has",
        adding=Resources(),
        moving=Resources(),
    )
)
