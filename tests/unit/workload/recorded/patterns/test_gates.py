from __future__ import annotations

import pytest

from dovetail.workload.recorded.patterns.cones import take_cones
from dovetail.workload.recorded.patterns.gates import take_gates
from tests.unit.workload.recorded.tapes import B, S, Tape, taken, words


def gated(*, word: str = "silu", is_cast: bool = False, is_last: bool = False) -> tuple[Tape, int, int, int]:
    """A gate through an activation, times the other; the activation's output is the last number."""
    tape = Tape()
    x = tape.data(B, S, 8)
    gate, up = tape.linear(x, 16), tape.linear(x, 16)
    active = tape.add(word, gate)
    through = tape.add("cast", active) if is_cast else active
    operands = (up, through) if is_last else (through, up)
    tape.linear(tape.add("mul", *operands), 8)
    return tape, gate, up, active


@pytest.mark.parametrize("word", ["silu", "gelu"])
@pytest.mark.parametrize("is_cast", [False, True])
@pytest.mark.parametrize("is_last", [False, True])
def test_an_activation_times_another_product_is_one_gated_operator(word, is_cast, is_last):
    tape, gate, up, _ = gated(word=word, is_cast=is_cast, is_last=is_last)
    flow = taken(tape, take_cones, take_gates)
    (node,) = (node for node in flow.nodes if node.word == "cone")
    assert node.attributes["operator"] == f"{word}_mul"
    assert node.inputs == [gate, up]
    assert "mul" not in words(flow)


def test_an_activation_that_others_read_too_is_no_gate():
    tape, _, _, active = gated()
    tape.linear(active, 8)
    flow = taken(tape, take_cones, take_gates)
    assert [node.attributes["operator"] for node in flow.nodes if node.word == "cone"] == ["silu"]
    assert "mul" in words(flow)


def test_relu_is_no_gate_that_a_kernel_knows():
    tape, *_ = gated(word="relu")
    assert "mul" in words(taken(tape, take_cones, take_gates))


def test_one_number_a_row_is_no_gate_of_a_feed_forward_layer():
    tape = Tape()
    x = tape.data(B, S, 8)
    gate = tape.add("silu", tape.linear(x, 1))
    tape.add("mul", gate, tape.linear(x, 16))
    assert "mul" in words(taken(tape, take_cones, take_gates))


def test_an_activation_added_to_another_product_is_no_gate():
    tape = Tape()
    x = tape.data(B, S, 8)
    tape.add("add", tape.add("silu", tape.linear(x, 16)), tape.linear(x, 16))
    flow = taken(tape, take_cones, take_gates)
    assert [node.attributes["operator"] for node in flow.nodes if node.word == "cone"] == ["silu"]
    assert words(flow)[-1] == "add"
