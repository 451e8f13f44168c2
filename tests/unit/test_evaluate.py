from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.evaluate import Infeasible, Outcome, evaluate
from dovetail.hardware.clusters import clusters
from dovetail.plan.plan import Overlap, Plan
from dovetail.schedule.stage import COMM_AXES
from dovetail.units import GIBI
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

WORKLOAD = Workload(model=models["llama3-8b"](), global_batch=128, seq=8192)
CLUSTER = clusters["dgx-h100"].build(64)
PLAN = Plan(tensor_parallel=8, sequence_parallel=True, data_parallel=8, zero_stage=1)


def outcome_of(plan: Plan = PLAN, workload: Workload = WORKLOAD) -> Outcome:
    outcome = evaluate(workload, CLUSTER, plan)
    assert isinstance(outcome, Outcome)
    return outcome


def exposed_s(outcome: Outcome, axis: str) -> float:
    return outcome.step.comm[COMM_AXES.index(axis)].exposed_s


def test_tokens_and_samples_follow_from_the_step():
    outcome = outcome_of()
    assert outcome.samples_per_s == pytest.approx(128 / outcome.step.step_s)
    assert outcome.tokens_per_s == pytest.approx(128 * 8192 / outcome.step.step_s)


def test_the_same_question_has_the_same_answer():
    assert outcome_of() == outcome_of()


def test_a_tenth_more_of_a_resource_never_gains_more_than_a_tenth_nor_loses():
    gains = {e.resource: e.gain_frac for e in outcome_of().elasticities}
    assert all(-1e-12 <= gain <= 0.1 + 1e-12 for gain in gains.values())  # style: a tolerance
    assert gains["tensor FLOP/s"] > gains["vector FLOP/s"]
    assert sum(gains.values()) <= 0.1 + 1e-9  # style: a tolerance


def test_gradients_that_do_not_overlap_are_waited_for():
    beside = outcome_of()
    waiting = outcome_of(replace(PLAN, overlap=Overlap(data=False)))
    assert exposed_s(waiting, "dp") > exposed_s(beside, "dp")
    assert waiting.step.step_s - beside.step.step_s == pytest.approx(exposed_s(waiting, "dp") - exposed_s(beside, "dp"))


def test_communication_that_compute_cannot_cover_is_exposed_though_it_overlaps():
    slow = replace(CLUSTER, topology=CLUSTER.topology.with_link_scaled("nvlink", 0.01))
    plan = replace(PLAN, overlap=Overlap(tensor=True))
    outcome = evaluate(WORKLOAD, slow, plan)
    assert isinstance(outcome, Outcome)
    comm = outcome.step.comm[COMM_AXES.index("tp")]
    assert comm.exposed_s > comm.hidden_s > 0
    waiting = evaluate(WORKLOAD, slow, PLAN)
    assert isinstance(waiting, Outcome)
    total = waiting.step.comm[COMM_AXES.index("tp")]
    assert comm.exposed_s + comm.hidden_s == pytest.approx(total.exposed_s + total.hidden_s)


def test_transfers_between_stages_are_exposed_only_while_filling_unless_told_otherwise():
    plan = replace(PLAN, pipeline_parallel=2, data_parallel=4)
    beside, waiting = outcome_of(plan), outcome_of(replace(plan, overlap=Overlap(pipeline=False)))
    comm = beside.step.comm[COMM_AXES.index("pp")]
    assert comm.hidden_s == pytest.approx(beside.num_microbatches * comm.exposed_s)
    assert exposed_s(waiting, "pp") == pytest.approx(comm.exposed_s + comm.hidden_s)


def test_a_pipeline_has_the_bubble_of_its_formula():
    plan = replace(PLAN, pipeline_parallel=4, data_parallel=2, recompute=("full",))
    outcome = outcome_of(plan)
    bubble_frac = outcome.step.bubble_s / (outcome.step.step_s - outcome.step.bubble_s)
    # (p - 1) / m, stages all but equal: embedding and head make the last a little slower
    assert bubble_frac == pytest.approx(3 / outcome.num_microbatches, rel=0.12)


def test_hardware_flop_exceed_model_flop_by_what_is_recomputed():
    plain, full = outcome_of(), outcome_of(replace(PLAN, recompute=("full",)))
    assert plain.hardware_flop == pytest.approx(plain.model_flop)
    assert full.model_flop == plain.model_flop
    assert full.hardware_flop / full.model_flop == pytest.approx(4 / 3, rel=0.03)  # all but the head once more


def test_zero_trades_memory_for_communication():
    needs = [outcome_of(replace(PLAN, zero_stage=stage)).memory.fullest.total_bytes for stage in (0, 1)]
    assert needs[0] > needs[1]
    three = outcome_of(replace(PLAN, zero_stage=3))
    assert three.memory.fullest.weights_bytes == pytest.approx(outcome_of().memory.fullest.weights_bytes / 8)


def test_a_plan_that_does_not_fit_comes_back_with_changes_that_were_tried():
    answer = evaluate(WORKLOAD, CLUSTER, Plan(data_parallel=64))
    assert isinstance(answer, Infeasible)
    assert answer.memory.need_bytes > answer.memory.limit_bytes == 80 * GIBI
    fitting = [lever for lever in answer.levers if lever.fits]
    assert fitting
    for lever in fitting:
        assert isinstance(evaluate(WORKLOAD, CLUSTER, lever.plan), Outcome), lever.change


def test_energy_is_at_least_idling_and_at_most_plausible():
    outcome = outcome_of()
    assert CLUSTER.chip.energy.idle_w < outcome.mean_w < 1.3 * CLUSTER.chip.tdp_w


def test_fp8_products_make_the_step_shorter_and_change_no_memory_but_the_weights():
    eight = replace(WORKLOAD, precision=replace(WORKLOAD.precision, compute="fp8"))
    assert outcome_of(workload=eight).step.step_s < outcome_of().step.step_s
    assert outcome_of(workload=eight).memory == outcome_of().memory


def test_tied_embeddings_on_two_stages_exchange_their_gradients():
    model = models["gpt2-1.5b"]()
    tied = Workload(model=model, global_batch=64, seq=1024)
    untied = replace(tied, model=replace(model, architecture=replace(model.architecture, is_tied=False)))  # type: ignore[type-var]
    plan = Plan(pipeline_parallel=8, data_parallel=8)
    elements = 50_257 * 1600
    outer = next(d for d in CLUSTER.topology.dimensions if d.name != "nvlink")
    link_frac = CLUSTER.chip.calibration.link_frac
    expected_s = outer.link.latency_s + elements * 4 / (outer.link.bandwidth_bytes_per_s * link_frac)
    extra_s = exposed_s(outcome_of(plan, tied), "pp") - exposed_s(outcome_of(plan, untied), "pp")
    assert extra_s == pytest.approx(expected_s)


def test_tables_of_which_few_rows_are_looked_up_have_few_gradients():
    workload = Workload(model=models["dlrm"](), global_batch=512 * 64, seq=1)
    outcome = outcome_of(Plan(data_parallel=64, expert_parallel=64, microbatch=512), workload)
    memory = outcome.memory.fullest
    assert memory.gradients_bytes < memory.weights_bytes * 2
    assert outcome.step.update_s < 0.01
