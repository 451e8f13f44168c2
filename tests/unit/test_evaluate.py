from __future__ import annotations

from dataclasses import fields, replace

import pytest

from dovetail.comm.collectives import collectives
from dovetail.cost.cost import Cost
from dovetail.cost.costs import op_costs
from dovetail.cost.power import VOLTAGE_POWER, at_clock
from dovetail.cost.vector import CHUNK_FRAC
from dovetail.errors import InvalidInput
from dovetail.evaluate import Infeasible, Outcome, evaluate
from dovetail.hardware.clusters import clusters
from dovetail.parallel.plan import Overlap, Plan
from dovetail.parallel.sharding import shard
from dovetail.step.pipelines import PipelineShape, pipelines
from dovetail.step.work import COMM_AXES, HELD_FRAC, slowest_frac
from dovetail.workload.graph import Phase
from dovetail.workload.models import models
from dovetail.workload.workload import Workload
from tests.links_alone import links_alone

WORKLOAD = Workload(model=models["llama3-8b"](), global_batch=128, seq=8192)
CLUSTER = links_alone(clusters["dgx-h100"].build(64))
SLOWEST_FRAC = slowest_frac(64, CLUSTER.chip.calibration.clock_spread_frac)
UNLIMITED = replace(CLUSTER, chip=replace(CLUSTER.chip, tdp_w=10 * CLUSTER.chip.tdp_w))  # power never slows it
PLAN = Plan(tensor_parallel=8, sequence_parallel=True, data_parallel=8, zero_stage=1)
BUSY = Plan(data_parallel=64, zero_stage=3, recompute=("full",))  # communication is hidden, so products follow products


def outcome_of(plan: Plan = PLAN, workload: Workload = WORKLOAD, *, has_changes: bool = False) -> Outcome:
    outcome = evaluate(workload, CLUSTER, plan, has_changes=has_changes)
    assert isinstance(outcome, Outcome)
    return outcome


def exposed_s(outcome: Outcome, axis: str) -> float:
    return float(outcome.step.comm[COMM_AXES.index(axis)].exposed_s)


def test_tokens_and_samples_follow_from_the_step():
    outcome = outcome_of()
    assert outcome.samples_per_s == pytest.approx(128 / outcome.step.step_s)
    assert outcome.tokens_per_s == pytest.approx(128 * 8192 / outcome.step.step_s)


def test_the_same_question_has_the_same_answer():
    assert outcome_of(has_changes=True) == outcome_of(has_changes=True)


def test_a_tenth_more_of_a_resource_never_gains_more_than_a_tenth_nor_loses():
    gains = {e.resource: e.gain_frac for e in outcome_of(has_changes=True).elasticities}
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
    outcome = evaluate(WORKLOAD, slow, plan, has_changes=False)
    assert isinstance(outcome, Outcome)
    comm = outcome.step.comm[COMM_AXES.index("tp")]
    assert comm.exposed_s > comm.hidden_s > 0
    waiting = evaluate(WORKLOAD, slow, PLAN, has_changes=False)
    assert isinstance(waiting, Outcome)
    total = waiting.step.comm[COMM_AXES.index("tp")]
    assert comm.exposed_s + comm.hidden_s == pytest.approx(total.exposed_s + total.hidden_s)


def test_transfers_between_stages_are_waited_for_less_often_when_they_run_beside_compute():
    plan = replace(PLAN, pipeline_parallel=2, data_parallel=4)
    beside, waiting = outcome_of(plan), outcome_of(replace(plan, overlap=Overlap(pipeline=False)))
    comm = beside.step.comm[COMM_AXES.index("pp")]
    assert 0 < comm.exposed_s < exposed_s(waiting, "pp")
    assert exposed_s(waiting, "pp") == pytest.approx(comm.exposed_s + comm.hidden_s)
    assert beside.step.step_s < waiting.step.step_s


