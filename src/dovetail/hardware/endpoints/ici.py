"""Collectives that XLA runs over a TPU's inter-chip interconnect: DMA engines move, the vector unit adds.

What compute loses beside them is taken from whole published steps, as nobody has published it by itself.
"""

from __future__ import annotations

from dovetail.hardware.endpoints import Endpoint, Taken, endpoints

ICI = "ici"
# Of the seconds that collectives run beside compute, what a step is longer by: engines, vector unit and HBM that both
# want, and what XLA's scheduler does not hide. Fitted on published steps (`python -m benchmarks.tpu_steps`).
SHOWN_FRAC = 0.45

endpoints.register(ICI)(
    Endpoint(
        name=ICI,
        code=4,
        summary="DMA engines move, the vector unit adds, as XLA schedules them",
        mechanism="copy-engine",
        adding=Taken(core_bytes=1.0, memory_bytes=3.5),  # as copy engines with cores that add
        moving=Taken(core_bytes=0.0, memory_bytes=2.0),
        slowdown_frac=SHOWN_FRAC,
    )
)
