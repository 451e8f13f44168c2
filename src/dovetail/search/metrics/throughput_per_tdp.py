"""The most trained in a second for each watt that must be supplied."""

from __future__ import annotations

from dovetail.search.metrics import Metric, metrics

metrics.register("perf/tdp")(
    Metric(
        loss=lambda f: f.step_s / f.num_samples * f.power_w * f.num_devices,
        figure=lambda f: f.num_samples / f.step_s / (f.power_w * f.num_devices),
        unit="samples or tokens/s/W",
        summary="the most samples or tokens a second for each watt of all devices busy",
    )
)
