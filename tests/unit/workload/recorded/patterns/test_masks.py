"""How many keys a query sees, by the mask that is made for it."""

from __future__ import annotations

import pytest

from tests.unit.workload.recorded.tapes import VOCAB, B, S, Tape, part

WINDOW = 4


def positions(tape: Tape) -> tuple[int, int]:
    """Of queries, and of keys."""
    return tape.add("constant", shape=(S, 1), dtype="int"), tape.add("constant", shape=(1, S), dtype="int")


def compared(tape: Tape, *values: int) -> int:
    return tape.add("compare", *values, shape=(S, S), dtype="bool")


def causal(tape: Tape) -> int:
    queries, keys = positions(tape)
    return compared(tape, keys, queries)


def sliding(tape: Tape) -> int:
    queries, keys = positions(tape)
    first = tape.add("sub", queries, shape=(S, 1), dtype="int", number=WINDOW)
    return compared(tape, compared(tape, keys, first), causal(tape))


def by_distance(tape: Tape) -> int:
    queries, keys = positions(tape)
    distance = tape.add("abs", tape.add("sub", queries, keys, shape=(S, S), dtype="int"), dtype="int")
    return tape.add("compare", distance, shape=(S, S), dtype="bool", number=WINDOW)


def in_chunks(tape: Tape) -> int:
    chunks = [
        tape.add("binary", value, op="aten::floor_divide", dtype="int", number=2 * WINDOW) for value in positions(tape)
    ]
    return compared(tape, compared(tape, *chunks), causal(tape))


def chosen(tape: Tape) -> int:
    scores = tape.add("constant", shape=(B, S, S), dtype="fp32")
    indices = tape.add("topk", scores, shape=(B, S, WINDOW), dtype="int")
    blank = tape.add("constant", shape=(B, S, S), dtype="bool")
    return tape.add("scatter", blank, indices, shape=(B, S, S), dtype="bool")


@pytest.mark.parametrize(
    ("mask", "window", "is_causal"),
    [
        (causal, 0, True),
        (sliding, WINDOW, True),
        (by_distance, WINDOW, False),
        (in_chunks, WINDOW, True),
        (chosen, WINDOW, False),
    ],
)
def test_a_mask_says_how_many_keys_are_seen(mask, window, is_causal):
    tape = Tape()
    x, _ = tape.embedding()
    q, k, v = (tape.heads(tape.linear(x, 32, where=f"layers.0.{name}")) for name in "qkv")
    made = tape.add("attention", q, k, v, mask(tape), shape=tape.shape(q), where="layers.0.attn")
    tape.loss(tape.linear(tape.view(made, B, S, 32), VOCAB, where="head"))
    attention = part(tape.captured(), "attention")
    assert (attention.window, attention.is_causal) == (window, is_causal)
