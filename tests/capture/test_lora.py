"""Adapters as a workload states them, beside a captured Llama of peft: parameters, FLOP and memory agree."""

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, an extra, is not installed")

from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

import dovetail as dv  # noqa: E402
from dovetail.files.python_values import as_model  # noqa: E402
from dovetail.parallel.memory import stage_memories  # noqa: E402
from dovetail.parallel.plan import Plan  # noqa: E402
from dovetail.parallel.sharding import shard  # noqa: E402
from dovetail.workload.layers import Sample  # noqa: E402
from dovetail.workload.lora import TARGETS, Lora  # noqa: E402
from dovetail.workload.optimizer import Precision  # noqa: E402
from dovetail.workload.training import training_graph  # noqa: E402
from dovetail.workload.workload import Workload  # noqa: E402
from tests.capture.torch_toys import of_positions  # noqa: E402

pytestmark = pytest.mark.slow
BATCH, SEQ, RANK = 2, 32, 8
SIZES = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 128,
}


def adapted_llama(targets):
    """A Llama with adapters whose gradients go back to the input of its first layer, as where layers are recomputed."""
    transformers = pytest.importorskip("transformers", reason="transformers, an extra, is not installed")
    peft = pytest.importorskip("peft", reason="peft is not installed")
    settings = peft.LoraConfig(r=RANK, target_modules=list(targets), task_type="CAUSAL_LM")
    llama = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES, use_cache=False))
    module = peft.get_peft_model(llama, settings).train()
    module.enable_input_require_grads()
    return module


def stated(tmp_path, targets):
    config = tmp_path / "config.json"
    config.write_text(json.dumps(SIZES | {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}))
    lora = Lora(rank=RANK, targets=tuple(targets))
    return Workload(model=as_model(str(config), SEQ), global_batch=BATCH, seq=SEQ, kernels="eager", lora=lora)


@pytest.mark.parametrize("targets", [("q_proj", "v_proj"), TARGETS, ("down_proj",)], ids="-".join)
def test_stated_adapters_are_those_of_peft(tmp_path, targets):
    module, tokens = adapted_llama(targets), torch.zeros(BATCH, SEQ, dtype=torch.long)
    workload = stated(tmp_path, targets)
    ours = workload.training_graph()
    assert ours.num_parameters == sum(each.numel() for each in module.parameters())
    assert ours.num_trained == sum(each.numel() for each in module.parameters() if each.requires_grad)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        module(input_ids=tokens, labels=tokens).loss.backward()
    assert ours.model_flop == counter.get_total_flops() - of_positions(counter)  # of a whole step, by PyTorch

    captured = dv.capture(adapted_llama(targets), {"input_ids": tokens, "labels": tokens}, cache=False).captured
    sample, precision = Sample(batch=BATCH, seq=SEQ, dtype="bf16", kernels="eager"), Precision()
    theirs = training_graph(captured.forward(sample), precision)
    assert (theirs.num_trained, theirs.model_flop) == (ours.num_trained, ours.model_flop)
    [mine], [other] = (
        stage_memories(shard(graph, Plan(microbatch=BATCH)), precision, [1.0]) for graph in (ours, theirs)
    )
    for kind in ("weights_bytes", "gradients_bytes", "optimizer_bytes"):
        assert getattr(mine, kind) == getattr(other, kind)
    assert mine.activations_bytes == pytest.approx(other.activations_bytes, rel=0.1)
