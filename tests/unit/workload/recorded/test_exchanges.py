from __future__ import annotations

from dovetail.workload.graph import Axis
from dovetail.workload.recorded.captured import Captured
from tests.unit.workload.recorded.tapes import LAYER, Tape, part, pools_of

COLS, INNER = 2, 3


def axes(captured: Captured, name: str) -> tuple[Axis, Axis]:
    """What may divide columns and contraction."""
    found = part(captured, name)
    return Axis(found.extents[COLS][1]), Axis(found.extents[INNER][1])


def exchanges(captured: Captured) -> list[str]:
    return [each.operator for each in pools_of(captured) if each.kind == "exchange"]


def test_a_region_is_gathered_before_and_reduced_behind():
    tape = Tape()
    tape.feed_forward(tape.norm(tape.embedding()[0]))
    captured = tape.captured()
    assert exchanges(captured) == ["reduce", "gather", "reduce"]  # the first is the table's
    order = [each.operator for each in pools_of(captured)]
    assert order[-6:-1] == ["gather", "linear", "gelu", "linear", "reduce"]


def test_parallel_branches_share_what_they_gather_and_are_reduced_once():
    tape = Tape()
    x, _ = tape.embedding()
    normed = tape.norm(x, where=f"{LAYER}.norm")
    both = tape.add("add", tape.self_attention(normed), tape.feed_forward(normed), where=LAYER)
    tape.add("add", x, both, where=LAYER)
    captured = tape.captured()
    assert exchanges(captured).count("gather") == 1
    assert exchanges(captured).count("reduce") == 2  # one is the table's
    assert axes(captured, "mlp_up") == (Axis.TENSOR, Axis.NONE)
    assert axes(captured, "attention_out") == (Axis.NONE, Axis.TENSOR)


def test_branches_one_after_another_are_gathered_and_reduced_each():
    tape = Tape()
    tape.layer(tape.embedding()[0], 0)
    captured = tape.captured()
    assert exchanges(captured) == ["reduce", "gather", "reduce", "gather", "reduce"]


def test_two_tensors_that_a_region_reads_are_gathered_each():
    tape = Tape()
    x, _ = tape.embedding()
    memory = tape.norm(x, where="encoder")
    q = tape.heads(tape.linear(tape.norm(x, where=LAYER), 32, where=f"{LAYER}.q"))
    k, v = (tape.heads(tape.linear(memory, 32, where=f"{LAYER}.{name}")) for name in "kv")
    out = tape.view(tape.attention(q, k, v), *tape.shape(x))
    tape.linear(out, 32, where=f"{LAYER}.o")
    assert exchanges(tape.captured()) == ["reduce", "gather", "gather", "reduce"]
