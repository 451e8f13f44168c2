"""Most tokens per second."""

from __future__ import annotations

from dovetail.search.objectives import Objective, objectives

objectives.register("tokens/s")(
    Objective(
        score=lambda f: f.step_s,
        figure=lambda f: f.num_tokens / f.step_s,
        unit="tokens/s",
        summary="most tokens per second; on one cluster the shortest step",
    )
)
