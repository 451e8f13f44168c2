"""Most tokens for the energy."""

from __future__ import annotations

from dovetail.search.objectives import Objective, objectives

objectives.register("tokens/J")(
    Objective(
        score=lambda f: f.energy_j,
        figure=lambda f: f.num_tokens / f.energy_j,
        unit="tokens/J",
        summary="most tokens for the energy",
        aspect="energy",
    )
)
