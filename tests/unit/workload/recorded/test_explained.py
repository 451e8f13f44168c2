from __future__ import annotations

import pytest

from dovetail.workload.layers import Sample
from dovetail.workload.optimizer import Precision
from dovetail.workload.recorded.understand import understood
from dovetail.workload.training import training_graph
from tests.unit.workload.recorded.tapes import BATCH, SEQ, VOCAB, WIDTH, Tape


def backward_flop() -> float:
    """Of the products of all gradients of a decoder."""
    forward = Tape().decoder(2).captured().forward(Sample(batch=BATCH, seq=SEQ, dtype="bf16"))
    return training_graph(forward, Precision()).model_flop - forward.model_flop


def test_a_decoder_that_is_divided_whole_needs_no_word():
    assert Tape().decoder(2).captured().notes == ()


def test_products_that_every_device_does_whole_are_named_with_their_share():
    tape = Tape()
    x = tape.layer(tape.embedding()[0], 0)
    x = tape.linear(tape.norm(x), WIDTH, where="adapter")
    tape.loss(tape.linear(tape.norm(x), VOCAB, where="head"))
    (note,) = tape.captured().notes
    assert note.startswith("tensor parallelism divides ")
    assert "each device does the rest whole: adapter (" in note


def test_gradients_that_were_recorded_as_they_follow_need_no_word():
    assert understood(Tape().decoder(2).recorded(), backward_flop=backward_flop()).notes == ()


@pytest.mark.parametrize(("factor", "told"), [(2.0, "50 % fewer FLOP"), (0.5, "100 % more FLOP")])
def test_gradients_that_were_recorded_otherwise_are_told(factor, told):
    (note,) = understood(Tape().decoder(2).recorded(), backward_flop=factor * backward_flop()).notes
    assert told in note


def test_layers_that_share_their_weights_are_told():
    tape = Tape()
    x, _ = tape.embedding()
    up, down = tape.weight(128, WIDTH), tape.weight(WIDTH, 128)
    for index in range(6):
        where = f"layers.{index}"
        wide = tape.add("gelu", tape.linear(tape.norm(x, where=where), 128, weight=up, where=where), where=where)
        x = tape.add("add", x, tape.linear(wide, WIDTH, weight=down, where=where), where=where)
    tape.loss(tape.linear(tape.norm(x, where="norm"), VOCAB, where="head"))
    assert any("layers share their weights" in note for note in tape.captured().notes)
    assert not any("share their weights" in note for note in Tape().decoder(4, is_tied=True).captured().notes)
