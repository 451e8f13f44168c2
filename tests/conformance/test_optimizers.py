"""Every optimizer says what it keeps, moves, sends and is called; forget a piece and a test here names it."""

from __future__ import annotations

import dataclasses
from functools import cache

import numpy as np
import pytest

import dovetail as dv
from dovetail.accuracy.one_operator import OperatorQuery, op_answer
from dovetail.evaluate import Outcome, evaluate, memory_use
from dovetail.hardware.catalog import chips
from dovetail.hardware.clusters import clusters
from dovetail.parallel.checkpoint import checkpoint_bytes, device_checkpoint_bytes
from dovetail.parallel.plan import Plan, columns_of
from dovetail.parallel.sharding import executed_flop, shard
from dovetail.report.launchers.fallbacks import as_run
from dovetail.report.launchers.frameworks import launchers
from dovetail.report.methods import method_records
from dovetail.step.step import training_step, training_steps
from dovetail.workload.graph import Graph, Phase
from dovetail.workload.models import models
from dovetail.workload.operators import OPERATORS, Unit, dtype_bytes
from dovetail.workload.optimizer import Precision
from dovetail.workload.optimizers import FRAMEWORKS, LaunchName, NotOffered, optimizers, update_operator_names
from dovetail.workload.workload import Workload

CLUSTER = clusters["dgx-h100"].build(16)
PLANS = (
    Plan(data_parallel=16),
    Plan(data_parallel=16, zero_stage=1),
    Plan(tensor_parallel=2, pipeline_parallel=2, data_parallel=4, zero_stage=2),
    Plan(tensor_parallel=4, sequence_parallel=True, data_parallel=4, zero_stage=3, recompute=("full",)),
    Plan(tensor_parallel=8, pipeline_parallel=2, schedule="zb-h1"),
)
EXPERTS = Plan(data_parallel=16, expert_parallel=8, zero_stage=1)
every_optimizer = pytest.mark.parametrize("name", optimizers.names())


@cache
def workload(name: str, model: str = "llama3-8b", batch: int = 64) -> Workload:
    """Four layers of a catalogue model, updated by the optimizer `name`."""
    entry = models[model]()
    short = dataclasses.replace(entry, architecture=dataclasses.replace(entry.architecture, num_layers=4))  # type: ignore[type-var]
    return Workload(model=short, global_batch=batch, seq=1024, precision=Precision(optimizer=name))


@cache
def graph(name: str, model: str = "llama3-8b", batch: int = 64) -> Graph:
    return workload(name, model, batch).training_graph()


def state_bytes(name: str, plan: Plan) -> list[float]:
    pieces = shard(graph(name), plan)
    return [float(stage.optimizer_bytes) for stage in memory_use(pieces, workload(name).precision, 1e15).stages]


@every_optimizer
def test_an_optimizer_says_what_it_is_and_where_that_stands(name: str) -> None:
    entry = optimizers[name]
    assert entry.summary, f"{name} has no summary, which `dovetail methods` shows"
    assert entry.source, f"{name} has no source"
    for update in entry.updates:
        assert update.flop_per_parameter > 0, f"the update of {name} computes nothing"
        assert all(state.name for state in update.states), f"a state of {name} has no name"
    assert update_operator_names() <= {operator.name for operator in OPERATORS if operator.unit == Unit.VECTOR}


@every_optimizer
def test_an_optimizer_is_read_by_its_name_and_its_aliases(name: str) -> None:
    entry = optimizers[name]
    for alias in (name, *entry.aliases):
        assert Precision(optimizer=alias).optimizer == name
    others = {other for key, one in optimizers.items() if key != name for other in (key, *one.aliases)}
    assert not {name, *entry.aliases} & others, f"{name} shares a name with another optimizer"


@every_optimizer
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_framework_is_told_of_an_optimizer_or_said_not_to_have_it(name: str, framework: str) -> None:
    found = optimizers[name].launch.get(framework)
    assert found is not None, f"the entry of {name} says nothing of {framework}: give it a LaunchName or NotOffered"
    assert found.source, f"{name} has no source for its name in {framework}"
    assert found.name if isinstance(found, LaunchName) else found.why


