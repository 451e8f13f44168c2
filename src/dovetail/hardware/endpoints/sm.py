"""Collectives as kernels on the SMs, as NCCL runs them."""

from __future__ import annotations

from dovetail.hardware.endpoints import RING_ADDING, RING_MOVING, SM_DRIVEN, Endpoint, endpoints

endpoints.register(SM_DRIVEN)(
    Endpoint(
        name=SM_DRIVEN,
        code=1,
        summary="kernels on the SMs move and add",
        mechanism="sm-ring",
        adding=RING_ADDING,
        moving=RING_MOVING,
    )
)
