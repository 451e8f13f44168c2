from __future__ import annotations

import itertools

import pytest

from tests.unit.workload.recorded.tapes import BATCH, SEQ, B, S, Tape, at_base, drafting_of

HIDDEN, GATES = 12, 4 * 12


def lstm(*, layers: int = 1, directions: int = 1, batch_first: bool = True, has_bias: bool = True):
    """Drafts of an LSTM over embeddings of 32 columns, in order, without what stands around it."""
    tape = Tape()
    x, _ = tape.embedding()
    shape = (B, S, directions * HIDDEN)
    if not batch_first:
        x, shape = tape.view(x, S, B, 32), (S, B, directions * HIDDEN)
    weights, biases = [], []
    for layer in range(layers):
        for _ in range(directions):
            width = 32 if layer == 0 else directions * HIDDEN
            weights += [tape.weight(GATES, width), tape.weight(GATES, HIDDEN)]
            biases += [tape.weight(GATES), tape.weight(GATES)] if has_bias else []
    tape.add(
        "lstm", x, *weights, *biases, shape=shape, where="rnn",
        hidden=HIDDEN, layers=layers, directions=directions, batch_first=batch_first,
    )  # fmt: skip
    drafts = [draft for draft in drafting_of(tape).drafts if draft.where == "rnn"]
    return tape, drafts


@pytest.mark.parametrize("batch_first", [True, False])
def test_a_layer_is_a_product_over_all_steps_one_product_a_step_and_a_cell(batch_first):
    _, drafts = lstm(batch_first=batch_first)
    assert [draft.name for draft in drafts] == ["rnn_input", "rnn_recurrent", "rnn_cell"]
    came, kept, cell = drafts
    assert at_base(came) == (1, BATCH * SEQ, GATES, 32, 1)
    assert at_base(kept) == (SEQ, BATCH, GATES, HIDDEN, 1)
    assert at_base(cell)[1:3] == (BATCH * SEQ, HIDDEN)
    assert (cell.operator, cell.output_frac) == ("lstm_cell", 2.0)


def test_steps_wait_for_each_other_and_layers_for_layers():
    _, drafts = lstm(layers=2)
    assert [draft.name for draft in drafts] == [
        "rnn_0_input", "rnn_0_recurrent", "rnn_0_cell", "rnn_1_input", "rnn_1_recurrent", "rnn_1_cell",
    ]  # fmt: skip
    for before, after in itertools.pairwise(drafts):
        assert after.reads == [before.makes]


def test_two_directions_stand_side_by_side_and_the_next_layer_reads_both():
    _, drafts = lstm(layers=2, directions=2)
    joined = [draft for draft in drafts if draft.operator == "concat"]
    assert [at_base(draft)[2] for draft in joined] == [2 * HIDDEN, 2 * HIDDEN]
    second = [draft for draft in drafts if draft.name.startswith("rnn_1") and draft.name.endswith("_input")]
    assert [draft.reads for draft in second] == [[joined[0].makes]] * 2
    inputs = [draft for draft in drafts if draft.kind == "linear"]
    assert [at_base(draft)[3] for draft in inputs] == [32, 32, 2 * HIDDEN, 2 * HIDDEN]


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("has_bias", [True, False])
def test_every_weight_and_bias_is_owned_once(layers, directions, has_bias):
    tape, drafts = lstm(layers=layers, directions=directions, has_bias=has_bias)
    owned = [parameter for draft in drafts for parameter, _ in draft.owns]
    assert len(owned) == len(set(owned))
    num_owned = sum(draft.weight + draft.bias for draft in drafts)
    assert num_owned == tape.num_parameters - 96 * 32  # but for the table
    assert tape.captured().num_parameters == tape.num_parameters
