from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from dovetail.hardware.catalog import chips
from dovetail.opsched import fast
from dovetail.opsched import work as work_module
from dovetail.opsched.compiled import plain_loops
from dovetail.opsched.fast import QUICK, list_schedule
from dovetail.opsched.problem import CoreSchedule, Tensors
from dovetail.opsched.tensors import peak_hbm_bytes
from dovetail.opsched.work import core_problem, work_of
from dovetail.parallel.block_memory import kept_bytes
from dovetail.parallel.frameworks import frameworks
from dovetail.workload.graph import Axis, Block, Ops, Phase
from dovetail.workload.models import models
from dovetail.workload.operators import Unit
from dovetail.workload.optimizer import Precision
from dovetail.workload.training import with_recompute
from dovetail.workload.workload import Workload
from tests.device_memory import block_memory

SHAPES = {"llama3-8b": (1, 2048), "bert-large": (8, 512), "gpt3-175b": (1, 2048)}
POLICIES = ("none", "selective", "full")


@pytest.fixture(autouse=True)
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling takes longer than all of these."""
    for module in (fast, work_module):
        monkeypatch.setattr(module, "compiled_loops", plain_loops)


@cache
def layer(name: str) -> Block:
    batch, seq = SHAPES.get(name, (1, 2048))
    workload = Workload(model=models[name](), global_batch=batch, seq=seq)
    return max(workload.training_graph().blocks, key=lambda block: block.is_layer * block.repeat)


@cache
def schedule(name: str, policy: str) -> CoreSchedule:
    work = work_of(with_recompute(layer(name).ops, policy), Precision())
    return list_schedule(core_problem(work, chips["nest-tpuv4"]()), QUICK)


def passing_peak_bytes(name: str, policy: str) -> float:
    found = schedule(name, policy)
    return peak_hbm_bytes(found) - found.problem.tensors.resident_bytes


def tensors(name: str, policy: str = "none", precision: Precision | None = None) -> tuple[Ops, Tensors]:
    ops = with_recompute(layer(name).ops, policy)
    return ops, work_of(ops, precision or Precision()).tensors


def row(ops: Ops, name: str) -> int:
    [found] = [i for i, own in enumerate(ops.names) if own == name]
    return found


def holders(ops: Ops, found: Tensors, tensor: int) -> set[str]:
    return {ops.names[user] for user in found.use_to[found.use_start[tensor] : found.use_start[tensor + 1]]}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", SHAPES)
def test_the_peak_of_a_layer_is_near_what_the_step_model_keeps_and_passes(name, policy):
    """It counts one buffer in the backward pass. Here the gradient that comes in stands beside the one that is made,
    and so do the layer's output and the gradients on the residual path."""
    block = layer(name)
    degrees = {axis: np.ones(1, np.int64) for axis in Axis}
    held = block_memory(block, policy, Precision(), frameworks["megatron-lm"], degrees)  # products add to gradients
    known_bytes = float(held.kept_bytes + held.passing_bytes)
    forward = block.ops.phase == Phase.FORWARD
    largest_bytes = 2.0 * float(block.ops.output_elements[forward].max())
    boundary_activation_bytes = 2.0 * block.boundary_activation_elements
    assert known_bytes < passing_peak_bytes(name, policy) < known_bytes + largest_bytes + 3 * boundary_activation_bytes


@pytest.mark.parametrize("name", SHAPES)
def test_the_peak_of_a_layer_does_not_rise_with_recompute(name):
    peaks = [passing_peak_bytes(name, policy) for policy in POLICIES]
    assert peaks[2] <= peaks[1] <= peaks[0]


@pytest.mark.parametrize("policy", [*POLICIES, "norm-activation"])
@pytest.mark.parametrize("name", [*SHAPES, "mixtral-8x7b", "deepseek-v3"])
def test_what_the_forward_pass_leaves_for_later_rows_is_what_the_step_model_keeps(name, policy):
    ops, found = tensors(name, policy)
    users = np.repeat(np.arange(len(found.maker)), np.diff(found.use_start))
    is_held_later = np.zeros(len(found.maker), dtype=bool)
    is_held_later[users[ops.phase[found.use_to] != Phase.FORWARD]] = True
    is_kept = is_held_later & (ops.phase[found.maker] == Phase.FORWARD)
    known_bytes = kept_bytes(layer(name), policy)
    assert found.tensor_bytes[is_kept].sum() == pytest.approx(known_bytes, rel=1e-9)


