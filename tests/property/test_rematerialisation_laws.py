"""Laws of policies by tensor: what leaves the device makes room on it, and what is formed again is work."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.evaluate import memory_use
from dovetail.parallel.memory import moments
from dovetail.parallel.plan import Plan, columns_of
from dovetail.parallel.sharding import executed_flop, shard, shard_plans
from dovetail.step.memory_needs import host_need_bytes, need_bytes
from dovetail.units import GIBI
from dovetail.workload.checkpoint_policies import PLACES, TENSORS
from dovetail.workload.experts import Experts
from dovetail.workload.graph import Graph
from dovetail.workload.latent import LatentAttention
from dovetail.workload.layers import Sample
from dovetail.workload.optimizer import Precision
from dovetail.workload.training import training_graph
from dovetail.workload.transformer import Transformer

PRECISION = Precision(weights="fp32", gradients="bf16", has_master_weights=False, has_persistent_gradients=False)
LATENT = LatentAttention(query_rank=24, kv_rank=16, nope_width=16, rotary_width=8, value_width=16)
EXPERTS = Experts(num_experts=4, num_experts_per_token=2, width=48, shared_width=32)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    latent = draw(st.sampled_from((None, LATENT)))
    shape = Transformer(
        name="drawn",
        num_layers=draw(st.integers(2, 4)),
        hidden=64,
        num_heads=4,
        num_kv_heads=draw(st.sampled_from((1, 2, 4))),
        head_width=draw(st.sampled_from((16, 32))),
        ffn_width=128,
        vocab=draw(st.sampled_from((32, 512))),
        activation=draw(st.sampled_from(("silu_mul", "gelu"))),
        experts=draw(st.sampled_from((None, EXPERTS))),
        latent=latent,
        qk_norm=latent is None and draw(st.booleans()),
        has_rope=draw(st.booleans()),
    )
    attention = draw(st.sampled_from(("flash", "unfused")))
    return training_graph(
        shape.forward(Sample(batch=8, seq=32, dtype="bf16", kernels="compiled", attention=attention)), PRECISION
    )


def policy(places: dict[str, str]) -> str:
    return ",".join(f"{tensor}={place}" for tensor, place in places.items())


PLACED = st.fixed_dictionaries(
    {tensor: st.sampled_from(PLACES) for tensor in TENSORS if tensor not in ("qkv_proj", "mlpwi")}
)
CUTS = st.sampled_from(((1, 1), (2, 1), (2, 2), (1, 4)))


def planned(cut: tuple[int, int], recompute: str) -> Plan:
    tp, dp = cut
    return Plan(
        tensor_parallel=tp,
        sequence_parallel=tp > 1,
        data_parallel=dp,
        zero_stage=3,
        microbatch=8 // dp,
        recompute=(recompute,),
        framework="maxtext",
    )


def peak_bytes(graph: Graph, plan: Plan) -> float:
    return memory_use(shard(graph, plan), PRECISION, GIBI).need_bytes


@settings(max_examples=60, deadline=None)
@given(graph=graphs(), cut=CUTS, places=PLACED, tensor=st.sampled_from(TENSORS), there=st.sampled_from(PLACES[1:]))
def test_a_tensor_that_leaves_the_device_never_raises_its_peak(
    graph: Graph, cut: tuple[int, int], places: dict[str, str], tensor: str, there: str
) -> None:
    before, after = (planned(cut, policy(places | {tensor: place})) for place in ("device", there))
    assert peak_bytes(graph, after) <= peak_bytes(graph, before) * (1 + 1e-12)


@settings(max_examples=60, deadline=None)
@given(graph=graphs(), cut=CUTS, places=PLACED, tensor=st.sampled_from(TENSORS), there=st.sampled_from(PLACES[:2]))
def test_a_tensor_that_is_formed_again_never_lowers_executed_flop(
    graph: Graph, cut: tuple[int, int], places: dict[str, str], tensor: str, there: str
) -> None:
    kept, again = (
        executed_flop(shard(graph, planned(cut, policy(places | {tensor: place})))) for place in (there, "remat")
    )
    none, everything = (executed_flop(shard(graph, planned(cut, name))) for name in ("none", "full"))
    assert none * (1 - 1e-12) <= kept <= again * (1 + 1e-12) <= everything * (1 + 1e-12)


@settings(max_examples=40, deadline=None)
@given(graph=graphs(), cut=CUTS, places=PLACED)
def test_where_a_kept_tensor_is_changes_no_flop_and_moves_its_bytes_to_the_host(
    graph: Graph, cut: tuple[int, int], places: dict[str, str]
) -> None:
    on_device = {tensor: "device" if place == "offload" else place for tensor, place in places.items()}
    plans = [planned(cut, policy(each)) for each in (places, on_device)]
    there, here = (moments(shard(graph, plan), 0, PRECISION, 1.0)[0] for plan in plans)
    assert executed_flop(shard(graph, plans[0])) == executed_flop(shard(graph, plans[1]))
    moved_bytes = here.activations_bytes - there.activations_bytes
    assert abs(moved_bytes - there.host_bytes) <= 1e-9 * here.activations_bytes
    assert here.host_bytes == 0.0


@settings(max_examples=30, deadline=None)
@given(
    graph=graphs(),
    cut=CUTS,
    policies=st.lists(PLACED.map(policy) | st.sampled_from(("none", "full")), min_size=1, max_size=4),
)
def test_plans_in_one_table_need_what_each_needs_alone(graph: Graph, cut: tuple[int, int], policies: list[str]) -> None:
    plans = [planned(cut, one) for one in policies]
    table = shard_plans(graph, columns_of(plans))
    for plan, need, host in zip(plans, need_bytes(table, PRECISION), host_need_bytes(table, PRECISION), strict=True):
        alone = memory_use(shard(graph, plan), PRECISION, GIBI)
        assert abs(need - alone.need_bytes) <= 1e-9 * alone.need_bytes
        assert abs(host - alone.host_need_bytes) <= 1e-9 * max(1.0, alone.host_need_bytes)
