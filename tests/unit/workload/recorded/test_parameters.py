"""Ways in which models use parameters: each is counted once, whoever uses it, and all its products are there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dovetail.workload.layers import Sample
from tests.unit.workload.recorded.tapes import BATCH, HEADS, KEY, SEQ, WIDTH, B, S, Tape, pools_of, product_flop

DIRECTIONS: dict[str, Callable[[Tape, int], object]] = {}


def way(build: Callable[[Tape, int], object]) -> Callable[[Tape, int], object]:
    DIRECTIONS[build.__name__] = build
    return build


def attended(tape: Tape, q: int, k: int, v: int) -> int:
    return tape.linear(tape.view(tape.attention(q, k, v), B, S, WIDTH), WIDTH)


@way
def thirds_of_one_weight(tape: Tape, x: int) -> None:
    weight, bias = tape.weight(3 * WIDTH, WIDTH), tape.weight(3 * WIDTH)
    q, k, v = (
        tape.heads(tape.add("linear", x, tape.view(weight, WIDTH, WIDTH), tape.view(bias, WIDTH), shape=(B, S, WIDTH)))
        for _ in range(3)
    )
    attended(tape, q, k, v)


@way
def a_part_of_a_weight(tape: Tape, x: int) -> None:
    tape.linear(x, 24, weight=tape.view(tape.weight(96, WIDTH), 24, WIDTH))


@way
def biases_of_queries_and_values_alone(tape: Tape, x: int) -> None:
    q, v = (tape.heads(tape.linear(x, WIDTH, bias=True)) for _ in range(2))
    attended(tape, q, tape.heads(tape.linear(x, WIDTH)), v)


@way
def positions_sliced_to_the_length(tape: Tape, x: int) -> None:
    tape.linear(tape.add("add", x, tape.view(tape.weight(64, WIDTH), S, WIDTH)), WIDTH)


@way
def a_bias_of_scores_sliced_to_the_length(tape: Tape, x: int) -> None:
    q, k, v = (tape.heads(tape.linear(x, WIDTH)) for _ in range(3))
    scores = tape.add("matmul", q, tape.view(k, B, HEADS, KEY, S), shape=(B, HEADS, S, S))
    biased = tape.add("add", scores, tape.view(tape.weight(HEADS, 64, 64), HEADS, S, S))
    tape.add("matmul", tape.add("softmax", biased), v, shape=(B, HEADS, S, KEY))


@way
def a_sink_beside_the_scores(tape: Tape, x: int) -> None:
    q, k, v = (tape.heads(tape.linear(x, WIDTH)) for _ in range(3))
    scores = tape.add("matmul", q, tape.view(k, B, HEADS, KEY, S), shape=(B, HEADS, S, S))
    sink = tape.view(tape.weight(HEADS), B, HEADS, S, 1)
    joined = tape.add("concat", scores, sink, shape=(B, HEADS, S, lambda seq: seq + 1))
    shares = tape.view(tape.add("softmax", joined), B, HEADS, S, S)
    tape.add("matmul", shares, v, shape=(B, HEADS, S, KEY))


@way
def a_weight_that_is_a_sum_with_a_product_of_two_others(tape: Tape, x: int) -> None:
    thin = tape.add("matmul", tape.weight(WIDTH, 4), tape.weight(4, WIDTH), shape=(WIDTH, WIDTH))
    tape.add("linear", x, tape.add("add", tape.weight(WIDTH, WIDTH), thin), shape=(B, S, WIDTH))


@way
def a_weight_over_its_norm(tape: Tape, x: int) -> None:
    weight = tape.weight(WIDTH, WIDTH)
    over = tape.add("div", weight, tape.add("reduce", weight, shape=(WIDTH, 1)))
    tape.add("linear", x, tape.add("mul", over, tape.weight(WIDTH, 1)), shape=(B, S, WIDTH))


@way
def a_scale_kept_as_a_logarithm(tape: Tape, x: int) -> None:
    tape.linear(tape.add("mul", x, tape.add("neg", tape.add("exp", tape.weight(WIDTH)))), WIDTH)


@way
def queries_that_are_learnt(tape: Tape, x: int) -> None:
    q = tape.view(tape.linear(tape.weight(10, WIDTH), WIDTH, bias=True), B, HEADS, 10, KEY)
    k, v = (tape.heads(tape.linear(x, WIDTH)) for _ in range(2))
    out = tape.add("attention", q, k, v, shape=(B, HEADS, 10, KEY))
    tape.linear(tape.view(out, B, 10, WIDTH), WIDTH)


@way
def one_weight_in_every_layer(tape: Tape, x: int) -> None:
    up, down, scale, bias = tape.weight(96, WIDTH), tape.weight(WIDTH, 96), tape.weight(WIDTH), tape.weight(WIDTH)
    for _ in range(4):
        wide = tape.add("gelu", tape.linear(tape.add("rmsnorm", x, scale), 96, weight=up))
        x = tape.add("add", x, tape.add("linear", wide, down, bias, shape=(B, S, WIDTH)))


@way
def a_bias_that_several_products_share(tape: Tape, x: int) -> None:
    bias = tape.weight(WIDTH)
    for _ in range(3):
        x = tape.add("relu", tape.add("linear", x, tape.weight(WIDTH, WIDTH), bias, shape=(B, S, WIDTH)))


@way
def a_scale_that_several_norms_share(tape: Tape, x: int) -> None:
    scale = tape.weight(WIDTH)
    for _ in range(3):
        x = tape.linear(tape.add("layernorm", x, scale, tape.weight(WIDTH)), WIDTH)


@way
def one_window_in_every_layer(tape: Tape, x: int) -> None:
    turned, weight = tape.view(x, B, WIDTH, S), tape.weight(WIDTH, WIDTH, 3)
    for _ in range(3):
        made = tape.add("convolution", turned, weight, shape=(B, WIDTH, S), padding=(1,), stride=(1,))
        turned = tape.add("relu", made)


@way
def experts_that_several_layers_share(tape: Tape, x: int) -> None:
    weights = tape.weight(4, WIDTH, WIDTH)
    rows = tape.view(x, B * S, WIDTH)
    for _ in range(3):
        rows = tape.add("relu", tape.add("grouped_linear", rows, weights))


@way
def a_table_turned_to_give_logits(tape: Tape, x: int) -> None:
    table = tape.weight(50, WIDTH)
    y = tape.add("embedding", table, tape.tokens(), shape=(B, S, WIDTH))
    tape.add("matmul", tape.add("add", x, y), tape.view(table, WIDTH, 50), shape=(B, S, 50))


@way
def two_heads_on_one_table(tape: Tape, x: int) -> None:
    table = tape.weight(96, WIDTH)
    for each in (x, tape.norm(x)):
        tape.loss(tape.linear(each, 96, weight=table))


@pytest.mark.parametrize("name", DIRECTIONS)
def test_every_parameter_is_counted_once_and_every_product_done(name):
    tape = Tape()
    DIRECTIONS[name](tape, tape.embedding()[0])
    captured = tape.captured()
    graph = captured.forward(Sample(batch=BATCH, seq=SEQ, dtype="bf16"))
    assert captured.num_parameters == graph.num_parameters == tape.num_parameters
    assert graph.model_flop == product_flop(tape, BATCH, SEQ)


def test_a_parameter_that_nothing_reads_is_not_trained_and_not_counted():
    tape = Tape()
    tape.linear(tape.embedding()[0], WIDTH)
    num_trained = tape.num_parameters
    tape.weight(5)
    assert tape.captured().num_parameters == num_trained


def test_products_made_of_parameters_alone_stand_before_all_that_reads_data():
    tape = Tape()
    a_weight_that_is_a_sum_with_a_product_of_two_others(tape, tape.layer(tape.embedding()[0], 0))
    first = [part.operator for part in pools_of(tape.captured())][:4]
    assert first == ["embedding", "reduce", "linear", "bias_add"]
