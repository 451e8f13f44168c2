"""What a kernel set makes of a model's operators."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from dovetail.errors import InvalidInput
from dovetail.workload.graph import Block, Graph
from dovetail.workload.layers import Sample
from dovetail.workload.models import models
from dovetail.workload.operators import OPERATORS, code_of

SAMPLE = Sample(batch=1, seq=512, dtype="bf16")


def graph(kernels: str, name: str = "llama2-7b") -> Graph:
    return models[name]().forward(replace(SAMPLE, kernels=kernels))


def kinds(block: Block) -> Counter[str]:
    return Counter(OPERATORS[code].name for code in block.ops.kind.tolist())


def is_fused(block: Block, kind: str) -> set[bool]:
    return set(block.ops.is_fused[block.ops.kind == code_of(kind)].tolist())


def test_megatron_lm_runs_what_fused_kernels_do():
    for ours, theirs in zip(graph("fused").blocks, graph("megatron-lm").blocks, strict=True):
        assert kinds(ours) == kinds(theirs)
        assert np.array_equal(ours.ops.is_fused, theirs.ops.is_fused)
        assert not theirs.ops.is_compiled.any()


def test_torchtitan_compiles_layers_and_the_loss_and_nothing_else():
    embedding, layer, head = graph("torchtitan").blocks
    assert layer.ops.is_compiled.all()
    assert is_fused(layer, "rmsnorm") == {True}
    assert not embedding.ops.is_compiled.any()
    assert is_fused(head, "rmsnorm") == {False}
    compiled = head.ops.kind[head.ops.is_compiled].tolist()
    assert compiled == [code_of("fused_cross_entropy")]
    assert layer.stops_early


def test_deepspeed_writes_rotary_and_swiglu_out_and_fuses_norms():
    fused, found = (graph(name).blocks[1] for name in ("fused", "deepspeed"))
    assert is_fused(found, "rmsnorm") == {True}
    assert kinds(found)["rope"] == kinds(found)["silu_mul"] == 0
    # queries and keys: half turned, two products, a sum; and a gate beside its product
    more = kinds(found) - kinds(fused)
    assert more == Counter({"concat": 2, "scale": 4, "add": 2, "silu": 1, "mul": 1})


def test_rotary_written_out_keeps_no_more_for_the_backward_pass():
    kept = {
        name: sum(float((block.ops.kept_bytes_per_element > 0).sum()) for block in graph(name, "deepseek-v3").blocks)
        for name in ("fused", "deepspeed")
    }
    assert kept["fused"] == kept["deepspeed"]


def test_experts_of_deepspeed_run_one_after_another():
    [layer] = [block for block in graph("deepspeed", "mixtral-8x7b").blocks if kinds(block)["expert_linear"]]
    assert is_fused(layer, "expert_linear") == {False}


def test_a_set_that_there_is_not_is_refused_with_the_nearest_name():
    with pytest.raises(InvalidInput, match="did you mean torchtitan"):
        replace(SAMPLE, kernels="torchtitn")
