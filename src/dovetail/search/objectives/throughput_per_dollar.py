"""Most tokens per second for what the chips cost."""

from __future__ import annotations

from dovetail.search.objectives import Objective, objectives

objectives.register("tokens/s/$")(
    Objective(
        score=lambda f: f.step_s * f.cluster_usd,
        figure=lambda f: f.num_tokens / f.step_s / f.cluster_usd,
        unit="tokens/s a dollar of chips",
        summary="most tokens per second for what the chips cost to make",
        is_priced=True,
    )
)
