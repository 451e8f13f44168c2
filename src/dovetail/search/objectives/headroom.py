"""Most memory left."""

from __future__ import annotations

from dovetail.search.objectives import Objective, objectives

objectives.register("headroom")(
    Objective(
        score=lambda f: f.need_bytes,
        figure=lambda f: f.limit_bytes - f.need_bytes,
        unit="bytes free on the fullest device",
        summary="most memory left",
        aspect="memory",
    )
)
