from __future__ import annotations

import pytest

from dovetail.workload.recorded.sizes import Size
from tests.unit.workload.recorded.tapes import BATCH, SEQ, VOCAB, WIDTH, B, S, Tape, names


def blocks(tape: Tape) -> list[tuple[str, int, bool]]:
    return [(stretch.name, stretch.repeat, stretch.is_layer) for stretch in tape.captured().stretches]


@pytest.mark.parametrize("num_layers", [2, 3, 24])
def test_a_decoder_is_an_embedding_layers_that_repeat_and_a_head(num_layers):
    tape = Tape().decoder(num_layers)
    assert blocks(tape) == [("embed", 1, False), ("layers", num_layers, True), ("head", 1, False)]


def test_a_layer_unlike_the_others_is_a_block_of_its_own():
    tape = Tape()
    x = tape.layer(tape.embedding()[0], 0, wide=64)
    for index in range(1, 6):
        x = tape.layer(x, index)
    tape.loss(tape.linear(tape.norm(x), VOCAB, where="head"))
    assert [(repeat, is_layer) for _, repeat, is_layer in blocks(tape)] == [
        (1, False), (1, True), (5, True), (1, False),
    ]  # fmt: skip


def test_layers_that_alternate_repeat_two_by_two():
    tape = Tape()
    x, _ = tape.embedding()
    for index in range(8):
        x = tape.layer(x, index, wide=64 if index % 2 else 128)
    tape.loss(tape.linear(tape.norm(x), VOCAB, where="head"))
    assert [repeat for _, repeat, _ in blocks(tape)] == [1, 4, 1]


def encoder_and_decoder(num_layers: int = 4) -> Tape:
    """Two stacks; every layer of the second reads what the first gave, after a norm."""
    tape = Tape()
    x, table = tape.embedding()
    for index in range(num_layers):
        x = tape.layer(x, index)
    memory = tape.norm(x, where="encoder.norm")
    tokens = tape.data(B, S, dtype="int")
    y = tape.add("embedding", table, tokens, shape=(B, S, WIDTH), where="decoder.embed")
    for index in range(num_layers):
        where = f"decoder.{index}"
        q = tape.heads(tape.linear(tape.norm(y, where=where), WIDTH, where=f"{where}.q"))
        k, v = (tape.heads(tape.linear(memory, WIDTH, where=f"{where}.{name}")) for name in "kv")
        out = tape.view(tape.add("attention", q, k, v, shape=tape.shape(q), where=where), B, S, WIDTH)
        y = tape.add("add", y, tape.linear(out, WIDTH, where=f"{where}.o"), where=where)
    tape.loss(tape.linear(tape.norm(y, where="norm"), VOCAB, where="head", weight=table))
    return tape


def test_an_encoder_and_a_decoder_are_two_stacks_and_the_norm_between_them_stands_in_the_last():
    tape = encoder_and_decoder()
    captured = tape.captured()
    assert [stretch.repeat for stretch in captured.stretches] == [1, 4, 4, 1]
    assert [stretch.is_layer for stretch in captured.stretches] == [False, True, True, False]
    last = [part.operator for part in captured.stretches[-1].parts]
    assert last.count("rmsnorm") == 2
    assert captured.num_parameters == tape.num_parameters


def test_what_goes_past_cuts_is_carried_with_what_goes_on():
    carried = [stretch.carried.at(BATCH, SEQ) for stretch in encoder_and_decoder().captured().stretches]
    one = BATCH * SEQ * WIDTH
    assert carried[1] == one
    assert carried[2] >= one


def test_only_the_first_stretch_meets_data():
    captured = Tape().decoder().captured()
    assert [stretch.is_input_data for stretch in captured.stretches] == [True, False, False]


def test_what_comes_in_is_what_the_stretch_before_hands_on():
    for stretch in Tape().decoder().captured().stretches[1:]:
        assert stretch.input_rows[0] == Size(1, num_batch=1, num_seq=1)
        assert stretch.input_cols[0] == Size(WIDTH)


def test_parts_of_a_block_have_names_of_their_own():
    for stretch in encoder_and_decoder().captured().stretches:
        found = [part.name for part in stretch.parts]
        assert len(found) == len(set(found))


def test_blocks_have_names_of_their_own():
    found = [stretch.name for stretch in encoder_and_decoder().captured().stretches]
    assert len(found) == len(set(found))


def test_an_image_model_begins_at_its_pixels():
    tape = Tape()
    x = tape.data(B, 3, 32, 32)
    for index in range(4):
        x = tape.add("relu", tape.conv(x, 8, 3, side=32, padding=1, where=f"conv{index}"))
    tape.loss(tape.linear(tape.add("mean", x, shape=(B, 8), dims=(2, 3)), 10, where="fc"))
    first = tape.captured().stretches[0]
    assert (first.input_rows[0], first.input_cols[0]) == (Size(1024, num_batch=1), Size(3))
    assert first.is_input_data


def test_a_model_of_one_piece_is_one_layer():
    tape = Tape()
    tape.linear(tape.data(B, 8), 8)
    captured = tape.captured()
    assert len(captured.stretches) == 1
    assert captured.stretches[0].is_layer
    assert names(captured)[-1] == "loss"


def test_what_comes_in_behind_a_mean_over_pixels_is_the_mean():
    tape = Tape()
    image = tape.conv(tape.data(B, 3, 32, 32), 8, 1, side=32)
    x = tape.add("mean", image, shape=(B, 8), dims=(2, 3))
    for index in range(8):
        x = tape.add("relu", tape.linear(x, 8, where=f"layers.{index}"))
    layers = tape.captured().stretches[1]
    assert layers.repeat == 3  # two by two, as pairs are divided
    assert (layers.input_rows[0], layers.input_cols[0]) == (Size(1, num_batch=1), Size(8))


def test_a_block_is_called_by_the_last_words_that_its_modules_share():
    tape = Tape()
    x, _ = tape.embedding()
    for index in range(4):
        where = f"wrapped.model.text.decoder.layers.{index}"
        x = tape.add("add", x, tape.feed_forward(tape.norm(x, where=f"{where}.norm"), where=where), where=where)
    tape.loss(tape.linear(tape.norm(x, where="norm"), VOCAB, where="head"))
    assert tape.captured().stretches[1].name == "text.decoder.layers"
