from __future__ import annotations

from dovetail.workload.recorded.patterns.cones import take_cones
from dovetail.workload.recorded.patterns.experts import take_experts
from dovetail.workload.recorded.patterns.gates import take_gates
from tests.unit.workload.recorded.mixtures import mixture
from tests.unit.workload.recorded.tapes import Tape, taken, words

TAKES = (take_cones, take_gates, take_experts)


def test_a_mixture_is_a_router_a_permutation_products_by_group_and_the_way_back():
    tape = Tape()
    mixture(tape, tape.embedding()[0])
    flow = taken(tape, *TAKES)
    main = [node.word for node in flow.main()]
    assert main == [
        "embedding", "linear", "router", "permute", "grouped_linear", "cone", "grouped_linear", "unpermute",
    ]  # fmt: skip
    assert [str(node.attributes["operator"]) for node in flow.nodes if node.word == "cone"] == ["gelu"]


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
