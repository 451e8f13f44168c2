"""The most trained in a second for each watt that must be supplied."""

from __future__ import annotations

from dovetail.search.metrics import ChipFigures, Metric, metrics
from dovetail.units import Amount


def _loss(of: ChipFigures) -> Amount:
    return of.step_s / of.num_samples * of.power_w * of.num_devices


def _figure(of: ChipFigures) -> Amount:
    return of.num_samples / of.step_s / (of.power_w * of.num_devices)


metrics.register("perf/tdp")(
    Metric(
        loss=_loss,
        figure=_figure,
        unit="samples or tokens/s/W",
        loss_unit="W s a sample or token",
        summary="the most samples or tokens per second for each watt of all devices busy",
    )
)
