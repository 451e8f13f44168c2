"""Collectives as kernels on the SMs, as NCCL runs them."""

from __future__ import annotations

from dovetail.hardware.endpoints import RING, SM_DRIVEN, Endpoint, endpoints

endpoints.register(SM_DRIVEN)(
    Endpoint(
        name=SM_DRIVEN,
        code=1,
        summary="kernels on the SMs move and add",
        aliases=("sm-ring",),
        adding=RING,
        moving=RING,
    )
)
