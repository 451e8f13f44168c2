from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.workload.layers import Sample
from dovetail.workload.operators import OPERATORS
from dovetail.workload.recorded.captured import KINDS
from dovetail.workload.recorded.sizes import Size
from tests.unit.workload.recorded.mixtures import mixture
from tests.unit.workload.recorded.tapes import BATCH, HEADS, KEY, SEQ, VOCAB, WIDTH, B, S, Tape, pools_of

SAMPLE = Sample(batch=BATCH, seq=SEQ, dtype="bf16")


def gated() -> Tape:
    tape = Tape()
    x, _ = tape.embedding()
    gate, up = tape.linear(x, 64, where="mlp.gate"), tape.linear(x, 64, where="mlp.up")
    tape.linear(tape.add("mul", tape.add("silu", gate), up), WIDTH, where="mlp.down")
    return tape


def rows(tape: Tape, **sample: str) -> list[str]:
    graph = tape.captured().forward(replace(SAMPLE, **sample))  # type: ignore[arg-type]
    return [OPERATORS[kind].name for block in graph.blocks for kind in block.ops.kind]


def test_a_gated_activation_is_one_kernel_or_two():
    assert rows(gated(), kernels="fused").count("silu_mul") == 1
    eager = rows(gated(), kernels="eager")
    assert (eager.count("silu_mul"), eager.count("silu"), eager.count("mul")) == (0, 1, 1)


def test_logits_divided_by_vocabulary_are_summed_up_behind_the_loss():
    found = rows(Tape().decoder(2))
    assert found[-1] == "vocab_reduce"


@pytest.mark.parametrize("attention", ["flash", "unfused"])
def test_attention_is_laid_out_by_the_kernel_that_is_asked_for(attention):
    found = rows(Tape().decoder(2), attention=attention)
    assert ("attention" in found) is (attention == "flash")
    assert ("softmax" in found) is (attention == "unfused")


def test_heads_may_stand_in_the_batch():
    tape = Tape()
    x, _ = tape.embedding()
    heads = B * Size(HEADS)
    q, k, v = (tape.view(tape.linear(x, WIDTH), heads, S, KEY) for _ in range(3))
    tape.add("attention", q, k, v, shape=(heads, S, KEY))
    captured = tape.captured()
    (attention,) = (part for part in pools_of(captured) if part.kind == "attention")
    assert attention.num_heads == HEADS
    assert captured.forward(SAMPLE).model_flop == 2 * BATCH * SEQ * WIDTH * (3 * WIDTH + 2 * SEQ)


def test_every_kind_of_part_is_one_that_can_be_laid_out():
    tape = Tape().decoder(2)
    mixture(tape, tape.embedding()[0])
    found = {part.kind for part in pools_of(tape.captured())}
    assert found <= set(KINDS)
    assert {"linear", "expert_linear", "attention", "vector", "exchange", "loss"} <= found


def test_a_block_is_stored_once_and_counted_as_often_as_it_repeats():
    graph = Tape().decoder(5).captured().forward(SAMPLE)
    assert [block.repeat for block in graph.blocks] == [1, 5, 1]
    layer = 2 * BATCH * SEQ * WIDTH * (4 * WIDTH + 2 * SEQ + 2 * 128)
    assert graph.model_flop == 5 * layer + 2 * BATCH * SEQ * WIDTH * VOCAB


def test_two_captured_models_of_one_recording_are_equal_and_hash_alike():
    one, two = (Tape().decoder(2).captured() for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)
