from __future__ import annotations

from dovetail.workload.graph import Axis
from dovetail.workload.recorded.captured import Captured
from tests.unit.workload.recorded.mixtures import CHOSEN, EXPERT_WIDTH, EXPERTS, mixture
from tests.unit.workload.recorded.tapes import BATCH, SEQ, WIDTH, B, Tape, part, pools_of

LEAD, ROWS, COLS, INNER = range(4)


def of_mixture(*, is_gated: bool = False) -> tuple[Tape, Captured]:
    tape = Tape()
    x, _ = tape.embedding()
    x = tape.add("add", x, tape.self_attention(tape.norm(x)))
    made = mixture(tape, tape.norm(x), is_gated=is_gated)
    tape.add("add", x, made.out)
    return tape, tape.captured()


def axis(captured: Captured, name: str, extent: int) -> Axis:
    return Axis(part(captured, name).extents[extent][1])


def limits(captured: Captured) -> dict[tuple[Axis, str], int]:
    return {(Axis(limit.axis), limit.label): limit.size.at(BATCH, SEQ) for limit in captured.limits}


def test_rows_go_to_the_device_of_their_expert_and_back():
    _, captured = of_mixture()
    order = [each.operator for each in pools_of(captured)]
    at = order.index("permute")
    assert order[at : at + 9] == [
        "permute", "dispatch", "expert_gather", "expert_linear", "gelu", "expert_linear", "expert_reduce", "combine",
        "unpermute",
    ]  # fmt: skip
    assert part(captured, "dispatch").num_copies == part(captured, "combine").num_copies == CHOSEN


def test_experts_are_divided_by_their_axis_and_their_width_by_another():
    _, captured = of_mixture()
    assert [axis(captured, name, LEAD) for name in ("expert_up", "expert_down")] == [Axis.EXPERT, Axis.EXPERT]
    assert axis(captured, "expert_up", COLS) == Axis.EXPERT_TENSOR
    assert axis(captured, "expert_down", INNER) == Axis.EXPERT_TENSOR
    assert limits(captured)[Axis.EXPERT, "num_experts"] == EXPERTS
    assert limits(captured)[Axis.EXPERT_TENSOR, "expert width"] == EXPERT_WIDTH


def test_each_expert_has_its_share_of_rows_and_its_own_weights():
    tape, captured = of_mixture()
    up = part(captured, "expert_up")
    assert [size.at(BATCH, SEQ) for size, _ in up.extents] == [
        EXPERTS, BATCH * SEQ * CHOSEN // EXPERTS, EXPERT_WIDTH, WIDTH, 1,
    ]  # fmt: skip
    assert up.weight == EXPERTS * WIDTH * EXPERT_WIDTH
    assert captured.num_parameters == tape.num_parameters


def test_both_halves_of_gated_experts_are_one_product_a_group():
    tape, captured = of_mixture(is_gated=True)
    assert part(captured, "expert_up").weight == 2 * EXPERTS * WIDTH * EXPERT_WIDTH
    gated = part(captured, "silu_mul")
    assert gated.extents[ROWS][0].at(BATCH, SEQ) == BATCH * SEQ * CHOSEN
    assert Axis(gated.extents[COLS][1]) == Axis.EXPERT_TENSOR
    assert captured.num_parameters == tape.num_parameters


def tables(num_tables: int, widths: tuple[int, ...] = (16,)) -> tuple[Tape, Captured]:
    tape = Tape()
    found = [
        tape.add("embedding_bag", tape.weight(100, width), tape.data(B, dtype="int"), shape=(B, width), pool=1)
        for width in widths
        for _ in range(num_tables)
    ]
    whole = tape.add("concat", *found, shape=(B, num_tables * sum(widths)))
    tape.linear(whole, 8)
    return tape, tape.captured()


def test_tables_of_one_width_are_looked_up_as_one_and_dealt_out():
    tape, captured = tables(4)
    found = part(captured, "tables")
    assert found.weight == 4 * 100 * 16
    assert found.extents[ROWS][0].at(BATCH, 1) == 4 * BATCH
    assert found.weight_axes == Axis.EXPERT
    assert limits(captured)[Axis.EXPERT, "num_tables"] == 4
    assert [each.operator for each in pools_of(captured)].count("combine") == 1
    assert captured.num_parameters == tape.num_parameters


def test_tables_of_another_width_are_another_lookup():
    _, captured = tables(3, widths=(16, 8))
    assert [each.operator for each in pools_of(captured)].count("embedding_bag") == 2


def test_a_single_table_is_not_dealt_out():
    _, captured = tables(1)
    assert not any(axis == Axis.EXPERT for axis, _ in limits(captured))


def test_a_gate_has_a_row_a_token_and_a_column_an_expert():
    _, captured = of_mixture()
    router = part(captured, "router")
    assert [router.extents[extent][0].at(BATCH, SEQ) for extent in (ROWS, COLS)] == [BATCH * SEQ, EXPERTS]
