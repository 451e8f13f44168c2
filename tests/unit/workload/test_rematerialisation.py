"""What policies by tensor keep of a layer and run again, counted by hand."""

from __future__ import annotations

import pytest

from dovetail.errors import InvalidInput
from dovetail.hardware.clusters import clusters
from dovetail.parallel.block_memory import kept_bytes
from dovetail.parallel.memory import moments, stage_memories
from dovetail.parallel.plan import Plan
from dovetail.parallel.sharding import executed_flop, shard
from dovetail.report.launchers.frameworks import launchers
from dovetail.workload.checkpoint_policies import TENSORS, canonical, checkpoint_policies, places_of
from dovetail.workload.experts import Experts
from dovetail.workload.graph import Block, Graph, Phase
from dovetail.workload.layers import Sample
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.rematerialisation import rematerialised
from dovetail.workload.training import training_graph
from dovetail.workload.transformer import Transformer
from dovetail.workload.workload import Workload

TOKENS, HIDDEN, QUERIES, KEYS, FFN, HEADS, LAYERS = 64, 64, 128, 32, 256, 4, 3
BF16, STATISTIC = 2, 4
SHAPE = Transformer(
    name="small",
    num_layers=LAYERS,
    hidden=HIDDEN,
    num_heads=HEADS,
    num_kv_heads=1,
    head_width=32,
    ffn_width=FFN,
    vocab=96,
)
QKV = QUERIES + 2 * KEYS
ALL_OFFLOADED = ",".join(f"{tensor}=offload" for tensor in TENSORS)


def graph_of(shape: Transformer = SHAPE, *, attention: str = "flash") -> Graph:
    sample = Sample(batch=2, seq=32, dtype="bf16", kernels="compiled", attention=attention)
    return training_graph(shape.forward(sample), Precision())


def layer_of(graph: Graph) -> Block:
    return next(block for block in graph.blocks if block.is_layer)


@pytest.mark.parametrize(
    ("policy", "columns", "statistics"),
    [
        ("nothing_saveable", HIDDEN, 0),
        ("minimal", HIDDEN + QKV + HIDDEN + 2 * FFN, 0),
        ("minimal_flash", HIDDEN + QKV + QUERIES + HIDDEN + 2 * FFN, HEADS),
        ("save_dot_except_mlpwi", HIDDEN + QKV + HIDDEN, 0),
        ("save_dot_except_mlp", HIDDEN + QKV + HIDDEN, 0),
        ("save_dot_with_context_except_mlp", HIDDEN + QKV + QUERIES + HIDDEN, HEADS),
        ("save_qkv_proj", HIDDEN + QKV, 0),
        ("save_out_proj", HIDDEN + HIDDEN, 0),
        ("qkv_proj_offloaded", HIDDEN, 0),
        ("minimal_offloaded", HIDDEN, 0),
        ("decoder_layer_input=offload", 0, 0),
        ("key_proj=device,mlpwi_0=device", HIDDEN + KEYS + FFN, 0),
        ("qkv_proj=device,mlpwi=device", HIDDEN + QKV + 2 * FFN, 0),
        ("mlpwo=device", HIDDEN, 0),  # no gradient needs it, so it is not kept
    ],
)
def test_a_policy_keeps_on_the_device_what_it_names(policy: str, columns: int, statistics: int) -> None:
    assert kept_bytes(layer_of(graph_of()), policy) == TOKENS * (columns * BF16 + statistics * STATISTIC)


@pytest.mark.parametrize(
    ("policy", "columns"),
    [
        ("nothing_saveable", 0),
        ("minimal", 0),
        ("minimal_offloaded", QKV + HIDDEN + 2 * FFN),
        ("qkv_proj_offloaded", QKV),
        ("decoder_layer_input=offload,qkv_proj=offload,out_proj=offload", HIDDEN + QKV + HIDDEN),
    ],
)
def test_the_host_keeps_what_a_policy_offloads_of_all_layers(policy: str, columns: int) -> None:
    plan = Plan(recompute=(policy,), microbatch=2, framework="maxtext")
    [memory] = stage_memories(shard(graph_of(), plan), Precision(), [1.0])
    assert memory.host_bytes == LAYERS * TOKENS * columns * BF16


def test_the_backward_pass_of_the_last_layer_has_what_came_back_from_the_host() -> None:
    sharded = shard(graph_of(), Plan(recompute=("qkv_proj_offloaded",), microbatch=2, framework="maxtext"))
    last = moments(sharded, 0, Precision(), 1.0)[1]
    assert last.activations_bytes == TOKENS * (HIDDEN + QKV) * BF16


def again(policy: str, graph: Graph) -> set[str]:
    ops = layer_of(graph).ops
    found = rematerialised(ops, policy).again_frac
    return {name for name, phase, frac in zip(ops.names, ops.phase, found, strict=True) if not phase and frac > 0}


def test_minimal_takes_no_product_with_a_weight_twice_and_runs_attention_again() -> None:
    assert again("minimal", graph_of()) >= {"attention", "norm_1", "norm_2", "ffn_silu_mul"}
    assert not again("minimal", graph_of()) & {"q", "kv", "attention_out", "ffn_up", "ffn_down"}
    assert "attention" not in again("minimal_flash", graph_of())


