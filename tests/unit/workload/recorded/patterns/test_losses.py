from __future__ import annotations

from dovetail.workload.recorded.patterns.losses import take_losses
from tests.unit.workload.recorded.tapes import B, Tape, taken, words


def begun() -> tuple[Tape, int, int]:
    tape = Tape()
    return tape, tape.linear(tape.data(B, 8), 10), tape.data(B, dtype="int")


def test_log_probabilities_and_what_is_taken_of_them_are_one_loss_over_the_logits():
    tape, logits, labels = begun()
    cast = tape.add("cast", logits, dtype="fp32")
    tape.add("nll", tape.add("log_softmax", cast, dim=-1), labels, shape=())
    flow = taken(tape, take_losses)
    assert [word for word in words(flow) if word != "cast"] == ["linear", "loss"]
    assert flow.nodes[-1].inputs == [logits]
    assert flow.nodes[-1].attributes["logits"] == cast


def test_a_cross_entropy_is_a_loss():
    tape, logits, labels = begun()
    tape.add("cross_entropy", logits, labels, shape=())
    flow = taken(tape, take_losses)
    assert words(flow) == ["linear", "loss"]
    assert flow.nodes[-1].inputs == [logits]


def test_a_loss_over_anything_but_log_probabilities_stays_as_it_is():
    tape, logits, labels = begun()
    tape.add("nll", logits, labels, shape=())
    assert words(taken(tape, take_losses)) == ["linear", "nll"]


def test_classes_come_second_or_where_log_probabilities_are_taken():
    tape, logits, labels = begun()
    tape.add("cross_entropy", logits, labels, shape=())
    tape.add("nll", tape.add("log_softmax", logits, dim=-1), labels, shape=())
    assert [node.attributes["dim"] for node in taken(tape, take_losses).nodes if node.word == "loss"] == [1, -1]
