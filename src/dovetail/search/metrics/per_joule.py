"""The most trained for the energy it takes."""

from __future__ import annotations

from dovetail.search.metrics import ChipFigures, Metric, metrics
from dovetail.units import Amount


def _loss(of: ChipFigures) -> Amount:
    return of.energy_j / of.num_samples


def _figure(of: ChipFigures) -> Amount:
    return of.num_samples / of.energy_j


metrics.register("tokens/J")(
    Metric(
        loss=_loss,
        figure=_figure,
        unit="samples or tokens/J",
        loss_unit="J a sample or token",
        summary="the most samples or tokens for the energy of a step",
    )
)
