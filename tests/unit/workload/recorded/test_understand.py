from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.errors import InvalidInput, NotModelled
from dovetail.workload.graph import Phase
from dovetail.workload.layers import Sample
from dovetail.workload.operators import code_of
from dovetail.workload.optimizer import Precision
from dovetail.workload.recorded.understand import understood
from dovetail.workload.training import training_graph
from tests.unit.workload.recorded.tapes import BATCH, SEQ, VOCAB, WIDTH, B, S, Tape, names, part, pools_of

SAMPLE = Sample(batch=BATCH, seq=SEQ, dtype="bf16")


def test_a_head_that_shares_the_table_is_tied_to_it():
    tape = Tape().decoder(2, is_tied=True)
    captured = tape.captured()
    assert part(captured, "lm_head").is_tied
    assert captured.num_parameters == tape.num_parameters
    assert captured.forward(SAMPLE).num_parameters == tape.num_parameters


def test_a_bias_of_its_own_beside_a_tied_weight_is_an_operator_of_its_own():
    tape = Tape()
    x, table = tape.embedding()
    x = tape.layer(x, 0)
    tape.loss(tape.linear(x, VOCAB, where="head", weight=table, bias=True))
    captured = tape.captured()
    bias = next(each for each in pools_of(captured) if each.operator == "bias_add")
    assert (bias.weight, part(captured, "lm_head").bias) == (VOCAB, 0)
    assert captured.num_parameters == tape.num_parameters


def test_a_table_that_is_looked_up_twice_is_held_once():
    tape = Tape()
    x, table = tape.embedding()
    y = tape.add("embedding", table, tape.tokens(), shape=(B, S, WIDTH), where="again")
    tape.linear(tape.add("add", x, y), WIDTH)
    captured = tape.captured()
    assert captured.num_parameters == tape.num_parameters
    assert [each.weight for each in pools_of(captured) if each.operator == "embedding"] == [VOCAB * WIDTH, 0]


def test_layers_that_share_a_weight_hold_it_once():
    tape = Tape()
    x, _ = tape.embedding()
    weight = tape.weight(WIDTH, WIDTH)
    for index in range(4):
        x = tape.add("relu", tape.linear(x, WIDTH, weight=weight, where=f"layers.{index}"))
    captured = tape.captured()
    assert captured.num_parameters == tape.num_parameters
    flop = captured.forward(SAMPLE).model_flop
    assert flop == 4 * 2 * BATCH * SEQ * WIDTH * WIDTH


def test_a_recording_that_ends_in_logits_is_given_a_loss_and_says_so():
    tape = Tape()
    tape.linear(tape.embedding()[0], VOCAB, where="head")
    captured = tape.captured()
    assert names(captured)[-1] == "loss"
    message = f"no loss was recorded: softmax cross-entropy over the {VOCAB} columns of its output is assumed"
    assert message in captured.notes


def test_a_recording_with_a_loss_is_given_none():
    captured = Tape().decoder(2).captured()
    assert names(captured).count("loss") == 1
    assert not any("loss" in note for note in captured.notes)


def test_what_needs_nothing_but_tables_and_data_stands_first():
    tape = Tape()
    x, _ = tape.embedding()
    x = tape.layer(x, 0)
    places = tape.add("embedding", tape.weight(64, WIDTH), tape.tokens(), shape=(B, S, WIDTH), where="late")
    tape.linear(tape.add("add", x, places), VOCAB)
    assert [each.operator for each in pools_of(tape.captured())][:4] == ["embedding", "reduce", "embedding", "reduce"]


def test_a_mask_that_only_a_kernel_read_is_gone():
    tape = Tape()
    x, _ = tape.embedding()
    q, k, v = (tape.heads(tape.linear(x, WIDTH)) for _ in range(3))
    learnt = tape.add("mul", tape.weight(1, 4, 16, 16))
    tape.add("attention", q, k, v, learnt, shape=tape.shape(q))
    assert "scale" not in [each.operator for each in pools_of(tape.captured())]


def test_a_captured_model_is_laid_out_at_any_batch_and_length():
    captured = Tape().decoder(2).captured()
    assert captured.is_any_length
    wide = captured.forward(replace(SAMPLE, batch=6, seq=48))
    assert (wide.batch, wide.tokens_per_sample) == (6, 48)
    assert wide.num_parameters == captured.num_parameters


def test_a_model_with_shapes_for_one_length_alone_refuses_others():
    tape = Tape()
    x, _ = tape.embedding()
    longer = tape.add("concat", x, tape.weight(1, 3, WIDTH), shape=(B, lambda s: s + 3, WIDTH))
    tape.linear(longer, 8)
    captured = tape.captured()
    assert not captured.is_any_length
    assert captured.forward(SAMPLE).num_parameters == tape.num_parameters
    message = "toy was captured at seq=16, and its shapes are for that length alone; leave seq out, or capture it again"
    with pytest.raises(InvalidInput, match=message):
        captured.forward(replace(SAMPLE, seq=32))


def test_a_batch_and_a_length_may_be_asked_for():
    captured = understood(Tape().decoder(2).recorded(), batch=7, seq=128)
    assert (captured.batch, captured.seq) == (7, 128)
    as_recorded = understood(Tape().decoder(2).recorded())
    assert (as_recorded.batch, as_recorded.seq) == (BATCH, SEQ)


def test_steps_and_the_tool_are_told():
    tape = Tape().decoder(2)
    captured = understood(tape.recorded(), notes=("by hand",))
    assert (captured.num_steps, captured.tool, captured.notes[0]) == (len(tape.steps), "tape 1", "by hand")


def test_a_step_without_an_operator_is_refused_in_one_line():
    tape = Tape()
    tape.loss(tape.add("sort", tape.linear(tape.data(B, 8), 8), op="aten.sort"))
    with pytest.raises(NotModelled, match=r"^aten\.sort of \[2, 8\] in toy is not modelled with a gradient; [^\n]+$"):
        tape.captured()


def test_a_product_with_a_buffer_has_no_parameters():
    tape = Tape()
    x = tape.linear(tape.data(B, 8), 8)
    tape.add("linear", x, tape.buffer(8, 8), shape=(B, 8), where="mixer")
    captured = tape.captured()
    assert captured.num_parameters == tape.num_parameters == 64
    assert part(captured, "mixer").kind == "matmul"
    assert captured.forward(SAMPLE).model_flop == 2 * 2 * BATCH * 8 * 8


def test_what_has_no_gradient_is_laid_out_once_and_has_no_backward_pass():
    tape = Tape()
    tape.add("constant", shape=(S, S), dtype="bool")
    tape.linear(tape.embedding()[0], 8)
    graph = training_graph(tape.captured().forward(SAMPLE), Precision())
    phases = [
        Phase(int(phase))
        for block in graph.blocks
        for kind, phase in zip(block.ops.kind, block.ops.phase, strict=True)
        if kind == code_of("constant")
    ]
    assert set(phases) <= {Phase.FORWARD, Phase.RECOMPUTE}
    assert phases.count(Phase.FORWARD) == 1
