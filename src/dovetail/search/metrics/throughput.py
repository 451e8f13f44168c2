"""The most trained in a second."""

from __future__ import annotations

from dovetail.search.metrics import ChipFigures, Metric, metrics
from dovetail.units import Amount


def _loss(of: ChipFigures) -> Amount:
    return of.step_s / of.num_samples


def _figure(of: ChipFigures) -> Amount:
    return of.num_samples / of.step_s


metrics.register("throughput")(
    Metric(
        loss=_loss,
        figure=_figure,
        unit="samples or tokens/s",
        loss_unit="s a sample or token",
        summary="the most samples or tokens per second",
    )
)
