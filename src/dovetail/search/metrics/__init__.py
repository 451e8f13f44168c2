"""What an accelerator can be best by, one file each: a loss, least for the best, and the figure that people compare."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dovetail.registry import Registry, holding
from dovetail.units import Amount


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipFigures:
    """What training on one design comes to, or on many: of all its devices, a step's seconds and joules."""

    step_s: Amount
    energy_j: Amount
    power_w: Amount  # of one device with everything busy
    price_usd: Amount  # to make one device
    num_devices: int
    num_samples: int  # tokens, or samples where a model has none


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """`loss` is least for the best design, and halves where a design is twice as good; `figure` is in `unit`."""

    loss: Callable[[ChipFigures], Amount]
    figure: Callable[[ChipFigures], Amount]
    unit: str
    loss_unit: str
    summary: str


metrics: Registry[Metric] = Registry("metric", __name__, check=holding("metric", Metric))
