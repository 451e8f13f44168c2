"""Where a compiler lays buffers out, those that never live at once share memory: worked out by hand for one layer."""

from __future__ import annotations

import numpy as np

from dovetail.parallel.frameworks import frameworks
from dovetail.workload.graph import Axis
from dovetail.workload.layers import Sample
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.training import training_graph
from tests.device_memory import block_memory

TOKENS, HIDDEN, FFN, KV = 8192, 4096, 14336, 1024
PRECISION = Precision(has_persistent_gradients=False)
ALONE = {axis: np.ones(1, dtype=np.int64) for axis in Axis}


def passing_bytes(policy: str, framework: str = "maxtext") -> float:
    graph = training_graph(
        models["llama3-8b"]().forward(Sample(batch=1, seq=TOKENS, dtype="bf16", kernels="compiled")), PRECISION
    )
    [layer] = [block for block in graph.blocks if block.is_layer]
    return float(block_memory(layer, policy, PRECISION, frameworks[framework], ALONE).passing_bytes)


def test_the_fullest_moment_is_the_backward_of_the_last_product() -> None:
    """There all that was formed again stands, with the gradients of that product's output and input."""
    statistics = TOKENS * 32 * 4  # of attention's kernel: fp32, one a row and head
    formed = 2 * TOKENS * (
        HIDDEN  # first norm
        + HIDDEN + 2 * KV  # queries, keys and values, with positions
        + HIDDEN  # attention
        + HIDDEN + HIDDEN  # residual and second norm
        + 2 * FFN + FFN  # gate and up, and their product
    )  # fmt: skip
    gradients = 2 * TOKENS * (HIDDEN + FFN)
    residual = 2 * TOKENS * HIDDEN  # the gradient that passes by the feed-forward
    assert passing_bytes("nothing_saveable") == formed + statistics + gradients + residual


def test_less_to_form_again_never_needs_more() -> None:
    offloaded = "decoder_layer_input=offload"
    policies = (offloaded, f"{offloaded},query_proj=offload", f"{offloaded},query_proj=offload,out_proj=offload")
    found = [passing_bytes(policy) for policy in policies]
    assert found == sorted(found, reverse=True)
    assert found[-1] < found[0]


def test_sharing_memory_needs_no_more_than_holding_every_buffer() -> None:
    assert passing_bytes("nothing_saveable") <= passing_bytes("nothing_saveable", framework="plain")