@pytest.mark.parametrize("schedule", pipelines.names())
def test_the_parts_of_a_step_add_up_under_every_schedule(schedule):
    shapes = [PipelineShape(num_stages=4, num_microbatches=8, interleave=interleave) for interleave in (1, 2)]
    cut = next(int(shape.interleave) for shape in shapes if not pipelines[schedule].problem(shape))
    plan = replace(PLAN, pipeline_parallel=4, data_parallel=2, recompute=("full",), schedule=schedule, interleave=cut)
    outcome = outcome_of(plan)
    step = outcome.step
    parts_s = step.compute_s + step.host_s + step.exposed_s + step.bubble_s + step.update_s
    assert parts_s == pytest.approx(step.step_s)
    assert step.bubble_s > 0


def test_splitting_backward_shortens_the_bubble_and_two_ways_hold_two_models():
    plan = replace(PLAN, pipeline_parallel=4, data_parallel=2, recompute=("full",))
    plain, split = outcome_of(plan), outcome_of(replace(plan, schedule="zb-h1"))
    twice = outcome_of(replace(plan, schedule="dualpipe"))
    assert split.step.bubble_s < plain.step.bubble_s
    weights = [sum(stage.weights_bytes for stage in outcome.memory.stages) for outcome in (plain, twice)]
    assert weights[1] == pytest.approx(2 * weights[0])
    assert twice.hardware_flop == pytest.approx(plain.hardware_flop)
    assert twice.step.compute_s == pytest.approx(plain.step.compute_s, rel=0.1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"schedule": "zb-h"}, "no pipeline schedule is named 'zb-h'; did you mean zb-h1"),
        ({"schedule": "zb-h1", "interleave": 2}, "zb-h1 takes a stage whole: interleave must be 1; got 2"),
        ({"schedule": "zb-v"}, "zb-v comes past each stage twice: interleave must be 2; got 1"),
        ({"schedule": "interleaved"}, "interleave must be 2 or more; got 1"),
        ({"interleave": 2, "microbatch": 32}, "the 2 microbatches to be a multiple of pipeline_parallel=4"),
        ({"schedule": "dualpipe", "microbatch": 32}, "2 x pipeline_parallel = 8 or more; got 2"),
        ({"schedule": "dualpipe", "pipeline_parallel": 1, "data_parallel": 8}, "must be even; got 1"),
    ],
)
def test_a_schedule_that_cannot_run_the_plan_says_its_rule(changes, words):
    plan = replace(PLAN, **{"pipeline_parallel": 4, "data_parallel": 2} | changes)
    with pytest.raises(InvalidInput) as error:
        evaluate(WORKLOAD, CLUSTER, plan)
    assert words in str(error.value)
    assert error.value.where == "schedule"


def test_a_pipeline_has_the_bubble_of_its_formula():
    plan = replace(PLAN, pipeline_parallel=4, data_parallel=2, recompute=("full",))
    outcome = outcome_of(plan)
    bubble_frac = outcome.step.bubble_s / (outcome.step.step_s - outcome.step.bubble_s)
    # (p - 1) / m, stages all but equal: head and loss make the last a little slower
    assert bubble_frac == pytest.approx(3 / outcome.num_microbatches, rel=0.15)


def test_hardware_flop_are_what_the_tensor_units_do():
    plain, full = outcome_of(), outcome_of(replace(PLAN, recompute=("full",)))
    tokens = WORKLOAD.global_batch * WORKLOAD.seq
    products = 6 * (8_030_261_248 - 128_256 * 4096 - 65 * 4096)  # all but look-ups and norms
    scores = 2 * 32 * 4096 * 8192  # a token's scores and weighted values in one layer stack, half of them masked
    # forward, and backward with the scores formed once more: 1 + 2.5 of it
    assert plain.hardware_flop / tokens == pytest.approx(products + 3.5 * scores, rel=0.0001)
    head = 6 * 128_256 * 4096
    again = (products - head) / 3 + scores
    assert (full.hardware_flop - plain.hardware_flop) / tokens == pytest.approx(again, rel=0.0001)
    assert full.model_flop == plain.model_flop
    assert plain.hfu_frac < CLUSTER.chip.calibration.tensor_frac


