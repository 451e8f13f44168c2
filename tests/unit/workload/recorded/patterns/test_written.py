from __future__ import annotations

from dovetail.workload.recorded.patterns.written import take_written
from tests.unit.workload.recorded.tapes import B, Tape, taken, words


def filled(*, is_empty: bool = True) -> tuple[Tape, list[int]]:
    tape = Tape()
    x = tape.data(B, 8)
    parts = [tape.linear(x, 4), tape.linear(x, 4)]
    into = tape.add("constant", shape=(B, 8)) if is_empty else tape.linear(x, 8)
    for part in parts:
        into = tape.add("copy", into, part, shape=(B, 8), write=True)
    tape.add("relu", into)
    return tape, parts


def test_an_empty_tensor_filled_slice_by_slice_is_its_slices_side_by_side():
    tape, parts = filled()
    flow = taken(tape, take_written)
    assert words(flow) == ["linear", "linear", "constant", "concat", "relu"]
    assert flow.nodes[3].inputs == parts


def test_writing_into_what_has_been_computed_is_no_concatenation():
    tape, _ = filled(is_empty=False)
    assert words(taken(tape, take_written)).count("copy") == 2