def test_every_launcher_is_among_the_frameworks_that_entries_are_about() -> None:
    assert set(launchers.names()) <= set(FRAMEWORKS)


@every_optimizer
@pytest.mark.parametrize("framework", launchers.names())
def test_a_launch_names_the_optimizer_or_says_that_it_cannot(name: str, framework: str) -> None:
    run, plan = workload(name), Plan(data_parallel=8, zero_stage=2 if framework in ("torchtitan", "fsdp2") else 1)
    made = launchers[framework](run, clusters["dgx-h100"].build(8), plan)
    found = optimizers[name].launched_by(framework)
    told = [one for one in made.missing if one.what.startswith(f"optimizer {name}")]
    ran, _ = as_run(run, plan, made.missing)
    if isinstance(found, NotOffered):
        assert [one.why for one in told] == [found.why]
        assert ran.precision.optimizer == "adam"
        return
    assert not told
    assert ran.precision.optimizer == name
    assert (found.sharded or found.name) in f"{' '.join(made.words)} {made.config} {' '.join(made.notes)}"
    assert not found.since or any(found.since in note for note in made.notes)


@every_optimizer
def test_an_optimizer_is_listed_by_the_methods_command(name: str) -> None:
    entry = optimizers[name]
    listed = [one for one in method_records() if (one["kind"], one["name"]) == ("optimizer", name)]
    assert [one["summary"] for one in listed] == [entry.summary]


@every_optimizer
def test_an_update_moves_at_least_the_gradient_in_and_the_weight_out(name: str) -> None:
    precision = Precision(optimizer=name)
    least_bytes = dtype_bytes(precision.gradients) + precision.weight_bytes
    assert precision.update_bytes >= least_bytes + 2 * precision.optimizer_bytes
    assert precision.matrix_update_bytes >= least_bytes + 2 * precision.matrix_optimizer_bytes


@every_optimizer
def test_state_is_kept_unless_an_optimizer_can_go_without(name: str) -> None:
    entry = optimizers[name]
    bare = Precision(optimizer=name, compute="fp32")  # no master weights
    state = checkpoint_bytes(graph(name), bare) - graph(name).num_parameters * bare.weight_bytes
    assert state > 0, f"{name} keeps no state: give its update the states that it keeps"
    if entry.is_momentum_optional:
        assert dataclasses.replace(bare, has_momentum=False).optimizer_bytes == 0
    else:
        with pytest.raises(dv.InvalidInput, match="momentum"):
            dataclasses.replace(bare, has_momentum=False)


@every_optimizer
def test_the_dtype_of_moments_is_followed_or_refused(name: str) -> None:
    whole = checkpoint_bytes(graph(name), Precision(optimizer=name))
    if optimizers[name].follows_moments:
        assert checkpoint_bytes(graph(name), Precision(optimizer=name, moments="bf16")) < whole
    else:
        with pytest.raises(dv.InvalidInput, match="moments"):
            Precision(optimizer=name, moments="bf16")


@every_optimizer
@pytest.mark.parametrize("others", [{}, {"tensor_parallel": 2}, {"pipeline_parallel": 2}])
def test_zero_divides_the_state(name: str, others: dict[str, int]) -> None:
    whole, shared = (state_bytes(name, Plan(data_parallel=8, zero_stage=stage, **others)) for stage in (0, 1))  # type: ignore[arg-type]
    assert shared == pytest.approx([each / 8 for each in whole], rel=1e-12)
    assert min(whole) > 0


@every_optimizer
def test_a_checkpoint_has_the_state_that_devices_have(name: str) -> None:
    precision, pieces = workload(name).precision, shard(graph(name), Plan())
    kept = memory_use(pieces, precision, 1e15).stages[0]
    assert checkpoint_bytes(graph(name), precision) == pytest.approx(float(kept.optimizer_bytes + kept.weights_bytes))
    assert device_checkpoint_bytes(pieces, precision) == pytest.approx(checkpoint_bytes(graph(name), precision))


