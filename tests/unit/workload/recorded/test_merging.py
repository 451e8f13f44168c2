from __future__ import annotations

from dovetail.workload.recorded.drafted import Drafting
from dovetail.workload.recorded.merging import merge_products
from tests.unit.workload.recorded.patterns.test_cones import rotated
from tests.unit.workload.recorded.tapes import HEADS, KEY, WIDTH, B, S, Tape, at_base, drafting_of


def merged(tape: Tape) -> Drafting:
    drafting = drafting_of(tape)
    merge_products(drafting)
    return drafting


def products(tape: Tape) -> list[tuple[str, int]]:
    """Names and columns of the products with weights."""
    return [(d.name, at_base(d)[2]) for d in merged(tape).drafts if d.kind == "linear"]


def test_queries_keys_and_values_of_one_tensor_are_one_product():
    tape = Tape()
    x, _ = tape.embedding()
    tape.self_attention(x)
    assert products(tape) == [("qkv", 3 * WIDTH), ("o", WIDTH)]


def test_fewer_key_value_heads_are_a_product_of_their_own():
    tape = Tape()
    x, _ = tape.embedding()
    tape.self_attention(x, kv_heads=2)
    assert products(tape) == [("q", WIDTH), ("kv", 2 * 2 * KEY), ("o", WIDTH)]


def test_keys_and_values_of_another_tensor_are_one_product_beside_queries():
    tape = Tape()
    x, _ = tape.embedding()
    memory = tape.linear(x, WIDTH, where="encoder")
    q = tape.heads(tape.linear(x, WIDTH, where="q"))
    k, v = (tape.heads(tape.linear(memory, WIDTH, where=name)) for name in "kv")
    tape.attention(q, k, v)
    assert products(tape) == [("encoder", WIDTH), ("q", WIDTH), ("kv", 2 * WIDTH)]


def test_products_of_three_tensors_stay_three():
    tape = Tape()
    x, _ = tape.embedding()
    sources = [tape.add(word, x) for word in ("relu", "tanh", "exp")]
    q, k, v = (tape.heads(tape.linear(source, WIDTH, where=name)) for source, name in zip(sources, "qkv", strict=True))
    tape.attention(q, k, v)
    assert [name for name, _ in products(tape)] == ["q", "k", "v"]


def test_biases_and_parameters_go_with_the_products_that_become_one():
    tape = Tape()
    x, _ = tape.embedding()
    q, k, v = (tape.heads(tape.linear(x, WIDTH, bias=True, where=name)) for name in "qkv")
    tape.attention(q, k, v)
    (qkv,) = (draft for draft in merged(tape).drafts if draft.kind == "linear")
    assert (qkv.weight, qkv.bias, len(qkv.owns)) == (3 * WIDTH * WIDTH, 3 * WIDTH, 6)


def test_a_product_that_was_one_before_is_called_so():
    tape = Tape()
    x, _ = tape.embedding()
    whole = tape.linear(x, 3 * WIDTH, where="c_attn")
    q, k, v = (tape.heads(whole) for _ in range(3))
    tape.attention(q, k, v)
    assert products(tape) == [("qkv", 3 * WIDTH)]


def test_both_halves_of_a_gated_layer_are_one_product():
    tape = Tape()
    x, _ = tape.embedding()
    gate, up = tape.linear(x, 64, where="gate"), tape.linear(x, 64, where="up")
    tape.linear(tape.add("mul", tape.add("silu", gate), up), WIDTH, where="down")
    assert products(tape) == [("silu_mul", 128), ("down", WIDTH)]


def test_values_ride_along_in_what_the_rotation_of_keys_leaves():
    tape = Tape()
    x, _ = tape.embedding()
    q, k, v = (tape.heads(tape.linear(x, WIDTH, where=name)) for name in "qkv")
    tape.add("attention", rotated(tape, q), rotated(tape, k), v, shape=(B, HEADS, S, KEY))
    drafts = merged(tape).drafts
    turns = [draft for draft in drafts if draft.operator == "rope"]
    (attention,) = (draft for draft in drafts if draft.kind == "attention")
    assert [draft.output_frac for draft in turns] == [1.0, 2.0]
    assert attention.reads == [draft.makes for draft in turns]


def test_keys_and_values_repeated_for_their_heads_are_still_fewer():
    """As transformers has it: rotated, expanded, and copied to as many heads as queries have."""
    tape = Tape()
    x, _ = tape.embedding()
    q = rotated(tape, tape.heads(tape.linear(x, WIDTH, where="q")))
    k, v = (tape.heads(tape.linear(x, 2 * KEY, where=name), 2) for name in "kv")
    many = [
        tape.view(tape.add("copy", tape.view(each, B, 2, 2, S, KEY)), B, HEADS, S, KEY)
        for each in (rotated(tape, k, num_heads=2), v)
    ]
    tape.attention(q, *many)
    drafting = merged(tape)
    (attention,) = (draft for draft in drafting.drafts if draft.kind == "attention")
    assert (attention.num_heads, attention.num_kv_heads) == (HEADS, 2)
    assert products(tape) == [("q", WIDTH), ("kv", 2 * 2 * KEY)]