def test_keeping_nothing_runs_all_again_but_the_product_whose_output_no_gradient_needs() -> None:
    assert again("nothing_saveable", graph_of()) >= {"q", "kv", "attention", "attention_out", "ffn_up", "ffn_silu_mul"}
    assert "ffn_down" not in again("nothing_saveable", graph_of())


def test_flop_that_run_again_are_those_of_the_products_that_do() -> None:
    graph = graph_of()
    flop = {
        name: executed_flop(shard(graph, Plan(recompute=(name,)))) for name in ("none", "nothing_saveable", "minimal")
    }
    attention = 2 * 2 * HEADS * 32 * 32 * 32 * 2 / 2  # two products, two samples, half of the scores
    products = 2 * TOKENS * (HIDDEN * QKV + QUERIES * HIDDEN + HIDDEN * 2 * FFN)
    assert flop["minimal"] - flop["none"] == pytest.approx(LAYERS * attention)
    assert flop["nothing_saveable"] - flop["none"] == pytest.approx(LAYERS * (attention + products))


def test_of_a_product_of_which_a_part_is_kept_the_rest_runs_again() -> None:
    ops = layer_of(graph_of()).ops
    found = rematerialised(ops, "key_proj=device,mlpwi_0=offload")
    rows = {name: ops.names.index(name) for name in ("kv", "ffn_up", "q")}
    assert {name: found.again_frac[row] for name, row in rows.items()} == {"kv": 0.5, "ffn_up": 0.5, "q": 1.0}


def test_experts_and_latent_attention_have_the_same_tensors() -> None:
    experts = Experts(num_experts=4, num_experts_per_token=2, width=32, shared_width=16)
    mixture = Transformer(
        **{name: getattr(SHAPE, name) for name in SHAPE.__slots__} | {"experts": experts, "name": "mixture"}
    )
    assert not again("minimal", graph_of(mixture)) & {"q", "kv", "attention_out", "expert_up", "shared_up"}
    sample = Sample(batch=1, seq=32, dtype="bf16", kernels="compiled")
    latent = training_graph(models["deepseek-v3"]().forward(sample), Precision())
    kept = "query_wa_proj=device,kv_wa_proj=device"
    assert not again(kept, latent) & {"q_down", "kv_down"}
    assert again(kept, latent) >= {"q_up", "kv_up", "attention"}
    assert not again("qkv_proj=offload", latent) & {"q_up", "kv_up"}


def test_attention_whose_scores_are_written_out_reads_the_same_tensors() -> None:
    assert not again("save_qkv_proj", graph_of(attention="unfused")) & {"q", "kv"}
    assert again("save_qkv_proj", graph_of(attention="unfused")) >= {"scores", "softmax"}


def test_tensors_are_kept_in_one_order_and_what_is_formed_again_is_left_out() -> None:
    assert canonical("out_proj=offload, query_proj=device,mlpwo=remat") == "query_proj=device,out_proj=offload"
    assert canonical("decoder_layer_input=device,mlpwo=remat") == "nothing_saveable"
    assert Plan(recompute=("out_proj=offload,context=remat",)) == Plan(recompute=("out_proj=offload",))
    assert places_of("minimal") == places_of(",".join(f"{t}={p}" for t, p in checkpoint_policies["minimal"].tensors))


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("out_porj=offload", "no tensor of a layer is named 'out_porj'; did you mean out_proj?"),
        ("out_proj=hots", "out_proj is device, offload or remat; got 'hots'"),
        ("out_proj=device,out_proj=offload", "out_proj is given twice: device and offload; keep one"),
        ("minimul", "no recompute policy is named 'minimul'; did you mean minimal"),
    ],
)
def test_a_policy_that_cannot_be_read_is_refused_in_one_line(policy: str, message: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        Plan(recompute=(policy,))
    assert message in refusal.value.message


@pytest.mark.parametrize("name", checkpoint_policies.names())
def test_a_policy_says_what_it_keeps_and_where_it_is_from(name: str) -> None:
    policy = checkpoint_policies[name]
    assert policy.summary
    assert policy.source
    assert {tensor for tensor, _ in policy.tensors} <= set(TENSORS)


def test_recompute_rows_of_a_layer_are_only_those_of_its_policy() -> None:
    sharded = shard(graph_of(), Plan(recompute=("minimal",)))
    [block] = [block for span, block in sharded.held(0) if block.is_layer]
    names = {n for n, phase in zip(block.ops.names, block.ops.phase, strict=True) if phase == Phase.RECOMPUTE}
    assert "attention:again" in names
    assert "ffn_up:again" not in names


def test_a_launch_of_maxtext_carries_a_policy_tensor_by_tensor() -> None:
    workload = Workload(model=models["llama3-8b"](), global_batch=24, seq=8192, kernels="compiled")
    cluster = clusters["tpu-v6e-pod"].build(8)
    said = {
        "nothing_saveable": {"remat_policy=full"},
        "minimal_offloaded": {"remat_policy=minimal_offloaded"},
        "decoder_layer_input=offload,out_proj=device": {
            "remat_policy=custom",
            "decoder_layer_input=offload",
            "out_proj=device",
        },
    }
    for policy, words in said.items():
        plan = Plan(data_parallel=8, zero_stage=3, microbatch=3, recompute=(policy,), framework="maxtext")
        launch = launchers["maxtext"](workload, cluster, plan)
        assert words <= set(launch.words)
        assert not [one for one in launch.missing if "recompute" in one.what]
