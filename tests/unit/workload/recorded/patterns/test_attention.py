from __future__ import annotations

import pytest

from dovetail.workload.recorded.patterns.attention import take_attention
from dovetail.workload.recorded.patterns.masks import is_causal_mask
from tests.unit.workload.recorded.tapes import HEADS, KEY, B, S, Tape, taken, words

SQUARE = (B, HEADS, S, S)


def begun() -> tuple[Tape, tuple[int, int, int]]:
    """Queries, keys (turned) and values as heads."""
    tape = Tape()
    x = tape.data(B, S, 32)
    q, k, v = (tape.heads(tape.linear(x, 32)) for _ in range(3))
    return tape, (q, tape.view(k, B, HEADS, KEY, S), v)


def scores(tape: Tape, q: int, k: int) -> int:
    return tape.add("matmul", q, k, shape=SQUARE)


def weighted(tape: Tape, shares: int, v: int) -> int:
    return tape.add("matmul", shares, v, shape=(B, HEADS, S, KEY))


def attention_of(tape: Tape):
    flow = taken(tape, take_attention)
    return next((node for node in flow.nodes if node.word == "attention"), None)


def test_scores_softmax_and_weighted_values_are_one_attention():
    tape, (q, k, v) = begun()
    shares = tape.add("softmax", tape.add("div", scores(tape, q, k)), dim=-1)
    weighted(tape, tape.add("dropout", shares), v)
    found = attention_of(tape)
    assert found is not None
    assert found.inputs == [q, k, v]
    assert found.attributes["dropout"] == 1.0
    assert found.attributes["is_causal"] is False
    assert words(taken(tape, take_attention)) == ["linear"] * 3 + ["attention"]


@pytest.mark.parametrize("made", ["triangle", "compare", "buffer"])
def test_a_mask_below_the_diagonal_makes_it_causal(made):
    tape, (q, k, v) = begun()
    if made == "triangle":
        mask = tape.add("triangle", tape.add("constant", shape=(S, S)))
    elif made == "compare":
        places = tape.add("constant", shape=(S,), dtype="int")
        mask = tape.add("compare", tape.view(places, S, 1), tape.view(places, 1, S), shape=(S, S), dtype="bool")
    else:
        mask = tape.view(tape.buffer(1, 1, S, S), 1, 1, S, S)
    shares = tape.add("softmax", tape.add("where", scores(tape, q, k), mask), dim=-1)
    weighted(tape, shares, v)
    found = attention_of(tape)
    assert found is not None
    assert found.attributes["is_causal"] is True


def test_a_mask_of_padding_does_not_make_it_causal():
    tape, (q, k, v) = begun()
    mask = tape.add("compare", tape.data(B, 1, 1, S, dtype="int"), dtype="bool")
    weighted(tape, tape.add("softmax", tape.add("where", scores(tape, q, k), mask), dim=-1), v)
    found = attention_of(tape)
    assert found is not None
    assert found.attributes["is_causal"] is False


def test_scores_that_are_read_elsewhere_stay_as_they_were_written():
    tape, (q, k, v) = begun()
    raw = scores(tape, q, k)
    weighted(tape, tape.add("softmax", raw, dim=-1), v)
    tape.add("sum", raw, shape=(B, HEADS, S), dims=(-1,))
    assert attention_of(tape) is None


def test_shares_that_are_read_elsewhere_stay_as_they_were_written():
    tape, (q, k, v) = begun()
    shares = tape.add("softmax", scores(tape, q, k), dim=-1)
    weighted(tape, shares, v)
    tape.add("sum", shares, shape=(B, HEADS, S), dims=(-1,))
    assert attention_of(tape) is None


def test_the_largest_score_may_be_taken_away_first():
    tape, (q, k, v) = begun()
    raw = scores(tape, q, k)
    largest = tape.add("reduce", raw, shape=(B, HEADS, S, 1))
    weighted(tape, tape.add("softmax", tape.add("sub", raw, largest), dim=-1), v)
    assert attention_of(tape) is not None


def test_a_cap_by_tanh_and_a_learnt_bias_are_named_in_the_order_in_which_they_are_done():
    tape, (q, k, v) = begun()
    capped = tape.add("mul", tape.add("tanh", tape.add("div", scores(tape, q, k))))
    bias = tape.weight(1, HEADS, 16, 16)
    weighted(tape, tape.add("softmax", tape.add("add", capped, bias), dim=-1), v)
    found = attention_of(tape)
    assert found is not None
    assert found.attributes["score_kinds"] == "tanh add"
    assert found.inputs[3:] == [bias]


def test_a_scale_of_queries_that_only_attention_reads_is_done_by_its_kernel():
    tape, (q, k, v) = begun()
    scaled = tape.add("mul", q)
    weighted(tape, tape.add("softmax", scores(tape, scaled, k), dim=-1), v)
    assert words(taken(tape, take_attention)) == ["linear"] * 3 + ["attention"]


def test_scaled_queries_that_others_read_are_scaled_where_they_were():
    tape, (q, k, v) = begun()
    scaled = tape.add("mul", q)
    weighted(tape, tape.add("softmax", scores(tape, scaled, k), dim=-1), v)
    tape.add("relu", scaled)
    assert "mul" in words(taken(tape, take_attention))


def test_a_kernel_s_own_mask_is_a_part_of_it_and_a_learnt_bias_is_noted():
    tape, (q, k, v) = begun()
    bias = tape.add("add", tape.weight(1, HEADS, 16, 16), tape.buffer(S, S))
    out = tape.add("attention", q, k, v, bias, shape=(B, HEADS, S, KEY))
    flow = taken(tape, take_attention)
    node = flow.maker[out]
    assert node.inputs == [q, k, v]
    assert node.attributes["score_kinds"] == "add"
    assert node.attributes["is_causal"] is True


def test_a_softmax_over_anything_else_is_no_attention():
    tape, (q, *_) = begun()
    gate = tape.linear(tape.view(q, B, S, 32), 4)
    tape.add("softmax", gate, dim=-1)
    assert attention_of(tape) is None


@pytest.mark.parametrize(("shape", "is_causal"), [((S, S), True), ((1, S), False), ((1, 1), False)])
def test_a_square_that_stands_is_taken_to_be_causal(shape, is_causal):
    tape = Tape()
    mask = tape.buffer(*shape)
    tape.add("relu", mask)
    assert is_causal_mask(taken(tape), mask) is is_causal


def test_a_masked_bias_that_others_read_is_masked_where_it_was():
    tape, (q, k, v) = begun()
    bias = tape.add("add", tape.weight(1, HEADS, 16, 16), tape.buffer(S, S))
    tape.add("attention", q, k, v, bias, shape=(B, HEADS, S, KEY))
    tape.add("relu", bias)
    assert "add" in words(taken(tape, take_attention))
