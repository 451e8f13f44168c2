"""The most trained in a second."""

from __future__ import annotations

from dovetail.search.metrics import Metric, metrics

metrics.register("throughput")(
    Metric(
        loss=lambda f: f.step_s / f.num_samples,
        figure=lambda f: f.num_samples / f.step_s,
        unit="samples or tokens/s",
        summary="the most samples or tokens a second",
    )
)
