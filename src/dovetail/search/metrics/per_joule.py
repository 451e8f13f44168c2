"""The most trained for the energy it takes."""

from __future__ import annotations

from dovetail.search.metrics import Metric, metrics

metrics.register("tokens/J")(
    Metric(
        loss=lambda f: f.energy_j / f.num_samples,
        figure=lambda f: f.num_samples / f.energy_j,
        unit="samples or tokens/J",
        summary="the most samples or tokens for the energy of a step",
    )
)
