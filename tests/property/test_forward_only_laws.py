"""Laws of evaluation steps: forward passes alone are part of a training step, and take no more of anything."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.errors import NotModelled
from dovetail.evaluate import Infeasible, Outcome, evaluate
from dovetail.hardware.clusters import clusters
from dovetail.parallel.plan import Plan
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

CLOSE_FRAC = 1e-9  # style: a tolerance
CLUSTER = clusters["dgx-h100"].build(16)


def workload(name: str, seq: int = 1024) -> Workload:
    model = models[name]()
    model = replace(model, architecture=replace(model.architecture, num_layers=8))  # type: ignore[type-var]
    return Workload(model=model, global_batch=32, seq=seq)


@st.composite
def plans(draw: st.DrawFn, name: str) -> Plan:
    tensor, pipeline = draw(st.sampled_from((1, 2, 4))), draw(st.sampled_from((1, 2)))
    return Plan(
        tensor_parallel=tensor,
        sequence_parallel=draw(st.booleans()) or name == "mixtral-8x7b",
        pipeline_parallel=pipeline,
        data_parallel=16 // (tensor * pipeline),
        expert_parallel=draw(st.sampled_from((1, 2))) if name == "mixtral-8x7b" else 1,
        zero_stage=draw(st.integers(0, 3)),
        schedule=draw(st.sampled_from(("1f1b", "gpipe"))),
        recompute=(draw(st.sampled_from(("none", "full"))),),
    )


def forward(of: Workload, plan: Plan) -> Outcome:
    found = evaluate(replace(of, is_forward_only=True), CLUSTER, plan, has_changes=False)
    assert isinstance(found, Outcome)
    return found


@pytest.mark.parametrize("name", ["llama3-8b", "mixtral-8x7b"])
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_an_evaluation_step_takes_less_of_everything_than_training(name: str, data: st.DataObject) -> None:
    of, plan = workload(name), data.draw(plans(name))
    alone = forward(of, plan)
    training = evaluate(of, CLUSTER, plan, has_changes=False)
    assert alone.memory.need_bytes < training.memory.need_bytes
    assert alone.memory.fullest.gradients_bytes == alone.memory.fullest.optimizer_bytes == 0
    if isinstance(training, Infeasible):
        return
    assert alone.step.step_s < training.step.step_s
    assert alone.step.energy_j < training.step.energy_j
    assert alone.model_flop == pytest.approx(training.model_flop / 3, rel=CLOSE_FRAC)
    assert alone.mfu_frac <= alone.hfu_frac * (1 + CLOSE_FRAC)
    assert alone.plan.degree("tp") == plan.tensor_parallel


@pytest.mark.parametrize("name", ["llama3-8b", "mixtral-8x7b"])
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_parts_of_an_evaluation_step_add_up_and_nothing_is_done_backwards(name: str, data: st.DataObject) -> None:
    step = forward(workload(name), data.draw(plans(name))).step
    parts = (step.compute_s, step.host_s, step.exposed_s, step.bubble_s, step.update_s)
    assert sum(parts) == pytest.approx(step.step_s, rel=1e-6)  # style: a tolerance
    assert min(parts) >= -CLOSE_FRAC * step.step_s
    assert step.update_s == step.recompute_s == 0


def test_microbatches_come_out_at_the_pace_of_the_slowest_stage() -> None:
    of, plan = workload("llama3-8b"), Plan(pipeline_parallel=2, data_parallel=8)
    some, more = (forward(replace(of, global_batch=batch), plan).step.step_s for batch in (32, 64))
    one = forward(replace(of, global_batch=8), plan).step.step_s
    pace_s = (more - some) / 4  # 4 and 8 microbatches
    assert some - one == pytest.approx(3 * pace_s, rel=1e-6)  # style: a tolerance
    assert one > pace_s  # the other stage comes first


def test_parameters_that_are_sharded_are_gathered_and_gradients_are_not_reduced() -> None:
    of = workload("llama3-8b")
    by_stage = [forward(of, Plan(data_parallel=16, zero_stage=stage)) for stage in (0, 1, 2, 3)]
    assert [found.plan.zero_stage for found in by_stage] == [0, 0, 0, 3]
    assert len({found.step.step_s for found in by_stage[:3]}) == 1
    gathered = by_stage[3].step.comm[3]
    assert gathered.exposed_s + gathered.hidden_s > 0
    assert by_stage[0].step.comm[3].exposed_s + by_stage[0].step.comm[3].hidden_s == 0
    assert by_stage[3].memory.fullest.weights_bytes < by_stage[0].memory.fullest.weights_bytes / 15


@pytest.mark.parametrize("plan", [{"interleave": 2}, {"schedule": "dualpipe"}, {"schedule": "zb-v", "interleave": 2}])
def test_plans_whose_passes_have_no_meaning_forward_only_are_refused(plan: dict[str, object]) -> None:
    with pytest.raises(NotModelled, match=r"goes through its stages once.*pass --vpp 1 --schedule 1f1b"):
        forward(workload("llama3-8b"), Plan(pipeline_parallel=2, data_parallel=8, **plan))  # type: ignore[arg-type]