@pytest.mark.parametrize(
    ("zero_stage", "moved"),
    [
        (0, [("all-reduce", 4)]),
        (1, [("reduce-scatter", 4), ("all-gather", 2)]),
        (2, [("reduce-scatter", 4), ("reduce-scatter", 4), ("all-gather", 2)]),
        (3, [("reduce-scatter", 4), ("all-gather", 2), ("all-gather", 2)] * 2),
    ],
)
def test_data_parallel_ranks_exchange_what_their_zero_stage_says(zero_stage: int, moved: list[tuple[str, int]]):
    """Two microbatches, nothing overlapped: gradients in fp32, weights in bf16, all parameters once a move."""
    plan = Plan(data_parallel=64, zero_stage=zero_stage, recompute=("full",), overlap=Overlap(data=False))
    model = models["gpt2-345m"]()
    calibration = replace(
        CLUSTER.chip.calibration, exchange_s=0.0
    )  # else single blocks pay more starts than one of all
    cluster = replace(CLUSTER, chip=replace(CLUSTER.chip, calibration=calibration))
    outcome = evaluate(Workload(model=model, global_batch=128, seq=1024), cluster, plan, has_changes=False)
    assert isinstance(outcome, Outcome)
    group, link_frac = outcome.placement.data, calibration.link_frac
    expected_s = sum(collectives[name](size * 354_823_168, group, link_frac) for name, size in moved)
    # exchanges of single blocks pay more latencies than one of all
    assert exposed_s(outcome, "dp") == pytest.approx(expected_s, rel=0.02 if zero_stage < 2 else 0.1)
    assert exposed_s(outcome, "dp") >= expected_s * 0.999


def test_energy_is_idling_work_and_traffic():
    """At full clock, with no limit on power, every part of the energy adds to the others."""
    energy = CLUSTER.chip.energy
    kinds = [field.name for field in fields(energy) if field.name != "idle_w"]
    free = replace(energy, **dict.fromkeys(kinds, 0.0))

    def outcome_with(costs) -> Outcome:
        outcome = evaluate(WORKLOAD, replace(UNLIMITED, chip=replace(UNLIMITED.chip, energy=costs)), PLAN)
        assert isinstance(outcome, Outcome)
        assert outcome.step.clock_frac == SLOWEST_FRAC
        return outcome

    idle = outcome_with(free)
    assert idle.step.energy_j == pytest.approx(energy.idle_w * idle.step.step_s * 64)
    parts_j = {
        k: outcome_with(replace(free, **{k: getattr(energy, k)})).step.energy_j - idle.step.energy_j for k in kinds
    }
    assert parts_j["tensor_j_per_flop"] == pytest.approx(idle.hardware_flop * energy.tensor_j_per_flop)
    update_bytes = WORKLOAD.precision.update_bytes * 8_030_261_248
    assert parts_j["hbm_j_per_byte"] > update_bytes * energy.hbm_j_per_byte
    # whatever passes HBM passes the shared SRAM, and operands leave that more often than once
    hbm_bytes = parts_j["hbm_j_per_byte"] / energy.hbm_j_per_byte
    assert parts_j["sram_j_per_byte"] > hbm_bytes * energy.sram_j_per_byte
    assert 0 < parts_j["link_j_per_byte"] < parts_j["tensor_j_per_flop"]
    assert outcome_with(energy).step.energy_j == pytest.approx(idle.step.energy_j + sum(parts_j.values()))


