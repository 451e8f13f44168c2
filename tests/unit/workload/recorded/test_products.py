from __future__ import annotations

import pytest

from tests.unit.workload.recorded.tapes import BATCH, HEADS, KEY, SEQ, B, S, Tape, at_base, drafting_of, only

ROWS = BATCH * SEQ


@pytest.mark.parametrize("turned", [True, False])
def test_a_linear_layer_is_rows_by_columns_over_the_contraction_whichever_way_its_weight_lies(turned):
    tape = Tape()
    weight = tape.weight(*((24, 8) if turned else (8, 24)))
    tape.add("linear", tape.data(B, S, 8), weight, tape.weight(24), shape=(B, S, 24), turned=turned)
    draft = only(drafting_of(tape), "linear")
    assert at_base(draft) == (1, ROWS, 24, 8, 1)
    assert (draft.weight, draft.bias) == (24 * 8, 24)


def test_a_product_with_a_matrix_of_parameters_is_a_linear_layer():
    tape = Tape()
    tape.add("matmul", tape.data(B, S, 8), tape.weight(8, 24), shape=(B, S, 24))
    draft = only(drafting_of(tape), "linear")
    assert at_base(draft) == (1, ROWS, 24, 8, 1)
    assert draft.weight == 8 * 24


def test_a_matrix_of_parameters_may_stand_first():
    tape = Tape()
    tape.add("matmul", tape.weight(24, 8), tape.linear(tape.data(B, 8, 5), 5), shape=(B, 24, 5))
    draft = drafting_of(tape).drafts[-1]
    assert draft.kind == "linear"
    assert at_base(draft) == (1, BATCH * 5, 24, 8, 1)
    assert draft.weight == 24 * 8


@pytest.mark.parametrize("word", ["linear", "matmul"])
def test_a_vector_of_weights_is_one_column(word):
    tape = Tape()
    tape.add(word, tape.data(B, S, 8), tape.weight(8), shape=(B, S))
    draft = only(drafting_of(tape), "linear")
    assert at_base(draft) == (1, ROWS, 1, 8, 1)
    assert draft.weight == 8


def test_one_matrix_of_parameters_a_group_is_one_product_a_group():
    tape = Tape()
    tape.add("matmul", tape.data(6, B * S, 8), tape.weight(6, 8, 24), shape=(6, B * S, 24))
    draft = only(drafting_of(tape), "expert_linear")
    assert at_base(draft) == (6, ROWS, 24, 8, 1)
    assert draft.weight == 6 * 8 * 24


def test_a_matrix_that_is_only_seen_repeatedly_is_one():
    tape = Tape()
    seen = tape.view(tape.weight(8, 24), 6, 8, 24)
    tape.add("matmul", tape.data(6, B * S, 8), seen, shape=(6, B * S, 24))
    draft = only(drafting_of(tape), "linear")
    assert at_base(draft) == (1, 6 * ROWS, 24, 8, 1)
    assert draft.weight == 8 * 24


def test_sorted_rows_by_weights_of_experts_are_shared_out_evenly():
    tape = Tape()
    x = tape.linear(tape.data(B * S, 8), 8)
    tape.add("grouped_linear", x, tape.weight(4, 8, 24), shape=(B * S, 24))
    draft = only(drafting_of(tape), "expert_linear")
    assert at_base(draft) == (4, ROWS // 4, 24, 8, 1)
    assert draft.weight == 4 * 8 * 24


def test_a_product_of_two_activations_has_no_weight():
    tape = Tape()
    x = tape.data(B, S, 8)
    a, b = tape.linear(x, 8), tape.linear(x, 8)
    tape.add("matmul", a, tape.view(b, B, 8, S), shape=(B, S, S))
    draft = only(drafting_of(tape), "matmul")
    assert at_base(draft) == (BATCH, SEQ, SEQ, 8, 1)
    assert (draft.weight, draft.shared_frac) == (0, 1.0)


def test_an_operand_that_is_seen_repeatedly_is_read_once():
    tape = Tape()
    x = tape.data(B, S, 8)
    a, b = tape.linear(x, 32), tape.linear(x, 8)
    many = tape.view(b, B, 4, 8, S)
    tape.add("matmul", tape.view(a, B, 4, S, 8), many, shape=(B, 4, S, S))
    assert only(drafting_of(tape), "matmul").shared_frac == 1 / 4


@pytest.mark.parametrize("kv_heads", [HEADS, 2, 1])
def test_attention_counts_key_value_heads_by_what_is_distinct(kv_heads):
    tape = Tape()
    x, _ = tape.embedding()
    tape.self_attention(x, kv_heads=kv_heads)
    draft = only(drafting_of(tape), "attention")
    assert at_base(draft) == (BATCH * HEADS, SEQ, SEQ, KEY, KEY)
    assert (draft.num_heads, draft.num_kv_heads) == (HEADS, kv_heads)
    assert draft.is_causal


def test_values_may_be_narrower_than_keys():
    tape = Tape()
    x = tape.data(B, S, 8)
    q, k = (tape.heads(tape.linear(x, HEADS * 8)) for _ in range(2))
    v = tape.heads(tape.linear(x, HEADS * 4), width=4)
    tape.add("attention", q, k, v, shape=(B, HEADS, S, 4), dropout=0.1)
    draft = only(drafting_of(tape), "attention")
    assert at_base(draft)[3:] == (8, 4)
    assert draft.has_dropout


def test_a_weight_that_is_a_buffer_is_an_operand_like_any_other():
    tape = Tape()
    x = tape.linear(tape.data(B, 8), 8)
    tape.add("linear", x, tape.buffer(8, 8), shape=(B, 8), where="mixer.layer")
    draft = only(drafting_of(tape), "matmul")
    assert (draft.weight, at_base(draft)[:4]) == (0, (1, BATCH, 8, 8))


def test_half_of_a_product_solves_a_triangular_system():
    tape = Tape()
    x = tape.linear(tape.data(B, 8, 8), 8)
    tape.add("matmul", x, x, shape=(B, 8, 8), where="solve", triangular=True)
    assert at_base(only(drafting_of(tape), "matmul"))[:4] == (BATCH, 8, 8, 4)
