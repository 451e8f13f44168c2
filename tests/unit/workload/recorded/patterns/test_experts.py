from __future__ import annotations

from dovetail.workload.recorded.patterns.cones import take_cones
from dovetail.workload.recorded.patterns.experts import take_experts, take_rows_of_no_expert
from dovetail.workload.recorded.patterns.gates import take_gates
from tests.unit.workload.recorded.mixtures import COPIES, mixture
from tests.unit.workload.recorded.tapes import B, S, Tape, taken, words

TAKES = (take_rows_of_no_expert, take_cones, take_gates, take_experts)


def test_a_mixture_is_a_router_a_permutation_products_by_group_and_the_way_back():
    tape = Tape()
    mixture(tape, tape.embedding()[0])
    flow = taken(tape, *TAKES)
    main = [node.word for node in flow.main()]
    assert main == [
        "embedding", "linear", "router", "permute", "grouped_linear", "cone", "grouped_linear", "unpermute",
    ]  # fmt: skip
    assert [str(node.attributes["operator"]) for node in flow.nodes if node.word == "cone"] == ["gelu"]


def test_rows_of_experts_elsewhere_that_are_blanked_change_nothing():
    plain, blanked = Tape(), Tape()
    for tape, is_blanked in ((plain, False), (blanked, True)):
        mixture(tape, tape.embedding()[0], is_blanked=is_blanked)
    assert sum(step.word == "where" for step in blanked.steps) == 3
    ours, theirs = (list(taken(tape, *TAKES).main()) for tape in (plain, blanked))
    assert [node.word for node in theirs] == [node.word for node in ours]
    assert [len(node.inputs) for node in theirs] == [len(node.inputs) for node in ours]


def test_a_choice_by_other_truth_values_stays():
    tape = Tape()
    made = mixture(tape, tape.embedding()[0])
    truth = tape.add("compare", tape.data(COPIES, dtype="int"), dtype="bool", number=1)
    tape.add("where", made.down, tape.view(truth, COPIES, 1))
    flow = taken(tape, take_rows_of_no_expert)
    assert "where" in words(flow)


def test_without_products_by_group_no_choice_is_looked_through():
    tape = Tape()
    x, _ = tape.embedding()
    order = tape.add("sort", tape.data(B, S, dtype="int"), dtype="int")
    tape.add("where", tape.linear(x, 8), tape.view(tape.add("compare", order, dtype="bool", number=1), B, S, 1))
    assert "where" in words(taken(tape, take_rows_of_no_expert))


def test_the_way_back_reads_what_the_router_gives():
    tape = Tape()
    mixture(tape, tape.embedding()[0])
    flow = taken(tape, *TAKES)
    router, back = (next(node for node in flow.nodes if node.word == word) for word in ("router", "unpermute"))
    assert router.output in back.inputs


def test_the_output_of_experts_that_others_read_too_is_not_taken():
    tape = Tape()
    made = mixture(tape, tape.embedding()[0])
    tape.add("relu", made.down)
    found = words(taken(tape, *TAKES))
    assert "unpermute" not in found
    assert "router" not in found


def test_a_gather_that_no_expert_reads_is_no_permutation():
    tape = Tape()
    x, _ = tape.embedding()
    tape.linear(tape.add("gather", x), 8)
    assert "permute" not in words(taken(tape, *TAKES))
