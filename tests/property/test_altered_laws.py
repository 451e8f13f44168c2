"""Laws of turning hardware: more of a resource never slows a step, and text in an address comes back as it was."""

from __future__ import annotations

from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.evaluate import Outcome, evaluate
from dovetail.explorer.packed import packed, unpacked
from dovetail.hardware.altered import altered, figures_of
from dovetail.hardware.clusters import clusters
from dovetail.parallel.plan import Plan
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

CLUSTER = clusters["dgx-h100"].build(16)
KEYS = [figure.key for figure in figures_of(CLUSTER, "bf16")]
PLAN = Plan(tensor_parallel=2, data_parallel=8, microbatch=2, zero_stage=1)
TOLERANCE = 1e-9


@cache
def step_s(key: str, factor: float) -> float:
    model = models["gpt2-345m"]()
    work = Workload(model=model, global_batch=64, seq=model.seq)
    found = evaluate(work, altered(CLUSTER, {key: factor}, "bf16"), PLAN, has_changes=False)
    assert isinstance(found, Outcome)
    return float(found.step.step_s)


@settings(max_examples=15)
@given(st.sampled_from(KEYS), st.floats(0.5, 4.0), st.floats(1.0, 2.0))
def test_more_of_a_resource_never_slows_a_step(key, factor, more):
    assert step_s(key, min(4.0, factor * more)) <= step_s(key, factor) * (1 + TOLERANCE)


@given(st.text(max_size=2000))
def test_packed_text_comes_back_as_it_was(text):
    assert unpacked(packed(text)) == text
