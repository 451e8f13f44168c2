"""The order of layers: a run-length pattern, from which stages have what they truly hold."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.evaluate import memory_use
from dovetail.hardware.clusters import clusters
from dovetail.parallel.layout import layers_per_chunk, ordered_parts, runs_of, stage_counts
from dovetail.parallel.plan import Plan
from dovetail.parallel.sharding import shard
from dovetail.step.step import training_step
from dovetail.workload.experts import Experts
from dovetail.workload.graph import Graph
from dovetail.workload.huggingface import model_from_config
from dovetail.workload.layer_types import layers_of, shortest_pattern
from dovetail.workload.layers import Sample
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.transformer import Transformer
from dovetail.workload.workload import Workload
from tests.unit.workload.dense_configs import GEMMA_3_27B
from tests.unit.workload.mixture_configs import GPT_OSS_20B, GPT_OSS_120B

SEQ, WINDOW = 1024, 128
LOCAL, GLOBAL = "sliding_attention", "full_attention"
SMALL = Transformer(
    name="small", num_layers=12, hidden=512, num_heads=8, num_kv_heads=4, head_width=64, ffn_width=1024, vocab=1000,
    window=WINDOW,
)  # fmt: skip


def local_and_global(*layer_types: tuple[str, int], num_layers: int = 12) -> Transformer:
    return replace(SMALL, num_layers=num_layers, layer_types=layer_types)


def graph_of(shape: Transformer) -> Graph:
    model = replace(models["llama3-8b"](), architecture=shape)
    return Workload(model=model, global_batch=8, seq=SEQ).training_graph()


@cache
def both() -> tuple[Graph, Graph]:
    """Four global layers among eight local ones, interleaved and apart."""
    return graph_of(local_and_global((LOCAL, 2), (GLOBAL, 1))), graph_of(local_and_global((LOCAL, 8), (GLOBAL, 4)))


def test_a_pattern_begins_anew_until_all_layers_have_a_type():
    graph = graph_of(local_and_global((LOCAL, 5), (GLOBAL, 1), num_layers=26))
    assert graph.layer_runs == ((0, 5), (1, 1)) * 4 + ((0, 2),)
    assert [block.repeat for block in graph.blocks] == [1, 22, 4, 1]
    assert graph.num_layers == 26
    assert graph.is_interleaved


def test_every_kind_of_layer_is_stored_once_however_often_it_comes():
    graph = graph_of(local_and_global((LOCAL, 1), (GLOBAL, 1), num_layers=64))
    assert len(graph.blocks) == 4
    assert [block.name for block in graph.blocks_in_order][:4] == [
        "embedding", f"{LOCAL}_layer", f"{GLOBAL}_layer", f"{LOCAL}_layer",
    ]  # fmt: skip


def test_kinds_that_are_each_in_one_place_need_no_pattern():
    apart = both()[1]
    assert apart.layer_pattern == ()
    assert apart.layer_runs == ((0, 8), (1, 4))
    assert not apart.is_interleaved


def test_attention_and_experts_can_be_interleaved_each_by_a_pattern_of_its_own():
    shape = replace(
        local_and_global((LOCAL, 3), (GLOBAL, 1), num_layers=8),
        mlp_layer_types=(("dense", 1), ("sparse", 1)),
        experts=Experts(num_experts=4, num_experts_per_token=2, width=256),
    )
    assert layers_of(shape)[:4] == [(LOCAL, "dense"), (LOCAL, "sparse"), (LOCAL, "dense"), (GLOBAL, "sparse")]
    graph = graph_of(shape)
    assert [block.repeat for block in graph.blocks if block.is_layer] == [4, 2, 2]
    assert shape.num_expert_layers == 4


def test_dense_layers_before_experts_keep_their_place_under_a_pattern_of_attention():
    shape = replace(
        local_and_global((LOCAL, 1), (GLOBAL, 1), num_layers=6),
        num_dense_layers=1,
        experts=Experts(num_experts=4, num_experts_per_token=2, width=256),
    )
    assert layers_of(shape)[:3] == [(LOCAL, "dense"), (GLOBAL, "sparse"), (LOCAL, "sparse")]
    plain = replace(shape, window=0, layer_types=())
    sample = Sample(batch=1, seq=64, dtype="bf16")
    assert shape.forward(sample).num_parameters == plain.forward(sample).num_parameters


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from((LOCAL, GLOBAL)), st.integers(1, 4)), min_size=1, max_size=4),
    st.integers(4, 14),
    st.sampled_from([("1f1b", 1, 1), ("1f1b", 1, 3), ("1f1b", 2, 2), ("zb-v", 2, 2), ("dualpipe", 1, 4)]),
    st.integers(0, 5),
)
def test_a_stage_holds_what_a_walk_over_the_layers_gives_it(pattern, num_layers, shape, num_again):
    schedule, interleave, num_stages = shape
    graph = local_and_global(*pattern, num_layers=num_layers).forward(Sample(batch=1, seq=256, dtype="bf16"))
    plan = Plan(
        pipeline_parallel=num_stages, interleave=interleave, schedule=schedule,
        recompute=("full",), recompute_layers=(num_again,) if num_again else (),
    )  # fmt: skip
    if plan.num_chunks > num_layers:
        return
    layers = [block.name for block in graph.blocks_in_order if block.is_layer]
    counts, names = stage_counts(graph, plan), [block.name for block in graph.blocks]
    bounds = np.cumsum([0, *layers_per_chunk(num_layers, plan)])
    runs = [run for run in runs_of(graph, plan) for _ in range(run.num_stages)]
    for stage in range(num_stages):
        chunks = [chunk for chunk, homes in enumerate(plan.chunk_stages) if stage in homes]
        held = [name for chunk in chunks for name in layers[bounds[chunk] : bounds[chunk + 1]]]
        assert {n: held.count(n) for n in set(layers)} == {n: counts[names.index(n), stage] for n in set(layers)}
        again = held[: num_again or len(held)]
        for part in runs[stage].spans:
            if graph.blocks[part.block].is_layer:
                own = again if part.recompute == "full" else held[len(again) :]
                assert part.count == own.count(names[part.block])
        if runs[stage].first_stage == stage:
            ordered = ordered_parts(graph, runs[stage], plan)
            shown = [names[part.block] for part in ordered for _ in range(part.count)]
            assert [name for name in shown if name in layers] == held


def test_the_order_of_layers_changes_neither_work_nor_parameters():
    interleaved, apart = both()
    assert interleaved.model_flop == apart.model_flop
    assert interleaved.num_parameters == apart.num_parameters


def test_on_one_stage_the_order_of_layers_changes_nothing():
    on = clusters["dgx-a100"].build(1)
    first, second = (training_step(graph, Plan(microbatch=1), on, Precision()) for graph in both())
    assert first.step_s == pytest.approx(second.step_s, rel=1e-12)
    needs = [memory_use(shard(graph, Plan(microbatch=1)), Precision(), on.usable_bytes).need_bytes for graph in both()]
    assert needs[0] == pytest.approx(needs[1], rel=1e-12)


def test_stages_of_interleaved_layers_are_even_where_those_of_kinds_apart_are_not():
    on, plan = clusters["dgx-a100"].build(4), Plan(pipeline_parallel=4, microbatch=1)
    interleaved, apart = both()
    assert stage_counts(interleaved, plan)[1:3].tolist() == [[2, 2, 2, 2], [1, 1, 1, 1]]
    assert stage_counts(apart, plan)[1:3].tolist() == [[3, 3, 2, 0], [0, 0, 1, 3]]
    long = replace(SMALL, window=128)
    model = models["llama3-8b"]()
    seconds = []
    for layer_types in (((LOCAL, 2), (GLOBAL, 1)), ((LOCAL, 8), (GLOBAL, 4))):
        shape = replace(long, layer_types=layer_types)
        of = Workload(model=replace(model, architecture=shape), global_batch=8, seq=16_384)
        seconds.append(training_step(of.training_graph(), plan, on, of.precision).step_s)
    assert seconds[0] < 0.95 * seconds[1]


@pytest.mark.parametrize("seq", [128, 200, 1024, 4096])
@pytest.mark.parametrize("attention", ["flash", "unfused"])
def test_attention_of_any_kernel_does_the_work_of_its_window(seq, attention):
    """Scores that a window leaves: of a block of w queries, those with its own w keys and the w before them."""
    shape = replace(SMALL, num_layers=1)
    sample = Sample(batch=1, seq=seq, dtype="bf16", attention=attention)
    windowed, whole = (replace(shape, window=w).forward(sample).blocks[1].ops for w in (WINDOW, 0))
    width = min(WINDOW, seq)
    scored = seq * seq - (seq - width) ** 2
    core = windowed.is_core
    expected = whole.model_flop[core].sum() * scored / seq**2
    assert windowed.model_flop[core].sum() == pytest.approx(expected, rel=seq / scored)  # a key a query, for rounding
    if attention == "unfused":
        [softmax] = [i for i, name in enumerate(windowed.names) if name == "softmax"]
        assert windowed.extents[softmax, 2] == -(-scored // seq)
        reads = windowed.names.index("scores")
        kept = 8 * seq * 64 + 4 * seq * 64  # queries of 8 heads and keys of 4, read once
        assert windowed.read_bytes[reads] == pytest.approx(2 * kept)


@given(st.lists(st.sampled_from((LOCAL, GLOBAL)), min_size=1, max_size=20))
def test_the_shortest_pattern_gives_back_every_layer(names):
    pattern = shortest_pattern(names)
    shape = local_and_global(*pattern, num_layers=len(names))
    assert [types for (types,) in layers_of(shape)] == names
    assert sum(count for _, count in pattern) <= len(names)


@pytest.mark.parametrize(
    ("config", "name"), [(GEMMA_3_27B, "gemma-3-27b"), (GPT_OSS_20B, "gpt-oss-20b"), (GPT_OSS_120B, "gpt-oss-120b")]
)
def test_the_catalogue_has_the_network_of_the_released_configuration(config, name):
    assert model_from_config(config, name).architecture == models[name]().architecture
