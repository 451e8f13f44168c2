from __future__ import annotations

import pytest

from dovetail.workload.recorded.patterns.norms import take_norms
from tests.unit.workload.recorded.tapes import B, S, Tape, taken, words

ROWS = (B, S, 1)


def rms(tape: Tape, x: int, *, inverse: str = "rsqrt", is_cast: bool = False, squared: str = "pow") -> int:
    """x over the root of its mean square, written out; before any weight."""
    if is_cast:
        x = tape.add("cast", x, dtype="fp32")
    square = tape.add("pow", x, exponent=2.0) if squared == "pow" else tape.add("mul", x, x)
    mean = tape.add("add", tape.add("mean", square, shape=ROWS, dims=(-1,)))
    if inverse == "div":
        return tape.add("div", x, tape.add("sqrt", mean))
    if inverse == "pow":
        return tape.add("mul", x, tape.add("pow", mean, exponent=-0.5))
    if inverse == "reciprocal":
        return tape.add("mul", x, tape.add("reciprocal", tape.add("sqrt", mean)))
    return tape.add("mul", x, tape.add("rsqrt", mean))


def begun() -> tuple[Tape, int]:
    tape = Tape()
    return tape, tape.linear(tape.data(B, S, 8), 8)


@pytest.mark.parametrize("inverse", ["rsqrt", "div", "pow", "reciprocal"])
@pytest.mark.parametrize("squared", ["pow", "mul"])
@pytest.mark.parametrize("is_cast", [False, True])
def test_a_root_mean_square_and_its_weight_are_one_norm(inverse, squared, is_cast):
    tape, x = begun()
    weight = tape.weight(8)
    normed = rms(tape, x, inverse=inverse, is_cast=is_cast, squared=squared)
    if is_cast:
        normed = tape.add("cast", normed)
    tape.linear(tape.add("mul", normed, weight), 8)
    flow = taken(tape, take_norms)
    assert [word for word in words(flow) if word != "cast"] == ["linear", "rmsnorm", "linear"]
    (norm,) = (node for node in flow.nodes if node.word == "rmsnorm")
    assert norm.inputs == [x, weight]


def test_a_norm_needs_no_weight():
    tape, x = begun()
    tape.linear(rms(tape, x), 8)
    assert words(taken(tape, take_norms)) == ["linear", "rmsnorm", "linear"]


def test_with_its_mean_taken_away_it_is_a_layer_norm_with_weight_and_bias():
    tape, x = begun()
    weight, bias = tape.weight(8), tape.weight(8)
    centred = tape.add("sub", x, tape.add("mean", x, shape=ROWS, dims=(-1,)))
    normed = rms(tape, centred)
    tape.linear(tape.add("add", tape.add("mul", normed, weight), bias), 8)
    flow = taken(tape, take_norms)
    assert words(flow) == ["linear", "layernorm", "linear"]
    assert flow.nodes[1].inputs == [x, weight, bias]


def test_a_bias_of_an_activation_is_no_part_of_the_norm():
    tape, x = begun()
    tape.add("add", tape.add("mul", rms(tape, x), tape.weight(8)), x)
    assert words(taken(tape, take_norms)) == ["linear", "rmsnorm", "add"]


def test_a_norm_whose_mean_square_is_read_elsewhere_stays_as_it_was_written():
    tape, x = begun()
    square = tape.add("pow", x, exponent=2.0)
    mean = tape.add("mean", square, shape=ROWS, dims=(-1,))
    tape.add("mul", x, tape.add("rsqrt", mean))
    tape.add("mul", x, mean)
    assert "rmsnorm" not in words(taken(tape, take_norms))


def test_a_mean_of_cubes_is_no_norm():
    tape, x = begun()
    mean = tape.add("mean", tape.add("pow", x, exponent=3.0), shape=ROWS, dims=(-1,))
    tape.add("mul", x, tape.add("rsqrt", mean))
    assert "rmsnorm" not in words(taken(tape, take_norms))


def test_another_value_over_the_root_is_no_norm():
    tape, x = begun()
    mean = tape.add("mean", tape.add("pow", x, exponent=2.0), shape=ROWS, dims=(-1,))
    tape.add("mul", tape.linear(x, 8), tape.add("rsqrt", mean))
    assert "rmsnorm" not in words(taken(tape, take_norms))
