"""Compute and collectives on one chip: they slow each other, and dynamic arbitration beats every static split."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.comm.torus import Work
from dovetail.errors import InvalidInput
from dovetail.hardware.catalog import chips
from dovetail.step.one_device.contention import beside_blocks
from dovetail.step.one_device.shared_chip import Cores, Load, Step
from dovetail.step.one_device.shared_loop import shared_iteration
from dovetail.step.one_device.shared_program import fully_sharded, tensor_parallel
from dovetail.step.one_device.training_program import RUNS, rows_of
from dovetail.workload.models import models
from dovetail.workload.operators import OPERATORS
from dovetail.workload.workload import Workload

BUSY = Step(compute_s=1.0, hbm_frac=0.9, core_frac=0.1, issues=("a",))
QUIET = Step(compute_s=1.0, hbm_frac=0.1, core_frac=1.0)
WAITS = Step(compute_s=1.0, hbm_frac=0.5, core_frac=0.5, waits=("a",))
STEPS = (WAITS, BUSY, QUIET)
ARBITRATIONS = ("static", "priority", "dynamic")


def load(link_s: float = 0.5, hbm_frac: float = 0.4, core_frac: float = 0.0, latency_s: float = 0.0) -> dict[str, Load]:
    return {"a": Load(link_s=link_s, latency_s=latency_s, hbm_frac=hbm_frac, core_frac=core_frac)}


@pytest.mark.parametrize("arbitration", ARBITRATIONS)
def test_a_collective_that_takes_nothing_and_fits_is_free(arbitration):
    got = shared_iteration(STEPS, load(hbm_frac=0.0), arbitration)
    assert got.iteration_s == pytest.approx(3.0)
    assert got.blocking_s == 0


@pytest.mark.parametrize("arbitration", ARBITRATIONS)
def test_what_does_not_fit_is_waited_for(arbitration):
    got = shared_iteration(STEPS, load(link_s=1.75, hbm_frac=0.0), arbitration)
    assert got.iteration_s == pytest.approx(3.75)
    assert got.blocking_s == pytest.approx(0.75)


@pytest.mark.parametrize("arbitration", ARBITRATIONS)
def test_latency_is_waited_for_after_the_last_byte(arbitration):
    got = shared_iteration(STEPS, load(link_s=0.25, hbm_frac=0.0, latency_s=2.0), arbitration)
    assert got.blocking_s == pytest.approx(1.25)


def test_a_collective_with_priority_slows_a_row_that_needs_its_bandwidth():
    steps = (WAITS, BUSY, Step(compute_s=1.0, hbm_frac=0.9, core_frac=0.0))
    got = shared_iteration(steps, load(), "priority")
    assert got.slowed_s == pytest.approx(0.5 * (1 - 0.6 / 0.9), rel=1e-6)


def test_dynamic_arbitration_takes_only_what_is_free_while_all_is_in_time():
    assert shared_iteration(STEPS, load(), "dynamic").iteration_s == pytest.approx(3.0)


def test_held_cores_slow_rows_bound_by_cores_for_as_long_as_they_are_held():
    got = shared_iteration(STEPS, load(hbm_frac=0.0, core_frac=0.2), "priority")
    assert got.slowed_s == pytest.approx(0.5 * (1 - 0.8))


def held(num_units: int) -> dict[str, Load]:
    return {"a": Load(link_s=0.5, latency_s=0.0, hbm_frac=0.0, core_frac=0.2, num_units=num_units)}


def test_a_row_that_knows_its_kernel_slows_by_what_its_kernel_loses_not_by_the_share_held():
    quick, slow = ((4, 1.25), (8, 2.0)), ((4, 1.0), (8, 1.0))
    steps = (WAITS, replace(BUSY, slowdowns=slow), replace(QUIET, slowdowns=quick))
    assert shared_iteration(steps, held(8), "priority").slowed_s == pytest.approx(0.5 * (1 - 1 / 2))
    assert shared_iteration(steps, held(4), "priority").slowed_s == pytest.approx(0.5 * (1 - 1 / 1.25))
    assert shared_iteration(steps, held(0), "priority").slowed_s == pytest.approx(0.0)


def test_a_static_split_holds_its_units_whether_anything_is_sent_or_not():
    steps = tuple(replace(step, slowdowns=((2, 1.1), (4, 1.25), (8, 2.0))) for step in STEPS)
    assert shared_iteration(steps, held(8), "static").iteration_s == pytest.approx(6.0)
    assert shared_iteration(steps, held(8), "static", 0.5).iteration_s == pytest.approx(3.0 * 1.25)


@pytest.mark.parametrize("name", ["linear", "layernorm", "attention"])
def test_the_loop_and_the_contention_model_give_one_answer(name, llama):
    chip = chips["h100-sxm"]()
    for block in llama.training_graph().blocks:
        expected = beside_blocks(block.ops, chip, 16).compute_slowdown
        rows = rows_of(block.ops, chip, (16,))
        running = [i for i in range(len(block.ops)) if block.ops.phase[i] in RUNS]
        for i, row in zip(running, rows, strict=True):
            if OPERATORS[block.ops.kind[i]].name == name:
                step = Step(compute_s=1.0, hbm_frac=0.0, core_frac=0.5, slowdowns=row.slowdowns)
                assert step.speed_frac(1.0, Cores(frac=0.1, num_units=16)) == pytest.approx(1 / expected[i])


@pytest.mark.parametrize("core_frac", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("hbm_frac", [0.1, 0.4, 0.9])
@pytest.mark.parametrize("link_s", [0.2, 0.9, 1.6, 3.0])
def test_dynamic_arbitration_beats_every_static_split(link_s, hbm_frac, core_frac):
    loads = load(link_s, hbm_frac, core_frac)
    dynamic = shared_iteration(STEPS, loads, "dynamic").iteration_s
    for feed_frac in (0.25, 0.5, 0.75, 1.0):
        assert dynamic <= shared_iteration(STEPS, loads, "static", feed_frac).iteration_s * (1 + 1e-9)


@pytest.mark.parametrize("arbitration", ARBITRATIONS)
def test_no_iteration_is_shorter_than_its_compute(arbitration):
    got = shared_iteration(STEPS, load(2.0, 0.8, 0.2), arbitration)
    assert got.iteration_s >= got.alone_s
    assert got.slowed_s >= -1e-12


def test_an_unknown_arbitration_is_refused_with_a_hint():
    with pytest.raises(InvalidInput, match="did you mean dynamic"):
        shared_iteration(STEPS, load(), "dinamic")


def test_a_collective_without_link_time_is_refused():
    with pytest.raises(InvalidInput, match="time on its links"):
        load(link_s=0.0)


@pytest.fixture(scope="module")
def llama() -> Workload:
    model = models["llama3-8b"]()
    return Workload(model=model, global_batch=1, seq=model.seq)


def test_fully_sharded_gathers_every_block_twice_but_the_last_and_scatters_it_once(llama):
    payloads = fully_sharded(llama, chips["h100-sxm"]()).payloads
    gathered = sum(size for work, size in payloads.values() if work is Work.ALL_GATHER)
    scattered = sum(size for work, size in payloads.values() if work is Work.REDUCE_SCATTER)
    assert scattered == pytest.approx(2 * llama.model.published_parameters, rel=0.001)
    assert scattered < gathered < 2 * scattered


@pytest.mark.parametrize("build", [fully_sharded, lambda job, chip: tensor_parallel(job, chip, 8)])
def test_every_collective_is_issued_once_and_awaited_once_an_iteration(llama, build):
    made = build(llama, chips["h100-sxm"]())
    issued = sorted(name for step in made.steps for name in step.issues)
    awaited = sorted(name for step in made.steps for name in step.waits)
    assert issued == awaited == sorted(made.payloads)


def test_tensor_parallel_exchanges_four_tensors_a_layer_and_pass_or_more(llama):
    made = tensor_parallel(llama, chips["h100-sxm"](), 8)
    size = llama.seq * 4096 * 2
    layers = [1 for work, got in made.payloads.values() if got == size and work is not Work.ALL_REDUCE]
    assert len(layers) >= 2 * 32 * (4 + 4)


def test_dynamic_arbitration_takes_all_the_links_can_use_where_something_would_come_late():
    """Beside a row that wants 0.7 of HBM, 0.3 is free: 0.75 of a rate that takes 0.4. Beside a quiet row all is.

    So free bandwidth sends 1.75 s of links in two rows of a second, and 2.1 s would be waited for. At full rate the
    first row keeps 0.6 of HBM, lasts 0.7 / 0.6 s, and all is sent in time.
    """
    steps = (WAITS, BUSY, Step(compute_s=1.0, hbm_frac=0.7, core_frac=0.1), QUIET)
    late = shared_iteration(steps, load(link_s=2.1), "dynamic")
    assert late.iteration_s == pytest.approx(2.0 + 0.7 / 0.6 + 1.0)
    assert late.blocking_s == pytest.approx(0.0, abs=1e-9)
    in_time = shared_iteration(steps, load(link_s=1.7), "dynamic")
    assert in_time.iteration_s == pytest.approx(4.0)


def test_a_static_split_leaves_a_row_what_of_hbm_is_not_the_collectives():
    """0.4 of HBM is the collectives' own: rows that want 0.9 go at 0.6 / 0.9, whether one is under way or not."""
    steps = (WAITS, BUSY, Step(compute_s=1.0, hbm_frac=0.9, core_frac=0.1))
    got = shared_iteration(steps, load(link_s=5.0), "static")
    assert got.slowed_s == pytest.approx(2 * (0.9 / 0.6 - 1))
    assert got.blocking_s == pytest.approx(5.0 - 0.9 / 0.6)
