from __future__ import annotations

from dovetail.workload.graph import Axis
from dovetail.workload.recorded.captured import Captured
from tests.unit.workload.recorded.tapes import VOCAB, WIDTH, B, Tape, names, part

COLS, INNER = 2, 3


def axes(captured: Captured, name: str) -> tuple[Axis, Axis]:
    """What may divide columns and contraction, or rows of a table."""
    found = part(captured, name)
    return Axis(found.extents[COLS][1]), Axis(found.extents[INNER][1])


def test_logits_and_the_table_are_divided_by_vocabulary():
    captured = Tape().decoder(2).captured()
    assert axes(captured, "lm_head") == (Axis.TENSOR, Axis.NONE)
    assert axes(captured, "loss") == (Axis.TENSOR, Axis.NONE)
    assert axes(captured, "embed") == (Axis.NONE, Axis.TENSOR)
    assert part(captured, "embed").weight_axes == Axis.TENSOR
    assert part(captured, "embed").extents[INNER][0].count == VOCAB


def test_a_classifier_s_few_columns_stay_whole():
    tape = Tape()
    x, _ = tape.embedding()
    pooled = tape.add("mean", tape.layer(x, 0), shape=(B, WIDTH), dims=(1,))
    tape.loss(tape.linear(pooled, 10, where="classifier"))
    captured = tape.captured()
    assert axes(captured, "classifier") == (Axis.NONE, Axis.NONE)
    assert "lm_head" not in names(captured)


def test_a_table_of_fewer_rows_than_columns_stays_whole():
    tape = Tape()
    x, _ = tape.embedding(rows=4)
    tape.linear(x, 8)
    assert axes(tape.captured(), "embed") == (Axis.NONE, Axis.NONE)


def test_what_is_done_to_logits_is_divided_with_them():
    tape = Tape()
    logits = tape.linear(tape.norm(tape.embedding()[0]), VOCAB, where="head")
    tape.loss(tape.add("mul", tape.add("tanh", logits), where="cap"))
    captured = tape.captured()
    assert [axes(captured, name)[0] for name in ("lm_head", "cap", "loss")] == [Axis.TENSOR] * 3


def test_a_bias_of_logits_is_divided_with_them():
    tape = Tape()
    x, table = tape.embedding()
    tape.loss(tape.linear(tape.norm(x), VOCAB, where="head", weight=table, bias=True))
    captured = tape.captured()
    assert part(captured, "head_bias").weight_axes == Axis.TENSOR
