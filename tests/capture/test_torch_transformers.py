"""Models of transformers, small, from a configuration alone."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, an extra, is not installed")
transformers = pytest.importorskip("transformers", reason="transformers, an extra, is not installed")

import dovetail as dv  # noqa: E402
from dovetail.importers.torch_model import captured_module  # noqa: E402
from tests.capture.torch_toys import products_of_constants, shapes, steps  # noqa: E402

pytestmark = pytest.mark.slow  # transformers takes seconds to import
SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100}
WIDE = {"intermediate_size": 128}
SEQ = 128


def tokens(length=SEQ):
    return torch.empty(4, length, dtype=torch.long, device="meta")


def on_meta(kind, config):
    with torch.device("meta"):
        return kind(config).to(torch.bfloat16).train()


def llama(**more):
    config = transformers.LlamaConfig(**SMALL, **WIDE, num_key_value_heads=2, **more)
    return on_meta(transformers.LlamaForCausalLM, config)


MODELS = {
    "llama": llama,
    "gpt2": lambda: on_meta(transformers.GPT2LMHeadModel, transformers.GPT2Config(n_embd=64, n_layer=2, n_head=4)),
    "opt": lambda: on_meta(
        transformers.OPTForCausalLM, transformers.OPTConfig(**SMALL, ffn_dim=128, word_embed_proj_dim=64, layerdrop=0.1)
    ),
    "t5": lambda: on_meta(
        transformers.T5ForConditionalGeneration,
        transformers.T5Config(d_model=64, d_kv=16, num_heads=4, num_layers=2, d_ff=128, decoder_start_token_id=0),
    ),
    "bert": lambda: on_meta(transformers.BertForMaskedLM, transformers.BertConfig(**SMALL, **WIDE)),
}
NUM_ATTENTIONS = {"t5": 6}


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_language_model_has_one_attention_a_layer_and_a_loss(name):
    model = MODELS[name]()
    found = captured_module(model, {"input_ids": tokens(), "labels": tokens()})
    base = found.recorded.base
    assert len(steps(base, "attention")) == NUM_ATTENTIONS.get(name, 2)
    assert (found.recorded.seq, found.recorded.second_seq) == (SEQ, 64)
    assert shapes(base, found.results) == [()]
    constant, constant_flop = products_of_constants(found.recorded)
    assert found.backward_flop == 2 * (found.forward_flop - constant_flop)
    assert len(steps(base, "matmul")) == len(constant) <= 1
    assert not any(note.startswith("no gradient") for note in found.notes)


def test_causal_attention_needs_no_mask_and_keeps_its_heads_of_keys():
    base = captured_module(llama(), {"input_ids": tokens(), "labels": tokens()}).recorded.base
    for step in steps(base, "attention"):
        assert step.attribute("is_causal", False) is True
        assert shapes(base, step.inputs) == [(2, 4, SEQ, 16), (2, 2, SEQ, 16), (2, 2, SEQ, 16)]


def test_a_cache_of_keys_and_values_is_switched_off_in_the_copy_alone():
    model = llama()
    assert model.config.use_cache
    found = captured_module(model, {"input_ids": tokens(), "labels": tokens()})
    assert model.config.use_cache
    assert "the cache of keys and values is switched off, as trainers do" in found.notes
    plain = captured_module(llama(use_cache=False), {"input_ids": tokens(), "labels": tokens()})
    assert found.recorded == plain.recorded


def test_recomputation_is_switched_off_in_the_copy_alone():
    model = llama()
    model.gradient_checkpointing_enable()
    found = captured_module(model, {"input_ids": tokens(), "labels": tokens()})
    assert model.is_gradient_checkpointing
    assert "the module's own recomputation is switched off: plans decide on it" in found.notes
    assert found.backward_flop == 2 * (found.forward_flop - products_of_constants(found.recorded)[1])


def test_a_mask_of_ones_changes_nothing():
    inputs = {"input_ids": tokens(), "labels": tokens()}
    for mask in (tokens(), torch.ones(4, SEQ, dtype=torch.long)):
        base = captured_module(llama(), inputs | {"attention_mask": mask}).recorded.base
        assert all(len(step.inputs) == 3 for step in steps(base, "attention"))
    padded = torch.ones(4, SEQ, dtype=torch.long)
    padded[0, :5] = 0
    base = captured_module(llama(), inputs | {"attention_mask": padded}).recorded.base
    assert all(len(step.inputs) == 4 for step in steps(base, "attention"))


def test_experts_are_grouped_products():
    config = transformers.MixtralConfig(**SMALL, **WIDE, num_key_value_heads=2, num_local_experts=4)
    found = captured_module(
        on_meta(transformers.MixtralForCausalLM, config), {"input_ids": tokens(), "labels": tokens()}
    )
    grouped = steps(found.recorded.base, "grouped_linear")
    assert len(grouped) == 4
    assert shapes(found.recorded.base, grouped[0].inputs)[0] == (2 * SEQ * 2, 64)


def test_experts_in_float32_are_told_the_way_out():
    config = transformers.MixtralConfig(**SMALL, **WIDE, num_key_value_heads=2, num_local_experts=4)
    model = on_meta(transformers.MixtralForCausalLM, config).float()
    with pytest.raises(Exception, match=r"convert the model with \.to\(torch\.bfloat16\)"):
        captured_module(model, {"input_ids": tokens(), "labels": tokens()})


def test_a_window_that_the_recorded_length_does_not_reach_is_noted() -> None:
    sizes = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1, "vocab_size": 64}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    config = transformers.MistralConfig(**sizes, **heads, sliding_window=24)
    for seq, is_noted in ((16, True), (32, False)):
        notes = dv.capture(config, seq=seq, cache=False).model.notes
        assert any("a window of 24 keys is not seen at 16 positions" in note for note in notes) == is_noted
