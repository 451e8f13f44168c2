"""Collectives that XLA runs over a TPU's inter-chip interconnect: DMA engines move, the vector unit adds.

What compute loses beside them is taken from whole published steps, as it is not published by itself.
"""

from __future__ import annotations

from dovetail.hardware.endpoints import Endpoint, endpoints
from dovetail.hardware.endpoints.dma import COPIES

ICI = "ici"
# Of the seconds that collectives run beside compute, what a step is longer by: engines, vector unit and HBM that both
# want, and what XLA's scheduler does not hide. Fitted on published steps (`python -m benchmarks.tpu_steps`).
SHOWN_FRAC = 0.45

endpoints.register(ICI)(
    Endpoint(
        name=ICI,
        code=4,
        summary="DMA engines move, the vector unit adds, as XLA schedules them",
        adding=COPIES,  # as copy engines with cores that add
        moving=COPIES,
        slowdown_frac=SHOWN_FRAC,
    )
)
