"""The cheapest training by what the chips cost to make."""

from __future__ import annotations

from dovetail.search.metrics import Metric, metrics

LIFE_S = 4 * 365 * 86400.0  # estimate: accelerators are written off in four years

metrics.register("$/token")(
    Metric(
        loss=lambda f: f.price_usd * f.num_devices * f.step_s / f.num_samples / LIFE_S,
        figure=lambda f: f.price_usd * f.num_devices * f.step_s / f.num_samples / LIFE_S,
        unit="$ of chips a sample or token",
        summary="the least cost of making the chips, written off over four years, for each sample or token",
    )
)
