from __future__ import annotations

import pytest

from dovetail.errors import NotModelled
from dovetail.workload.recorded.drafted import rows_and_columns, short_name
from dovetail.workload.recorded.drafts import _DRAW
from dovetail.workload.recorded.sizes import ONE, Size
from dovetail.workload.recorded.words import CHOOSING, FREE, LABELS, MADE_OF_NOTHING
from tests.unit.workload.recorded.tapes import BATCH, SEQ, VOCAB, WIDTH, B, S, Tape, at_base, drafting_of

ROWS = BATCH * SEQ


def begun() -> tuple[Tape, int]:
    tape = Tape()
    return tape, tape.linear(tape.data(B, S, 8), 8)


def made_by(tape: Tape, value: int):
    (draft,) = (draft for draft in drafting_of(tape).drafts if draft.makes == value)
    return draft


def test_two_activations_are_added_and_a_parameter_is_a_bias():
    tape, x = begun()
    bias = tape.weight(8)
    biased = tape.add("add", x, bias)
    both = tape.add("add", biased, tape.linear(biased, 8))
    assert (made_by(tape, biased).operator, made_by(tape, biased).weight) == ("bias_add", 8)
    assert (made_by(tape, both).operator, made_by(tape, both).weight) == ("add", 0)
    assert made_by(tape, biased).owns == [(bias, 8)]


def test_a_learnt_factor_is_a_scale_for_each_channel():
    tape, x = begun()
    scaled = tape.add("mul", x, tape.weight(8))
    assert (made_by(tape, scaled).operator, made_by(tape, scaled).weight) == ("channel_scale", 8)


def test_a_gate_for_each_channel_is_told_from_a_product_of_equals():
    tape, x = begun()
    equal = tape.add("mul", x, tape.linear(x, 8))
    few = tape.add("mul", equal, tape.linear(x, 1))
    assert made_by(tape, equal).operator == "mul"
    assert made_by(tape, few).operator == "channel_scale"


def test_a_sum_larger_than_both_its_operands_is_of_pairs():
    tape, x = begun()
    y = tape.linear(x, 8)
    pairs = tape.add("add", tape.view(x, B, S, 1, 8), tape.view(y, B, 1, S, 8), shape=(B, S, S, 8))
    assert made_by(tape, pairs).operator == "pairwise_add"
    assert made_by(tape, pairs).elements.at(BATCH, SEQ) == BATCH * SEQ * SEQ * 8


def test_a_norm_over_heads_has_a_row_a_head():
    tape = Tape()
    x = tape.heads(tape.linear(tape.data(B, S, 32), 32))
    normed = tape.norm(x)
    draft = made_by(tape, normed)
    assert at_base(draft)[1:3] == (4 * ROWS, 8)
    assert draft.weight == 8


def test_a_table_is_looked_up_by_rows_of_its_width():
    tape = Tape()
    x, table = tape.embedding()
    draft = made_by(tape, x)
    assert (draft.kind, draft.operator, draft.owns) == ("vector", "embedding", [(table, VOCAB * WIDTH)])
    assert at_base(draft) == (1, ROWS, WIDTH, VOCAB, 1)


def test_bags_pool_so_many_rows_each():
    tape = Tape()
    index = tape.data(B * Size(5), dtype="int")
    made = tape.add("embedding_bag", tape.weight(100, 16), index, shape=(B, 16), pool=5)
    draft = made_by(tape, made)
    assert draft.operator == "embedding_bag"
    assert at_base(draft) == (1, BATCH, 16, 100, 5)


def test_rows_of_a_parameter_by_an_index_are_looked_up_and_those_of_an_activation_moved():
    tape, x = begun()
    index = tape.data(S, dtype="int")
    looked = tape.add("gather", tape.weight(30, 8), index, shape=(S, 8))
    moved = tape.add("gather", x, index)
    both = tape.add("add", looked, moved)
    assert (made_by(tape, looked).operator, made_by(tape, looked).weight) == ("embedding", 30 * 8)
    assert made_by(tape, moved).operator == "permute"
    assert made_by(tape, both).operator == "add"


def test_a_sum_over_positions_is_counted_by_what_it_reads():
    tape, x = begun()
    mean = tape.add("mean", x, shape=(B, 8), dims=(1,))
    draft = made_by(tape, mean)
    assert (draft.operator, draft.output_frac) == ("strided_avgpool", 1 / SEQ)
    assert draft.elements.at(BATCH, SEQ) == ROWS * 8


def test_a_single_number_times_another_is_no_operator():
    tape, x = begun()
    total = tape.add("sum", x, shape=(), dims=(0, 1, 2))
    tape.add("mul", total)
    assert [draft.operator for draft in drafting_of(tape).drafts] == ["linear", "strided_avgpool"]


def test_what_has_no_gradient_is_written_once_in_its_own_bytes_and_stands_first():
    tape = Tape()
    places = tape.add("constant", shape=(S,), dtype="int")
    tape.add("compare", places, shape=(S, S), dtype="bool")
    tape.add("compare", places, shape=(S, S), dtype="bool")
    tape.linear(tape.data(B, 8), 8)
    drafts = drafting_of(tape).drafts
    assert [draft.operator for draft in drafts] == ["constant", "constant", "linear"]
    # elements of 8 bytes, as indices have them; truth values have one
    assert [draft.elements for draft in drafts[:2]] == [Size(1, num_seq=1), Size(2, num_seq=2, per=8) * ONE]
    assert not drafts[0].reads


def test_every_word_that_can_have_a_gradient_has_an_operator():
    within_patterns = {"nll", "cross_entropy"}  # are losses by then
    without_gradient = {*FREE, *MADE_OF_NOTHING, *CHOOSING, "sort"} - {"where"}
    assert LABELS - within_patterns - without_gradient <= _DRAW.keys()


def test_a_word_without_an_operator_is_refused_with_its_name_its_shape_and_the_way_out():
    tape, x = begun()
    tape.add("sort", x, op="aten.sort.default", where="head.sorter")
    message = r"aten\.sort\.default of \[2, 16, 8\] in head\.sorter is not modelled with a gradient; write that part"
    with pytest.raises(NotModelled, match=message):
        drafting_of(tape)


@pytest.mark.parametrize(
    ("sides", "expected"),
    [
        ((B, S, Size(4), Size(8)), (B * S, Size(32))),
        ((B, Size(64), Size(7), Size(7)), (B * Size(49), Size(64))),  # an image has its channels second
        ((B, Size(5), Size(8)), (B * Size(5), Size(8))),
        ((B,), (B, ONE)),
        ((Size(8),), (ONE, Size(8))),
        ((), (ONE, ONE)),
    ],
)
def test_a_tensor_is_rows_that_grow_by_columns_that_do_not(sides, expected):
    assert rows_and_columns(sides) == expected


def test_a_module_is_called_by_the_last_word_of_its_path():
    assert short_name("layers.3.mlp.up", "x") == "up"
    assert short_name("features/4", "x") == "features.4"
    assert short_name("", "x") == "x"


def test_a_loss_over_a_map_has_a_row_a_pixel_and_a_column_a_class():
    tape = Tape()
    logits = tape.conv(tape.data(B, 4, 16, 16), 21, 1, side=16)
    made = tape.add("cross_entropy", logits, tape.data(B, 16, 16, dtype="int"), shape=())
    assert at_base(made_by(tape, made))[1:3] == (BATCH * 16 * 16, 21)
