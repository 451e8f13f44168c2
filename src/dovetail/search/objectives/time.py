"""The shortest step."""

from __future__ import annotations

from dovetail.search.objectives import Objective, objectives

objectives.register("time")(
    Objective(
        score=lambda f: f.step_s,
        figure=lambda f: f.step_s,
        unit="s per step",
        summary="the shortest step",
    )
)
