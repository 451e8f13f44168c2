"""The cheapest training by what the chips cost to make."""

from __future__ import annotations

from dovetail.search.metrics import ChipFigures, Metric, metrics
from dovetail.units import Amount

LIFE_S = 4 * 365 * 86400.0  # estimate: accelerators are written off in four years


def _loss(of: ChipFigures) -> Amount:
    return of.price_usd * of.num_devices * of.step_s / of.num_samples / LIFE_S


metrics.register("$/token")(
    Metric(
        loss=_loss,
        figure=_loss,
        unit="$ of chips a sample or token",
        loss_unit="$ a sample or token",
        summary="the least cost of making the chips, written off over four years, for each sample or token",
    )
)