def test_a_step_within_the_power_limit_saves_core_energy_and_takes_longer():
    energy, limited = CLUSTER.chip.energy, outcome_of(BUSY)
    full = evaluate(WORKLOAD, UNLIMITED, BUSY)
    cores = replace(energy, hbm_j_per_byte=0.0, link_j_per_byte=0.0, idle_w=0.0)
    core = evaluate(WORKLOAD, replace(UNLIMITED, chip=replace(UNLIMITED.chip, energy=cores)), BUSY)
    assert isinstance(full, Outcome)
    assert isinstance(core, Outcome)
    assert limited.step.clock_frac < full.step.clock_frac == pytest.approx(SLOWEST_FRAC)
    assert limited.step.step_s > full.step.step_s
    assert limited.mean_w <= CLUSTER.chip.tdp_w < full.mean_w

    def dynamic_j(outcome: Outcome) -> float:
        return float(outcome.step.energy_j - energy.idle_w * outcome.step.step_s * 64)

    saved_frac = 1 - (limited.step.clock_frac / SLOWEST_FRAC) ** VOLTAGE_POWER
    # the update, which runs at full clock, is far below the tolerance
    assert dynamic_j(full) - dynamic_j(limited) == pytest.approx(saved_frac * core.step.energy_j, rel=0.002)


def test_a_lower_power_limit_leaves_a_lower_clock_and_a_longer_step():
    steps = []
    quiet = replace(CLUSTER.chip.energy, link_j_per_byte=0.0)  # links are not held against the limit
    for tdp_w in (700.0, 600.0, 500.0):
        outcome = evaluate(WORKLOAD, replace(CLUSTER, chip=replace(CLUSTER.chip, tdp_w=tdp_w, energy=quiet)), BUSY)
        assert isinstance(outcome, Outcome)
        assert outcome.mean_w <= tdp_w
        steps.append(outcome.step)
    assert [s.clock_frac for s in steps] == sorted((s.clock_frac for s in steps), reverse=True)
    assert [s.step_s for s in steps] == sorted(s.step_s for s in steps)
    assert len({s.clock_frac for s in steps}) == 3


def test_an_update_without_data_parallelism_moves_every_state_of_every_parameter():
    plan = replace(PLAN, zero_stage=0)
    chip = CLUSTER.chip
    bandwidth = chip.hbm.bandwidth_bytes_per_s * chip.calibration.hbm_frac * CHUNK_FRAC
    moved_bytes = WORKLOAD.precision.update_bytes * 8_030_261_248 / 8
    at_once = replace(chip, calibration=replace(chip.calibration, launch_s=0.0, wait_s=0.0))
    outcome = evaluate(WORKLOAD, replace(CLUSTER, chip=at_once), plan, has_changes=False)
    assert isinstance(outcome, Outcome)
    assert outcome.step.update_s == pytest.approx(moved_bytes / bandwidth, rel=0.001)
    # launches, and small tensors that wait for themselves
    assert moved_bytes / bandwidth < outcome_of(plan).step.update_s < 1.2 * moved_bytes / bandwidth


def test_context_exchange_hides_behind_attention_and_no_other_compute():
    plan = Plan(tensor_parallel=8, sequence_parallel=True, context_parallel=8, zero_stage=1)
    compiled = replace(WORKLOAD, kernels="compiled")  # so that no wait for the host hides anything
    outcome = outcome_of(plan, compiled)
    assert outcome.step.host_s == 0.0
    comm = outcome.step.comm[COMM_AXES.index("cp")]
    waiting = outcome_of(replace(plan, overlap=Overlap(context=False)), compiled).step.comm[COMM_AXES.index("cp")]
    assert comm.exposed_s + comm.hidden_s == pytest.approx(waiting.exposed_s)
    assert comm.exposed_s > 0
    attention_s = core_s(plan, compiled, outcome.step.clock_frac) * outcome.num_microbatches
    assert 0 < comm.hidden_s <= attention_s < 0.5 * outcome.step.compute_s
    # on slow links all of attention has something beside it, and still no other compute has
    slow = evaluate(
        compiled,
        replace(CLUSTER, topology=CLUSTER.topology.with_link_scaled("infiniband", 0.1)),
        plan,
        has_changes=False,
    )
    assert isinstance(slow, Outcome)
    slow_s = core_s(plan, compiled, slow.step.clock_frac) * outcome.num_microbatches
    assert slow.step.comm[COMM_AXES.index("cp")].hidden_s == pytest.approx((1 - HELD_FRAC) * slow_s)


