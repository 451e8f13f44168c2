"""Parameters that are not trained: they compute and take memory, and have neither gradient nor state."""

from __future__ import annotations

import pytest

from dovetail.errors import InvalidInput
from dovetail.parallel.checkpoint import checkpoint_bytes
from dovetail.parallel.memory import stage_memories
from dovetail.parallel.plan import Plan
from dovetail.parallel.sharding import shard
from dovetail.workload.graph import Phase
from dovetail.workload.layers import Sample
from dovetail.workload.optimizer import Precision
from dovetail.workload.training import training_graph
from tests.unit.workload.recorded.tapes import BATCH, SEQ, VOCAB, WIDTH, B, S, Tape

RANK = 4
SAMPLE = Sample(batch=BATCH, seq=SEQ, dtype="bf16")


def adapted(tape: Tape, x: int, where: str) -> int:
    """A frozen product, and beside it a trained one of a small rank (LoRA)."""
    base = tape.linear(x, WIDTH, weight=tape.frozen(WIDTH, WIDTH), where=f"{where}.base")
    down = tape.linear(x, RANK, where=f"{where}.lora_a")
    return tape.add("add", base, tape.linear(down, WIDTH, where=f"{where}.lora_b"), where=where)


def frozen_embedding(tape: Tape) -> int:
    return tape.add("embedding", tape.frozen(VOCAB, WIDTH), tape.tokens(), shape=(B, S, WIDTH), where="embed")


def lora(num_layers: int = 3) -> Tape:
    tape = Tape()
    x = frozen_embedding(tape)
    for index in range(num_layers):
        x = tape.add("add", x, adapted(tape, tape.add("relu", x), f"layers.{index}"))
    tape.loss(tape.linear(x, VOCAB, weight=tape.frozen(VOCAB, WIDTH), where="head"))
    return tape


NUM_FROZEN, NUM_TRAINED = 2 * VOCAB * WIDTH + 3 * WIDTH * WIDTH, 3 * 2 * RANK * WIDTH


def rows_of(graph, phase):
    return [
        name for block in graph.blocks for name, at in zip(block.ops.names, block.ops.phase, strict=True) if at == phase
    ]


def test_frozen_parameters_are_counted_and_are_not_trained():
    captured = lora().captured()
    assert captured.num_parameters == NUM_FROZEN + NUM_TRAINED
    assert captured.num_trained == NUM_TRAINED
    graph = captured.forward(SAMPLE)
    assert (graph.num_parameters, graph.num_trained) == (NUM_FROZEN + NUM_TRAINED, NUM_TRAINED)


def test_a_frozen_product_has_the_gradient_of_its_input_alone():
    graph = training_graph(lora().captured().forward(SAMPLE), Precision())
    weight_gradients = rows_of(graph, Phase.WEIGHT_GRAD)
    assert "lora_a:dw" in weight_gradients
    assert not [name for name in weight_gradients if name.startswith(("base", "lm_head", "embed"))]
    input_gradients = rows_of(graph, Phase.INPUT_GRAD)
    assert [name.rpartition("_")[2] for name in input_gradients if name.startswith("base")] == ["3:dx", "2:dx"]
    assert "lm_head:dx" in input_gradients
    updated = sum(
        int(block.repeat * block.ops.extents[row, 1])
        for block in graph.blocks
        for row in range(len(block.ops))
        if block.ops.phase[row] == Phase.UPDATE
    )
    assert updated == NUM_TRAINED


def test_memory_holds_state_and_gradients_of_what_is_trained():
    precision = Precision()
    graph = training_graph(lora().captured().forward(SAMPLE), precision)
    [memory] = stage_memories(shard(graph, Plan()), precision, [1.0])
    assert memory.weights_bytes == (NUM_FROZEN + NUM_TRAINED) * precision.weight_bytes
    assert memory.optimizer_bytes == NUM_TRAINED * precision.optimizer_bytes
    saved_bytes = (NUM_FROZEN + NUM_TRAINED) * precision.weight_bytes + NUM_TRAINED * precision.optimizer_bytes
    assert checkpoint_bytes(graph, precision) == saved_bytes


def test_nothing_goes_back_beyond_the_first_that_is_trained():
    tape = Tape()
    x = frozen_embedding(tape)
    for index in range(4):
        x = tape.add("relu", tape.linear(x, WIDTH, weight=tape.frozen(WIDTH, WIDTH), where=f"tower.{index}"))
    tape.loss(tape.linear(x, VOCAB, where="head"))
    graph = training_graph(tape.captured().forward(SAMPLE), Precision())
    backward = rows_of(graph, Phase.INPUT_GRAD) + rows_of(graph, Phase.WEIGHT_GRAD)
    assert not [name for name in backward if name.startswith(("tower", "relu", "embed"))]
    assert "lm_head:dw" in backward
    assert "lm_head:dx" not in backward


def test_what_is_trained_is_not_one_product_with_what_is_not():
    tape = Tape()
    x, _ = tape.embedding()
    gate = tape.linear(x, WIDTH, weight=tape.frozen(WIDTH, WIDTH), where="mlp.gate")
    up = tape.linear(x, WIDTH, where="mlp.up")
    tape.loss(tape.linear(tape.add("mul", tape.add("silu", gate), up), VOCAB, where="head"))
    captured = tape.captured()
    products = [part for stretch in captured.stretches for part in stretch.parts if part.kind == "linear"]
    assert sorted(part.frozen for part in products) == [0, 0, WIDTH * WIDTH]


def test_a_model_of_which_nothing_is_trained_is_refused():
    tape = Tape()
    tape.loss(tape.linear(frozen_embedding(tape), VOCAB, weight=tape.frozen(VOCAB, WIDTH), where="head"))
    with pytest.raises(InvalidInput, match="has no parameter that is trained"):
        tape.captured()
