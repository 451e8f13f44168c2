from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.errors import InvalidInput
from dovetail.workload.recorded.sizes import MAX_POWER, ONE, Size, product, tensor_sides
from tests.unit.workload.recorded.tapes import SEQ, B, S, Tape, taken


def one_tensor(*shape):
    """The sides found for a tensor of `shape`, and whether they hold for the recorded length alone."""
    tape = Tape()
    x = tape.data(*shape)
    tape.add("relu", x)
    sides, odd = tensor_sides(tape.recorded())
    return sides[x], x in odd


def test_a_side_that_doubles_with_the_batch_counts_samples():
    assert one_tensor(B, 7) == ((Size(1, num_batch=1), Size(7)), False)


def test_a_side_that_doubles_with_the_length_counts_positions():
    assert one_tensor(S, 7)[0] == (Size(1, num_seq=1), Size(7))


def test_a_side_may_grow_with_both_and_with_a_power_of_either():
    sides, is_odd = one_tensor(B * S * Size(3), S * S, B * B)
    assert sides == (Size(3, num_batch=1, num_seq=1), Size(1, num_seq=2), Size(1, num_batch=2))
    assert not is_odd


def test_a_side_that_happens_to_be_as_long_as_the_sequence_is_fixed_where_it_does_not_grow():
    assert one_tensor(S, SEQ)[0] == (Size(1, num_seq=1), Size(SEQ))


def test_a_part_of_the_length_is_a_size_with_a_divisor():
    sides, is_odd = one_tensor(Size(1, num_seq=1, per=4))
    assert sides == (Size(1, num_seq=1, per=4),)
    assert not is_odd
    assert [sides[0].at(1, seq) for seq in (16, 17, 20)] == [4, 5, 5]  # kernels round up


@pytest.mark.parametrize("grows", [lambda s: s + 3, lambda s: s ** (MAX_POWER + 1)])
def test_a_side_that_no_power_explains_is_taken_as_it_was_recorded(grows):
    sides, is_odd = one_tensor(grows)
    assert sides == (Size(grows(SEQ)),)
    assert is_odd


@pytest.mark.parametrize(
    ("near", "found"),
    [
        (lambda s: s + 1, Size(1, num_seq=1)),
        (lambda s: s - 2, Size(1, num_seq=1)),
        (lambda s: 3 * s + 1, Size(3, num_seq=1)),
    ],
)
def test_one_or_two_more_or_less_than_the_length_is_the_length(near, found):
    """Labels that are shifted by one, a class token beside positions."""
    assert one_tensor(near) == ((found,), False)


def test_a_flow_scales_unless_something_with_a_gradient_is_for_one_length_alone():
    for last, scales in ((S, True), (lambda s: s + 3, False)):
        tape = Tape()
        x = tape.linear(tape.data(B, 8), 8)
        tape.add("gather", x, shape=(B, last))
        assert taken(tape).scales is scales


def test_what_no_gradient_goes_through_may_be_of_any_length():
    tape = Tape()
    tape.linear(tape.data(B, 8), 8)
    tape.add("constant", shape=(lambda s: s + 3,))
    assert taken(tape).scales


def test_models_that_make_other_tensors_for_other_sizes_are_refused():
    tape, longer = Tape(), Tape()
    for each in (tape, longer):
        each.linear(each.data(B, 8), 8)
    longer.linear(longer.data(B, 8), 8)
    recorded = replace(tape.recorded(), other_seq=longer.recording(2, 32))
    with pytest.raises(InvalidInput, match="toy makes other tensors for other sizes of its input"):
        tensor_sides(recorded)


def test_models_that_make_tensors_of_other_ranks_are_refused():
    tape, other = Tape(), Tape()
    tape.add("relu", tape.data(B, 8))
    other.add("relu", other.data(B, 4, 2))
    with pytest.raises(InvalidInput, match="toy makes tensors of other ranks"):
        tensor_sides(replace(tape.recorded(), other_batch=other.recording(4, 16)))


def test_sizes_multiply_and_divide_in_lowest_terms():
    assert Size(6, 1, 0, 4) * Size(2, 0, 1) == Size(3, 1, 1)
    assert (Size(12, 1, 1)).over(Size(4, 0, 1)) == Size(3, 1, 0)
    assert ONE.over(Size(4, 1)) == Size(1, -1, 0, 4)
    assert product(()) == ONE
    assert product((B, S, Size(5))) == Size(5, 1, 1)


def test_a_size_less_than_one_a_sample_is_at_least_one():
    assert Size(1, num_batch=-1, per=1).at(8, 1) == 1
    assert Size(100, num_batch=-1).at(8, 1) == 13


def test_only_a_size_without_samples_and_positions_is_fixed():
    assert Size(9).is_fixed
    assert not B.is_fixed
    assert not S.is_fixed