def core_s(plan: Plan, workload: Workload, clock_frac: float) -> float:
    """Seconds of the attention core in one microbatch at a clock, both ways."""
    total = Cost()
    for span, block in shard(workload.training_graph(), plan).held(0):
        ops = block.ops
        total += span.count * op_costs(ops, CLUSTER.chip).total(ops.is_core & (ops.phase != Phase.UPDATE))
    return float(at_clock(total, clock_frac).compute_s)


def test_long_causal_sequences_do_not_push_the_executed_share_beyond_what_the_chip_sustains():
    model = models["llama3-8b"]()
    workload = Workload(model=model, global_batch=8, seq=262_144)
    plan = Plan(tensor_parallel=8, sequence_parallel=True, context_parallel=8, zero_stage=1, recompute=("full",))
    outcome = evaluate(workload, CLUSTER, plan, has_changes=False)
    assert isinstance(outcome, Outcome)
    assert outcome.hfu_frac <= CLUSTER.chip.calibration.tensor_frac


def test_zero_trades_memory_for_communication():
    needs = [outcome_of(replace(PLAN, zero_stage=stage)).memory.fullest.total_bytes for stage in (0, 1)]
    assert needs[0] > needs[1]
    three = outcome_of(replace(PLAN, zero_stage=3))
    assert three.memory.fullest.weights_bytes == pytest.approx(outcome_of().memory.fullest.weights_bytes / 8)


def test_a_plan_that_does_not_fit_comes_back_with_changes_that_were_tried():
    answer = evaluate(WORKLOAD, CLUSTER, Plan(data_parallel=64))
    assert isinstance(answer, Infeasible)
    assert answer.memory.need_bytes > answer.memory.limit_bytes == CLUSTER.usable_bytes
    fitting = [lever for lever in answer.levers if lever.fits]
    assert fitting
    for lever in fitting:
        assert isinstance(evaluate(WORKLOAD, CLUSTER, lever.plan), Outcome), lever.change


def test_energy_is_at_least_idling_and_at_most_plausible():
    outcome = outcome_of()
    assert CLUSTER.chip.energy.idle_w < outcome.mean_w <= CLUSTER.chip.tdp_w


def test_fp8_products_make_the_step_shorter_and_change_no_memory():
    eight = replace(WORKLOAD, precision=replace(WORKLOAD.precision, compute="fp8"))
    assert outcome_of(BUSY, eight).step.step_s < 0.8 * outcome_of(BUSY).step.step_s
    assert outcome_of(BUSY, eight).memory == outcome_of(BUSY).memory


def test_fp8_gains_nothing_where_products_are_cut_so_small_that_casting_their_inputs_takes_as_long():
    eight = replace(WORKLOAD, precision=replace(WORKLOAD.precision, compute="fp8"))
    whole, cut = (outcome_of(plan, eight).step.step_s / outcome_of(plan).step.step_s for plan in (BUSY, PLAN))
    assert whole < 0.95 < cut


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


def test_the_update_is_in_the_energy():
    energy = CLUSTER.chip.energy
    silent = replace(energy, tensor_j_per_flop=0.0, vector_j_per_flop=0.0, link_j_per_byte=0.0, idle_w=0.0)
    cluster = replace(CLUSTER, chip=replace(CLUSTER.chip, energy=silent))
    energies, moved = [], []
    for moments in ("bf16", "fp32"):
        precision = replace(WORKLOAD.precision, moments=moments)
        outcome = evaluate(replace(WORKLOAD, precision=precision), cluster, PLAN, has_changes=False)
        assert isinstance(outcome, Outcome)
        energies.append(outcome.step.energy_j)
        moved.append(precision.update_bytes)
    # every parameter is updated once, wherever it lies; norms, which tensor-parallel ranks repeat, are negligible
    expected_j = (moved[1] - moved[0]) * 8_030_261_248 * (silent.hbm_j_per_byte + silent.sram_j_per_byte)
    assert energies[1] - energies[0] == pytest.approx(expected_j, rel=0.001)
