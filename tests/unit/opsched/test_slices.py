from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from dovetail.cost.costs import op_costs
from dovetail.errors import InvalidInput
from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import Chip
from dovetail.opsched import batch, fast
from dovetail.opsched import work as work_module
from dovetail.opsched.batch import scheduled
from dovetail.opsched.check import held_hbm_bytes, violations
from dovetail.opsched.compiled import plain_loops
from dovetail.opsched.fast import QUICK, list_schedule
from dovetail.opsched.problem import HBM, TENSOR, VECTOR, WHOLE, CoreProblem, dag_of
from dovetail.opsched.slices import slice_costs, splits
from dovetail.opsched.tensors import peak_hbm_bytes, peak_sram_bytes
from dovetail.opsched.work import Work, chip_batch, core_problem, work_of
from dovetail.workload.graph import Ops, Phase
from dovetail.workload.models import models
from dovetail.workload.operators import Unit
from dovetail.workload.optimizer import Precision
from dovetail.workload.training import with_recompute
from dovetail.workload.workload import Workload

NAMES = ("tpuv2-like", "tpuv4-like", "nvdla-like")


@pytest.fixture(autouse=True)
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling takes longer than all of these."""
    for module in (batch, fast, work_module):
        monkeypatch.setattr(module, "compiled_loops", plain_loops)


@cache
def layer() -> Ops:
    workload = Workload(model=models["bert-large"](), global_batch=4, seq=512)
    return with_recompute(workload.training_graph().blocks[1].ops, "none")


@cache
def work() -> Work:
    return work_of(layer(), Precision())


@cache
def problem(name: str = "tpuv2-like") -> CoreProblem:
    return core_problem(work(), chips[name]())


def test_splits_are_powers_of_two_and_all():
    assert splits(1) == (1,)
    assert splits(8) == (1, 2, 4, 8)
    assert splits(6) == (1, 2, 4, 6)


@pytest.mark.parametrize("name", NAMES)
def test_an_operator_alone_on_all_cores_takes_what_the_cost_model_says(name):
    chip: Chip = chips[name]()
    costs = slice_costs(layer(), (chip,), np.zeros(len(layer())))
    alone_s = op_costs(layer(), chip).compute_s
    slices = costs.slices
    is_whole = (slices.num_tensor == chip.tensor.num_units) & (slices.num_vector == chip.vector.num_units)
    for unit, is_tensor in ((Unit.TENSOR, True), (Unit.VECTOR, False)):
        [slot] = np.flatnonzero(is_whole & (slices.is_tensor == is_tensor))
        rows = layer().unit == unit
        assert costs.compute_s[rows, slot] == pytest.approx(alone_s[rows], rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_more_cores_never_take_longer_and_needs_are_within_the_chip(name):
    found = problem(name)
    modes = found.modes
    assert np.all(modes.need <= found.stock)
    for first, last in zip(modes.start[:-1], modes.start[1:], strict=True):
        assert np.all(np.diff(modes.beats[first:last]) >= 0)
        cores = modes.need[first:last, [TENSOR, VECTOR]].sum(axis=1)
        assert np.all(np.diff(cores) <= 0)  # longer modes are those on fewer cores


def test_what_does_little_but_move_needs_most_of_the_hbm():
    found = problem()
    update = layer().phase == Phase.UPDATE
    largest = np.flatnonzero(update)[layer().output_elements[update].argmax()]
    assert found.modes.need[found.modes.start[largest], HBM] > 0.8 * WHOLE


def test_attention_holds_vector_cores_beside_tensor_cores():
    found = problem("tpuv4-like")
    [row] = [i for i, name in enumerate(layer().names) if name.endswith("attention") or name == "attention"][:1]
    mode = found.modes.start[row]
    assert found.modes.need[mode, TENSOR] > 0
    assert found.modes.need[mode, VECTOR] > 0


def test_beats_hide_nothing_that_matters():
    found = problem()
    shortest_s = found.modes.beats[found.modes.start[:-1]] * found.beat_s
    exact_s = op_costs(layer(), chips["tpuv2-like"]()).compute_s
    assert shortest_s.sum() == pytest.approx(exact_s.sum(), rel=2e-3)


def test_a_batch_gives_each_chip_its_own_problem():
    built = [chips[name]() for name in NAMES]
    together = chip_batch(work(), built)
    times = scheduled(together)
    for index, name in enumerate(NAMES):
        alone = problem(name)
        own = together.problem(index)
        assert np.array_equal(own.modes.beats, alone.modes.beats)
        assert np.array_equal(own.modes.need, alone.modes.need)
        listed = list_schedule(own, QUICK)
        assert violations(listed) == []
        assert listed.bound_s <= times.makespan_s[index] * (1 + 1e-12)


def test_a_batch_says_which_cores_are_short():
    base = chips["tpuv2-like"]()
    few = replace(base, vector=replace(base.vector, num_units=1, num_lanes=1, peak_flop_per_s=base.clock_hz * 2))
    assert scheduled(chip_batch(work(), (few,))).bottleneck.tolist() == [VECTOR]


def test_exchanges_take_the_time_they_are_given_and_no_cores():
    rows = np.flatnonzero(layer().unit == Unit.NETWORK)
    assert len(rows), "the layer has no exchange"
    free = list_schedule(problem(), QUICK)
    held = core_problem(work_of(layer(), Precision(), np.full(len(layer()), free.makespan_s)), chips["tpuv2-like"]())
    assert np.all(held.modes.need[held.modes.start[:-1][rows]] == 0)
    assert list_schedule(held, QUICK).makespan_s > 1.9 * free.makespan_s


def test_the_peak_is_the_most_held_at_any_start():
    schedule = list_schedule(problem(), QUICK)
    moments = [held_hbm_bytes(schedule, int(now)) for now in np.unique(schedule.start_beats)]
    assert peak_hbm_bytes(schedule) == pytest.approx(max(moments))


def test_a_step_holds_its_weights_state_and_kept_activations():
    schedule = list_schedule(problem(), QUICK)
    tensors = schedule.problem.tensors
    num_parameters = (layer().weight_elements + layer().bias_elements)[layer().phase == Phase.FORWARD].sum()
    assert tensors.resident_bytes == pytest.approx(18.0 * num_parameters)  # mixed-precision Adam, 18 bytes a parameter
    forward = layer().phase == Phase.FORWARD
    kept_bytes = 2.0 * layer().output_elements[forward & (layer().need > 0)].sum()
    assert peak_hbm_bytes(schedule) > tensors.resident_bytes + kept_bytes


def test_blocks_in_sram_are_within_it():
    for name in NAMES:
        schedule = list_schedule(problem(name), QUICK)
        assert 0 < peak_sram_bytes(schedule) <= chips[name]().sram.capacity_bytes * (1 + 1e-9)


def test_a_circle_and_a_need_beyond_the_chip_are_refused():
    with pytest.raises(InvalidInput, match="circle"):
        dag_of(2, np.array([0, 1]), np.array([1, 0]))
    found = problem()
    with pytest.raises(InvalidInput, match="more than the chip has"):
        replace(found, stock=np.array([1, 1, WHOLE, WHOLE, WHOLE]))