def test_rows_that_run_again_hold_what_gradients_read_and_the_first_is_dropped():
    ops, found = tensors("llama3-8b", "full")
    first, again = row(ops, "ffn_up"), row(ops, "ffn_up:again")
    assert found.tensor_bytes[first] == 0.0
    assert holders(ops, found, len(ops) + first) == {"ffn_silu_mul"}
    assert found.tensor_bytes[again] == found.tensor_bytes[len(ops) + first] > 0
    assert holders(ops, found, again) == {"ffn_silu_mul:again", "ffn_silu_mul:dx", "ffn_up:again"}


def test_what_is_kept_anyway_is_not_held_twice():
    ops, found = tensors("llama3-8b", "selective")
    assert {"attention_out:dw", "attention:dx"} < holders(ops, found, row(ops, "attention"))
    assert holders(ops, found, row(ops, "attention:again")) == {"attention:again"}


def test_rows_of_one_name_run_again_each_for_itself():
    ops, found = tensors("gpt3-175b", "full")
    firsts = [i for i, name in enumerate(ops.names) if name == "add"]
    assert len(firsts) == 2
    assert all(found.tensor_bytes[i] == 0.0 and found.tensor_bytes[len(ops) + i] > 0 for i in firsts)


def test_a_gradient_row_leaves_all_it_writes():
    ops, found = tensors("llama3-8b")
    written_bytes = ops.write_bytes
    for name in ("ffn_silu_mul:dx", "attention:dx"):
        assert found.tensor_bytes[row(ops, name)] == written_bytes[row(ops, name)] > 0
    assert found.tensor_bytes[row(ops, "ffn_silu_mul:dx")] == found.tensor_bytes[row(ops, "ffn_up")]


def test_gradients_of_rows_sent_to_experts_and_back_are_as_large_as_what_was_sent():
    ops, found = tensors("mixtral-8x7b")
    assert found.tensor_bytes[row(ops, "unpermute:dx")] == pytest.approx(
        found.tensor_bytes[row(ops, "expert_down")], rel=0.01
    )
    assert found.tensor_bytes[row(ops, "permute:dx")] == pytest.approx(found.tensor_bytes[row(ops, "norm_2")], rel=0.01)
    assert found.tensor_bytes[row(ops, "permute")] == 2 * found.tensor_bytes[row(ops, "norm_2")]  # two experts a token


def test_updates_hold_gradients_of_weights_and_no_others():
    ops, found = tensors("bert-large", precision=Precision(has_persistent_gradients=False))
    users = np.repeat(np.arange(len(found.maker)), np.diff(found.use_start))
    held = found.maker[users[ops.phase[found.use_to] == Phase.UPDATE]]
    assert set(ops.phase[held].tolist()) == {Phase.WEIGHT_GRAD}
    assert found.tensor_bytes[row(ops, "ffn_up:dw")] > 0


def test_an_exchange_in_a_group_of_one_holds_nothing_and_hands_its_input_on():
    ops, alone = tensors("llama3-8b")
    network = np.flatnonzero(ops.unit == Unit.NETWORK)
    assert len(network) > 0
    assert np.all(alone.tensor_bytes[network] == 0.0)
    assert {"ffn_up", "ffn_up:dw"} < holders(ops, alone, row(ops, "norm_2"))
    shared = work_of(ops, Precision(), np.where(ops.unit == Unit.NETWORK, 1e-3, 0.0)).tensors
    forward = network[ops.phase[network] == Phase.FORWARD]
    assert np.all(shared.tensor_bytes[forward] > 0)
    assert "ffn_up" not in holders(ops, shared, row(ops, "norm_2"))
