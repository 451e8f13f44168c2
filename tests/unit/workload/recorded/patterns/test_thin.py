from __future__ import annotations

import pytest

from dovetail.workload.recorded.patterns.thin import take_thin
from tests.unit.workload.recorded.tapes import B, S, Tape, taken, words


def between(word: str, first: str, second: str) -> list[str]:
    """What is left of a cast or copy between two steps, products or others."""
    tape = Tape()
    x = tape.linear(tape.data(B, S, 8), 8)
    for each in (first, word, second):
        x = tape.linear(x, 8) if each == "linear" else tape.add(each, x)
    return words(taken(tape, take_thin))[1:]


@pytest.mark.parametrize("around", [("layernorm", "linear"), ("linear", "layernorm"), ("relu", "relu")])
def test_a_cast_beside_anything_but_a_product_is_done_on_the_way(around):
    assert between("cast", *around) == list(around)


def test_a_cast_between_two_products_is_a_kernel_of_its_own():
    assert between("cast", "linear", "linear") == ["linear", "cast", "linear"]


def test_a_copy_is_a_kernel_of_its_own_but_beside_what_reads_any_layout():
    assert between("copy", "linear", "layernorm") == ["linear", "copy", "layernorm"]
    assert between("copy", "concat", "linear") == ["concat", "linear"]
    assert between("copy", "linear", "attention") == ["linear", "attention"]


def test_a_copy_that_nobody_reads_is_gone():
    tape = Tape()
    tape.add("copy", tape.linear(tape.data(B, 8), 8))
    assert words(taken(tape, take_thin)) == ["linear"]


def test_a_cast_of_a_weight_is_done_on_the_way():
    tape = Tape()
    weight = tape.add("cast", tape.weight(8, 8))
    tape.add("linear", tape.data(B, 8), weight, shape=(B, 8))
    assert words(taken(tape, take_thin)) == ["linear"]


def test_a_copy_that_writes_into_something_else_stays():
    tape = Tape()
    x = tape.linear(tape.data(B, 8), 8)
    tape.add("relu", tape.add("copy", tape.linear(x, 8), x, write=True))
    assert words(taken(tape, take_thin)) == ["linear", "linear", "copy", "relu"]