@every_optimizer
def test_many_plans_at_once_are_what_they_are_one_by_one(name: str) -> None:
    precision = workload(name).precision
    together = training_steps(graph(name), columns_of(PLANS), CLUSTER, precision)
    for row, plan in enumerate(PLANS):
        alone = training_step(graph(name), plan, CLUSTER, precision)
        for figure in ("step_s", "update_s", "energy_j"):
            assert np.asarray(getattr(together, figure))[row] == pytest.approx(float(getattr(alone, figure)), rel=1e-9)
        assert 0 < float(alone.update_s) < float(alone.step_s)


@every_optimizer
@pytest.mark.parametrize("plan", [Plan(data_parallel=16, zero_stage=1), Plan(tensor_parallel=2, data_parallel=8)])
def test_an_update_runs_once_whatever_the_number_of_microbatches(name: str, plan: Plan) -> None:
    """So every further batch adds the same."""
    once, twice, thrice = (executed_flop(shard(graph(name, batch=batch), plan)) for batch in (64, 128, 192))
    assert twice - once == pytest.approx(thrice - twice, rel=1e-12)
    update = once - (twice - once)
    has_products = any(one.products for one in optimizers[name].updates)
    assert update > 0.0 if has_products else update == pytest.approx(0.0, abs=1e-9 * once)
    updates = [training_step(graph(name, batch=b), plan, CLUSTER, workload(name).precision).update_s for b in (64, 128)]
    assert updates[0] == updates[1]


@every_optimizer
def test_the_models_flop_know_nothing_of_the_optimizer(name: str) -> None:
    assert graph(name).model_flop == graph("adam").model_flop


@every_optimizer
@pytest.mark.parametrize("model", ["llama3-8b", "mixtral-8x7b"])
def test_every_parameter_is_updated_just_once(name: str, model: str) -> None:
    found = 0
    for block in graph(name, model).blocks:
        ops = block.ops
        is_update = (ops.phase == Phase.UPDATE) & (ops.unit == Unit.VECTOR) & ~ops.is_tied
        found += block.repeat * int(ops.extents[is_update].prod(axis=1).sum())
    assert found == graph(name, model).num_parameters


@every_optimizer
def test_experts_are_updated_where_they_are(name: str) -> None:
    """Whatever shards a model, its state is all there, and a step of it can be timed."""
    made = evaluate(workload(name, "mixtral-8x7b"), CLUSTER, EXPERTS, has_changes=False)
    assert isinstance(made, Outcome)
    saved = device_checkpoint_bytes(shard(graph(name, "mixtral-8x7b"), EXPERTS), workload(name).precision)
    assert 16 * saved == pytest.approx(
        checkpoint_bytes(graph(name, "mixtral-8x7b"), workload(name).precision), rel=1e-3
    )


@every_optimizer
def test_the_operator_of_an_update_moves_its_bytes(name: str) -> None:
    precision, size = Precision(optimizer=name, compute="fp32"), (4096, 8192)
    found = op_answer(OperatorQuery(kind=name, dims=size), chips["h100-sxm"]())
    assert (found.phase, found.dtype) == ("update", "fp32")
    least = size[0] * size[1] * min(precision.update_bytes, precision.matrix_update_bytes)
    assert least <= found.hbm_bytes <= 1.001 * max(least, size[0] * size[1] * precision.matrix_update_bytes)


@every_optimizer
def test_a_spec_names_it_for_simulate_and_plan(name: str) -> None:
    spec = {
        "workload": {"model": "gpt2-345m", "global_batch": 32, "seq": 512, "precision": {"optimizer": name}},
        "cluster": {"name": "dgx-h100", "devices": 8},
    }
    simple = dv.simulate({**spec, "plan": {"data_parallel": 8, "zero_stage": 1}})
    best = dv.plan(spec, limit=1)
    assert simple.fits
    assert 0 < best.step_s <= simple.step_s
