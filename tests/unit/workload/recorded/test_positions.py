from __future__ import annotations

from dovetail.workload.graph import Axis
from dovetail.workload.layers import SHARED_TOKENS, TOKENS
from dovetail.workload.recorded.captured import Captured
from tests.unit.workload.recorded.tapes import HEADS, KEY, WIDTH, B, S, Tape, part, pools_of

ROWS = 1


def rows(captured: Captured, name: str) -> Axis:
    return Axis(part(captured, name).extents[ROWS][1])


def limited(captured: Captured, axis: Axis) -> dict[str, int]:
    return {limit.label: limit.size.at(2, 16) for limit in captured.limits if limit.axis == axis}


def test_rows_between_regions_are_divided_by_sequence_and_inside_them_by_context_alone():
    captured = Tape().decoder(2).captured()
    assert rows(captured, "norm1") == SHARED_TOKENS
    assert rows(captured, "mlp_up") == TOKENS
    assert rows(captured, "act") == TOKENS


def test_positions_are_divided_as_far_as_there_are_any_and_heads_as_far_as_there_are_key_value_heads():
    captured = Tape().decoder(2).captured()
    assert limited(captured, Axis.SEQUENCE) == {"seq": 16}
    assert limited(captured, Axis.CONTEXT) == {"seq": 16}
    assert limited(captured, Axis.HEADS) == {"num_heads": HEADS, "num_kv_heads": HEADS}


def test_rows_without_samples_are_not_divided():
    tape = Tape()
    made = tape.add("relu", tape.weight(8, 8))
    tape.add("linear", tape.data(B, 8), made, shape=(B, 8))
    first = next(each for each in pools_of(tape.captured()) if each.operator == "relu")
    assert Axis(first.extents[ROWS][1]) == Axis.NONE


def test_an_image_model_divides_samples_alone():
    tape = Tape()
    tape.conv(tape.data(B, 4, 16, 16), 8, 3, side=14)
    captured = tape.captured()
    assert rows(captured, "convolution") == Axis.DATA
    assert list(limited(captured, Axis.CONTEXT).values()) == [1]
    assert list(limited(captured, Axis.SEQUENCE).values()) == [1]


def test_what_mixes_positions_beside_attention_keeps_them_together():
    tape = Tape()
    x, _ = tape.embedding()
    turned = tape.view(x, B, WIDTH, S)
    mixed = tape.add("convolution", turned, tape.weight(WIDTH, WIDTH, 3), shape=(B, WIDTH, S), padding=(1,))
    tape.layer(tape.view(mixed, B, S, WIDTH), 0)
    assert list(limited(tape.captured(), Axis.CONTEXT).values()) == [1]


def test_patches_of_an_image_are_positions_of_a_number_that_never_changes():
    tape = Tape()
    x = tape.linear(tape.data(B, 12, 24), WIDTH, where="patches")
    q, k, v = (tape.view(tape.linear(x, WIDTH), B, HEADS, 12, KEY) for _ in range(3))
    out = tape.add("attention", q, k, v, shape=(B, HEADS, 12, KEY))
    tape.linear(tape.view(out, B, 12, WIDTH), WIDTH)
    captured = tape.captured()
    assert limited(captured, Axis.CONTEXT) == {"num_positions": 12}
    assert rows(captured, "attention_out") & Axis.CONTEXT


def test_operators_over_pairs_of_positions_are_what_selective_recompute_runs_again():
    tape = Tape()
    x, _ = tape.embedding()
    a, b, v = (tape.linear(x, WIDTH) for _ in range(3))
    scores = tape.add("matmul", a, tape.view(b, B, WIDTH, S), shape=(B, S, S), where="scores")
    shares = tape.add("relu", scores, where="shares")
    out = tape.add("matmul", shares, v, shape=(B, S, WIDTH), where="mix")
    tape.linear(out, WIDTH, where="out")
    core = {each.name for each in pools_of(tape.captured()) if each.is_core}
    assert core == {"scores", "shares", "mix"}


def test_an_axis_divides_one_extent_of_an_operator():
    """Samples by positions by positions: samples go by data, and positions of the rows by context."""
    tape = Tape()
    x, _ = tape.embedding()
    a, b = tape.linear(x, WIDTH), tape.linear(x, WIDTH)
    tape.add("matmul", a, tape.view(b, B, WIDTH, S), shape=(B, S, S), where="scores")
    extents = part(tape.captured(), "scores").extents
    assert [Axis(axes) for _, axes in extents[:2]] == [Axis.DATA, Axis.CONTEXT | Axis.SEQUENCE]


def test_rows_of_positions_alone_are_looked_up_by_every_replica():
    tape = Tape()
    x, _ = tape.embedding()
    places = tape.add("constant", shape=(S,), dtype="int")
    looked = tape.add("embedding", tape.weight(64, WIDTH), places, shape=(S, WIDTH), where="places")
    tape.linear(tape.add("add", x, looked), WIDTH)
    assert not rows(tape.captured(), "places") & Axis.DATA


def test_a_product_that_sums_over_positions_keeps_them_together():
    """As in a mixer: positions are columns of the first product."""
    tape = Tape()
    x = tape.layer(tape.embedding()[0], 0)
    a, b = tape.linear(x, WIDTH), tape.linear(x, WIDTH)
    scores = tape.add("matmul", a, tape.view(b, B, WIDTH, S), shape=(B, S, S))
    tape.add("matmul", scores, a, shape=(B, S, WIDTH))
    assert list(limited(tape.captured(), Axis.CONTEXT).values()) == [1]
