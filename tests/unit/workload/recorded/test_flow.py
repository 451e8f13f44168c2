from __future__ import annotations

import pytest

from dovetail.errors import InvalidInput
from dovetail.workload.recorded.flow import Flow
from dovetail.workload.recorded.record import Recording
from tests.unit.workload.recorded.tapes import B, S, Tape, taken, words


def test_a_view_is_no_node_and_whoever_reads_it_reads_what_it_shows():
    tape = Tape()
    x = tape.linear(tape.data(B, S, 8), 8)
    seen = tape.view(tape.view(x, B, S, 2, 4), B, 2, S, 4)
    y = tape.add("relu", seen)
    flow = taken(tape)
    assert words(flow) == ["linear", "relu"]
    assert flow.root(seen) == x
    assert flow.only_reader(x) is flow.maker[y]


def test_casts_and_copies_are_looked_through_but_not_a_copy_that_writes_into_something_else():
    tape = Tape()
    x = tape.linear(tape.data(B, 8), 8)
    cast = tape.add("copy", tape.add("cast", x, dtype="fp32"))
    written = tape.add("copy", x, cast, write=True)
    flow = taken(tape)
    assert flow.thin(cast) == x
    assert flow.thin(written) == written


def test_what_no_parameter_has_a_part_in_stands_aside():
    tape = Tape()
    data = tape.data(B, 8)
    scaled = tape.add("mul", data)
    made = tape.add("linear", scaled, tape.weight(8, 8), shape=(B, 8))
    chosen = tape.add("topk", made, shape=(B, 1), dtype="int")
    flow = taken(tape)
    assert [flow.aside(flow.maker[value]) for value in (scaled, made, chosen)] == [True, False, True]
    assert flow.is_from_data(scaled)
    assert flow.is_activation(made)
    assert not flow.is_activation(scaled)


def test_a_parameter_is_known_behind_casts_numbers_and_constants_but_not_behind_another_parameter():
    tape = Tape()
    weight = tape.weight(8)
    cast = tape.add("cast", tape.add("add", weight, tape.buffer(8)), dtype="fp32")
    both = tape.add("mul", weight, tape.weight(8))
    flow = taken(tape)
    assert flow.parameter_of(cast) == weight
    assert flow.parameter_of(both) is None


def test_an_expansion_repeats_elements_and_does_not_make_more_of_them():
    tape = Tape()
    x = tape.linear(tape.data(B, 8), 8)
    wide = tape.view(tape.add("copy", tape.view(x, B, 5, 8)), B, 40)
    flow = taken(tape)
    assert flow.num_recorded(wide) == 5 * flow.num_recorded(x)
    assert flow.distinct(wide) == flow.num_recorded(x)


def test_what_has_a_part_in_a_value_ends_at_the_values_told():
    tape = Tape()
    x = tape.linear(tape.data(B, 8), 8)
    y = tape.add("relu", x)
    z = tape.add("mul", tape.add("tanh", y), y)
    flow = taken(tape)
    assert {node.word for node in flow.before(z)} == {"mul", "tanh", "relu", "linear"}
    assert {node.word for node in flow.before(z, stop=[y])} == {"mul", "tanh"}


def test_a_node_taken_out_hands_its_readers_to_what_it_read():
    tape = Tape()
    x = tape.linear(tape.data(B, 8), 8)
    scaled = tape.add("mul", x)
    y = tape.add("relu", scaled)
    flow = Flow(tape.recorded())
    flow.look_through(flow.maker[scaled])
    assert flow.only_reader(x) is flow.maker[y]
    flow.settle()
    assert words(flow) == ["linear", "relu"]


def test_a_recording_without_a_step_is_refused():
    with pytest.raises(InvalidInput, match="empty ran no operator, so there is nothing to predict"):
        Recording(name="empty", tensors=(), steps=())
