from __future__ import annotations

import pytest

from dovetail.workload.recorded.patterns.cones import take_cones
from tests.unit.workload.recorded.tapes import HEADS, KEY, B, S, Tape, taken, words


def begun() -> tuple[Tape, int]:
    tape = Tape()
    return tape, tape.linear(tape.data(B, S, 8), 8)


def cones(tape: Tape) -> list[str]:
    return [str(node.attributes["operator"]) for node in taken(tape, take_cones).nodes if node.word == "cone"]


def gelu(tape: Tape, x: int) -> int:
    """By tanh, as written out: eight steps."""
    inner = tape.add("mul", tape.add("add", x, tape.add("mul", tape.add("pow", x, exponent=3.0))))
    return tape.add("mul", tape.add("mul", x), tape.add("add", tape.add("tanh", inner)))


def rotated(tape: Tape, x: int, width: int = KEY, *, num_heads: int = HEADS) -> int:
    """A head times cosines, and its turned half times sines."""
    tables = tape.buffer(S, width), tape.buffer(S, width)
    halves = [tape.view(x, B, num_heads, S, width // 2) for _ in range(2)]
    turned = tape.add("concat", tape.add("neg", halves[1]), halves[0], shape=(B, num_heads, S, width))
    return tape.add("add", tape.add("mul", x, tables[0]), tape.add("mul", turned, tables[1]))


def test_a_gelu_that_was_written_out_is_one_operator():
    tape, x = begun()
    tape.linear(gelu(tape, x), 8)
    assert words(taken(tape, take_cones)) == ["linear", "cone", "linear"]
    assert cones(tape) == ["gelu"]


def test_x_times_its_sigmoid_is_a_silu():
    tape, x = begun()
    tape.linear(tape.add("mul", x, tape.add("sigmoid", x)), 8)
    assert cones(tape) == ["silu"]


@pytest.mark.parametrize("word", ["relu", "tanh", "sigmoid", "hardswish", "gelu", "silu"])
def test_an_activation_of_one_step_is_called_by_its_name(word):
    tape, x = begun()
    tape.linear(tape.add(word, x), 8)
    assert cones(tape) == [word]


@pytest.mark.parametrize(
    ("word", "operator"), [("mul", "scale"), ("neg", "scale"), ("where", "where"), ("exp", "elementwise")]
)
def test_other_steps_of_one_value_are_a_scale_a_choice_or_element_wise(word, operator):
    tape, x = begun()
    tape.linear(tape.add(word, x), 8)
    assert cones(tape) == [operator]


def test_a_rotation_of_positions_touches_the_whole_head():
    tape = Tape()
    x = tape.heads(tape.linear(tape.data(B, S, 32), 32))
    tape.add("attention", rotated(tape, x), x, x, shape=(B, HEADS, S, KEY))
    flow = taken(tape, take_cones)
    (node,) = (node for node in flow.nodes if node.word == "cone")
    assert node.attributes["operator"] == "rope"
    assert flow.num_recorded(node.number("touched", 0)) == flow.num_recorded(x)


def test_a_value_on_the_way_that_others_read_leaves_the_steps_as_they_were():
    tape, x = begun()
    squashed = tape.add("tanh", x)
    tape.linear(tape.add("mul", squashed, x), 8)
    tape.linear(squashed, 8)
    assert cones(tape) == []


def test_two_groups_of_steps_on_one_value_are_two_operators():
    tape, x = begun()
    tape.linear(tape.add("relu", x), 8)
    tape.linear(tape.add("tanh", x), 8)
    assert sorted(cones(tape)) == ["relu", "tanh"]


def test_a_gate_and_what_it_gates_in_one_product_are_a_gated_activation():
    tape, x = begun()
    half = (B, S, 4)
    gate, other = tape.view(x, *half), tape.view(x, *half)
    tape.linear(tape.add("mul", tape.add("silu", gate), other), 8)
    assert cones(tape) == ["silu_mul"]


def test_a_bias_or_a_scale_that_is_learnt_is_no_part_of_a_cone():
    tape, x = begun()
    tape.linear(tape.add("add", x, tape.weight(8)), 8)
    assert words(taken(tape, take_cones)) == ["linear", "add", "linear"]


def test_dropout_ends_a_cone():
    tape, x = begun()
    tape.linear(tape.add("dropout", tape.add("relu", x)), 8)
    assert words(taken(tape, take_cones)) == ["linear", "cone", "dropout", "linear"]


def test_steps_of_two_values_are_no_cone():
    tape, x = begun()
    tape.add("mul", x, tape.linear(x, 8))
    assert cones(tape) == []
