from __future__ import annotations

import pytest

from dovetail.workload.graph import Axis
from dovetail.workload.recorded.captured import Captured
from tests.unit.workload.recorded.tapes import HEADS, LAYER, WIDTH, B, S, Tape, names, part, pools_of

COLS, INNER = 2, 3


def axes(captured: Captured, name: str) -> tuple[Axis, Axis]:
    """What may divide columns and contraction."""
    found = part(captured, name)
    return Axis(found.extents[COLS][1]), Axis(found.extents[INNER][1])


def exchanges(captured: Captured) -> list[str]:
    return [each.operator for each in pools_of(captured) if each.kind == "exchange"]


def limits(captured: Captured, axis: Axis) -> dict[str, int]:
    return {limit.label: limit.size.at(2, 16) for limit in captured.limits if limit.axis == axis}


def with_between(*between: str) -> Captured:
    """A pair of products with steps between them, on a tensor that is data in part."""
    tape = Tape()
    x, _ = tape.embedding()
    x = tape.norm(x)
    y = tape.linear(x, 128, where=f"{LAYER}.mlp.up")
    for word in between:
        if word == "norm":
            y = tape.norm(y)
        elif word == "residual":
            y = tape.add("add", y, tape.view(tape.add("concat", x, x, x, x, shape=(B, S, 128)), B, S, 128))
        elif word == "escape":
            tape.add("relu", y)
        else:
            y = tape.add(word, y)
    tape.linear(y, WIDTH, where=f"{LAYER}.mlp.down")
    return tape.captured()


@pytest.mark.parametrize("between", [("gelu",), ("relu", "dropout"), ("tanh", "mul", "dropout"), ("where",)])
def test_columns_of_one_product_are_the_contraction_of_the_next_where_only_elements_stand_between(between):
    captured = with_between(*between)
    assert axes(captured, "mlp_up") == (Axis.TENSOR, Axis.NONE)
    assert axes(captured, "mlp_down") == (Axis.NONE, Axis.TENSOR)
    assert limits(captured, Axis.TENSOR) == {"ffn_width": 128}


@pytest.mark.parametrize("between", [("norm",), ("gelu", "norm"), ("escape", "gelu"), ()])
def test_a_norm_over_all_columns_or_a_value_that_others_read_keeps_products_whole(between):
    captured = with_between(*between)
    products = [each for each in pools_of(captured) if each.name in ("up", "down", "lm_head")]
    assert len(products) == 2
    assert not any(axes(captured, each.name)[1] & Axis.TENSOR for each in products)
    assert not axes(captured, "up")[0] & Axis.TENSOR


def test_a_norm_over_all_columns_keeps_products_whole_where_positions_never_change_too():
    tape = Tape()
    x = tape.linear(tape.data(B, 9, WIDTH), WIDTH, where="patches")  # nine patches of a picture
    up = tape.linear(tape.norm(x), 128, where=f"{LAYER}.mlp.up")
    tape.linear(tape.norm(tape.add("gelu", up)), WIDTH, where=f"{LAYER}.mlp.down")
    captured = tape.captured()
    assert not any(axes(captured, each.name)[0] & Axis.TENSOR for each in pools_of(captured) if each.kind == "linear")


def test_what_joins_in_between_from_outside_keeps_products_whole():
    assert "mlp_up" not in names(with_between("gelu", "residual"))


def test_heads_are_divided_by_the_tensor_axis_and_key_value_heads_by_their_own():
    tape = Tape()
    x, _ = tape.embedding()
    tape.self_attention(tape.norm(x), kv_heads=2)
    captured = tape.captured()
    assert axes(captured, "q") == (Axis.TENSOR, Axis.NONE)
    assert axes(captured, "kv") == (Axis.KV, Axis.NONE)
    assert axes(captured, "attention_out") == (Axis.NONE, Axis.TENSOR)
    assert limits(captured, Axis.TENSOR) == {"num_heads": HEADS}
    assert captured.num_kv_heads == 2


def test_attention_that_no_region_holds_is_done_whole_and_positions_stay_together_for_it():
    tape = Tape()
    x, _ = tape.embedding()
    tape.feed_forward(tape.norm(x))
    q = tape.heads(x)
    tape.attention(q, q, q)
    captured = tape.captured()
    assert part(captured, "attention").is_whole
    assert limits(captured, Axis.TENSOR) == {"ffn_width": 128}
    assert limits(captured, Axis.SEQUENCE) == {"heads that are divided wherever there is attention": 1}


def test_a_model_without_pairs_of_products_says_so():
    tape = Tape()
    tape.linear(tape.data(B, 8), 8)
    captured = tape.captured()
    assert limits(captured, Axis.TENSOR) == {"pairs of products to split": 1}
    assert any("tensor parallelism cannot divide it" in note for note in captured.notes)


def test_no_limit_forbids_a_degree_of_one():
    for captured in (Tape().decoder(2).captured(), with_between("norm")):
        assert captured.limits
        assert all(limit.size.at(1, 1) >= 1 for limit in captured.limits)
