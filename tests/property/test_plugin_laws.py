"""Laws of the search under costs of plugins, of which nothing is known: its answer is still the best of the space."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.evaluate import Infeasible, Outcome, evaluate
from dovetail.search.objectives import objectives
from dovetail.search.planners.plan_space import batches
from dovetail.search.planners.planner import search_plans
from tests.plugin_sources import COST, plugin, running
from tests.property.test_search_laws import CLUSTER, NUM_DEVICES, WORKLOAD, graph, some_choices, space_of

# neither monotone in rows nor in columns, from nothing to milliseconds, for norms and for products with weights
UNRULY = "1e-6 * ((rows.m * 31 + rows.n * 17 + rows.k * 7 + 13 * rows.phase[:, None]) % {most})"
FEW = settings(max_examples=6, deadline=None)


@FEW
@given(some_choices(), st.data(), st.sampled_from(["rmsnorm", "linear", "attention"]), st.integers(2, 4000))
def test_no_plan_is_better_than_the_best_whatever_an_operator_costs(choices, data, kind, most):
    with running(plugin(COST, name=kind, seconds=UNRULY.format(most=most))):
        space = space_of(choices)
        found = search_plans(
            WORKLOAD, CLUSTER, space, objectives["time"], num_best=1, cluster_usd=1.0, progress=lambda *_: None
        )
        batch = data.draw(st.sampled_from(list(batches(space, graph(), NUM_DEVICES))))
        plan = batch.plan(data.draw(st.integers(0, len(batch) - 1)))
        result = evaluate(WORKLOAD, CLUSTER, plan, has_changes=False)
        if isinstance(result, Infeasible):
            return
        best = found.best[0]
        said = evaluate(WORKLOAD, CLUSTER, best.plan, has_changes=False)
    assert isinstance(said, Outcome)
    assert best.step_s == pytest.approx(said.step.step_s, rel=1e-9)
    assert best.step_s * (1 - found.gap_frac) <= result.step.step_s * (1 + 1e-9)
    assert best.step_s <= result.step.step_s * (1 + 1e-9)
