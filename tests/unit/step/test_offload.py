"""What copies to the host and an update there take, against numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from dovetail.errors import InvalidInput, NotModelled
from dovetail.evaluate import Infeasible, Outcome, evaluate
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.hardware.heterogeneous import HeterogeneousCluster
from dovetail.hardware.host import COPY_FRAC, Host
from dovetail.hardware.link import Link
from dovetail.parallel.block_memory import kept_bytes
from dovetail.parallel.memory import NUM_OFFLOADED_IN_TRANSIT
from dovetail.parallel.plan import Overlap, Plan
from dovetail.parallel.sharding import shard
from dovetail.report.figures import table_of
from dovetail.report.levers import levers_list
from dovetail.step.offload import UPDATE_FRAC
from dovetail.step.offload_events import LayerTimes, passes_end_s
from dovetail.step.pass_order import Kind
from dovetail.step.step import Step, training_step
from dovetail.units import GIGA, TERA
from dovetail.workload.graph import Graph
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.workload import Workload

NUM_DEVICES, NUM_LAYERS, NUM_MICROBATCHES = 8, 4, 2
PLAN = Plan(data_parallel=NUM_DEVICES)
PRECISION = Precision()


@cache
def workload() -> Workload:
    model = models["llama3-8b"]()
    short = replace(model, architecture=replace(model.architecture, num_layers=NUM_LAYERS))  # type: ignore[type-var]
    return Workload(model=short, global_batch=NUM_DEVICES * NUM_MICROBATCHES, seq=2048)


@cache
def graph() -> Graph:
    return workload().training_graph()


def cluster(link_bytes_per_s: float = 32 * GIGA, memory_bytes_per_s: float = TERA, **changes: float) -> Cluster:
    host = Host(
        num_devices=NUM_DEVICES,
        link=Link(bandwidth_bytes_per_s=link_bytes_per_s, latency_s=0.0),
        memory_bytes=2 * TERA,
        memory_bytes_per_s=memory_bytes_per_s,
    )
    return replace(clusters["dgx-h100"].build(NUM_DEVICES), host=replace(host, **changes))  # type: ignore[arg-type]


def step(plan: Plan, on: Cluster | None = None) -> Step:
    return training_step(graph(), plan, on or cluster(), PRECISION)


def layers_bytes(policy: str = "none") -> float:
    """What the layers of one microbatch keep."""
    pieces = shard(graph(), PLAN)
    layer = next(block for _, block in pieces.held(0) if block.is_layer)
    return NUM_LAYERS * kept_bytes(layer, policy)


def parts_s(found: Step) -> float:
    waits_s = sum(comm.exposed_s for comm in found.comm) + found.offload.exposed_s
    return float(found.compute_s + found.host_s + waits_s + found.bubble_s + found.update_s)


def test_activations_behind_a_fast_link_cost_nothing():
    plain, fast = step(PLAN), step(replace(PLAN, offload_activations_frac=1.0), cluster(TERA, 100 * TERA))
    assert fast.step_s == plain.step_s
    assert fast.offload.exposed_s == 0
    copied_s = layers_bytes() / (COPY_FRAC * TERA)
    assert fast.offload.hidden_s == pytest.approx(2 * NUM_MICROBATCHES * copied_s)


def test_activations_over_a_slow_link_take_as_long_as_their_copies():
    plan = replace(PLAN, offload_activations_frac=0.5, overlap=Overlap(data=False))
    plain, slow = step(replace(plan, offload_activations_frac=0.0)), step(plan, cluster(GIGA))
    copied_s = 0.5 * layers_bytes() / (COPY_FRAC * GIGA)
    per_step_s = plain.update_s + plain.comm[3].exposed_s
    assert slow.step_s == pytest.approx(2 * NUM_MICROBATCHES * copied_s + per_step_s)
    assert slow.offload.exposed_s + slow.offload.hidden_s == pytest.approx(2 * NUM_MICROBATCHES * copied_s)
    assert parts_s(slow) == pytest.approx(slow.step_s)


def test_all_devices_of_a_host_together_copy_no_faster_than_its_memory():
    plan = replace(PLAN, offload_activations_frac=1.0)
    slow = step(plan, cluster(TERA, NUM_DEVICES * GIGA))
    copied_s = layers_bytes() / GIGA
    assert slow.offload.exposed_s + slow.offload.hidden_s == pytest.approx(2 * NUM_MICROBATCHES * copied_s)


def test_recompute_leaves_less_to_copy():
    plan = replace(PLAN, offload_activations_frac=1.0, recompute=("full",))
    moved = step(plan, cluster(GIGA)).offload
    copied_s = layers_bytes("full") / (COPY_FRAC * GIGA)
    assert moved.exposed_s + moved.hidden_s == pytest.approx(2 * NUM_MICROBATCHES * copied_s)


def test_every_layers_copy_pays_the_latency_of_the_link():
    plan = replace(PLAN, offload_activations_frac=1.0)
    slow = Link(bandwidth_bytes_per_s=GIGA, latency_s=0.5)
    quick_s, late_s = (step(plan, on).step_s for on in (cluster(GIGA), cluster(GIGA, link=slow)))  # type: ignore[arg-type]
    assert late_s - quick_s == pytest.approx(2 * NUM_MICROBATCHES * NUM_LAYERS * 0.5)


@pytest.mark.parametrize(("zero_stage", "ranks"), [(0, 1), (1, NUM_DEVICES), (2, NUM_DEVICES)])
def test_the_host_updates_at_the_pace_of_its_memory_from_zero_1_on_a_share(zero_stage: int, ranks: int):
    plan = replace(PLAN, zero_stage=zero_stage, offload_optimizer=True)
    found = step(plan, cluster(100 * GIGA, 100 * GIGA))
    # gradient in, master weights and two moments in and out, weight out, and read once more to be sent up
    each = 4 + 2 * 12 + 2 + 2
    share_bytes_per_s = UPDATE_FRAC * 100 * GIGA / NUM_DEVICES
    assert found.update_s == pytest.approx(graph().num_parameters / ranks * each / share_bytes_per_s)
    assert parts_s(found) == pytest.approx(found.step_s)


def test_the_host_reaches_the_share_of_its_memorys_pace_that_was_measured():
    """ZeRO-Offload (arXiv:2101.06840): 10 G parameters of 30 bytes in 2.57 s on 256 GB/s."""
    measured_frac = 10 * GIGA * 30 / 2.57 / (256 * GIGA)
    assert measured_frac == pytest.approx(UPDATE_FRAC, rel=0.01)


def test_an_update_is_no_faster_than_its_weights_come_back():
    found = step(replace(PLAN, offload_optimizer=True), cluster(GIGA, 1000 * TERA))
    assert found.update_s == pytest.approx(2 * graph().num_parameters / (COPY_FRAC * GIGA))


def test_gradients_go_down_behind_the_last_backward_pass_unless_they_may_not():
    plan = replace(PLAN, offload_optimizer=True)
    copied_s = 4 * graph().num_parameters / (COPY_FRAC * 32 * GIGA)
    hides, waits = step(plan), step(replace(plan, overlap=Overlap(data=False)))
    assert waits.offload.exposed_s == pytest.approx(copied_s)
    assert 0 < hides.offload.exposed_s < copied_s
    assert hides.offload.exposed_s + hides.offload.hidden_s == pytest.approx(copied_s)


def test_copies_draw_what_a_link_of_the_chip_does_and_the_host_is_not_counted():
    plan = replace(PLAN, offload_optimizer=True, offload_activations_frac=0.25)
    on = cluster(TERA, 1000 * TERA)
    energy = on.chip.energy
    dear = replace(on, chip=replace(on.chip, energy=replace(energy, link_j_per_byte=2 * energy.link_j_per_byte)))
    bare = replace(PLAN, offload_optimizer=False)
    more_j = [step(p, dear).energy_j - step(p, on).energy_j for p in (plan, bare)]
    copied = 2 * NUM_MICROBATCHES * 0.25 * layers_bytes() + 6 * graph().num_parameters
    # the clock follows what links draw, so this is not exact
    assert more_j[0] - more_j[1] == pytest.approx(NUM_DEVICES * copied * energy.link_j_per_byte, rel=0.05)


@pytest.mark.parametrize("changes", [{"offload_optimizer": True}, {"offload_activations_frac": 0.25}])
def test_a_cluster_must_say_what_its_hosts_are(changes: dict[str, float]):
    plan = replace(PLAN, recompute=("full",), **changes)  # type: ignore[arg-type]
    unknown = clusters["llama3-grandteton"].build(NUM_DEVICES)
    with pytest.raises(InvalidInput, match=r"llama3-grandteton; add host: \{dev"):
        evaluate(workload(), unknown, plan)


def test_offload_on_a_cluster_of_several_parts_is_refused():
    parts = tuple(clusters[name].build(8) for name in ("dgx-h100", "dgx-a100"))
    between = Link(bandwidth_bytes_per_s=50 * GIGA, latency_s=0.0)
    mixed = HeterogeneousCluster(name="both", pools=parts, between=between)
    plan = Plan(data_parallel=8, pipeline_parallel=2, offload_optimizer=True)
    with pytest.raises(NotModelled, match="offload is not modelled"):
        evaluate(workload(), mixed, plan)


def test_more_than_the_host_holds_does_not_fit_and_says_by_how_much():
    plan = replace(PLAN, offload_optimizer=True)
    fits = evaluate(workload(), cluster(), plan)
    assert isinstance(fits, Outcome)
    need_bytes = fits.memory.host_need_bytes
    assert need_bytes == pytest.approx(16 * graph().num_parameters)
    small = evaluate(workload(), cluster(memory_bytes=NUM_DEVICES * 0.9 * need_bytes), plan)
    assert isinstance(small, Infeasible)
    assert small.memory.host_limit_bytes == pytest.approx(0.9 * need_bytes)
    ways = {lever.change: lever.fits for lever in small.levers}
    assert ways["zero_stage: 1"]
    assert ways["offload_optimizer: false"]


def test_a_host_with_no_room_is_told_to_hold_nothing():
    plan = replace(PLAN, zero_stage=1, offload_optimizer=True, offload_activations_frac=0.5)
    full = evaluate(workload(), cluster(memory_bytes=NUM_DEVICES * 0.01 * GIGA), plan)
    assert isinstance(full, Infeasible)
    ways = {lever.change: lever for lever in full.levers}
    both = ways["offload_optimizer: false, offload_activations_frac: 0"]
    assert both.fits
    assert both.memory == "device"
    still = ways["offload_optimizer: false"]
    assert not still.fits
    assert still.memory == "host"
    told = table_of(levers_list(full))
    assert {row[0]: row[1].split(" of ")[1] for row in told.rows} == {"fits": "device", "over": "host"}


def test_a_plan_that_lacks_memory_is_offered_the_hosts_where_there_is_one():
    plan = Plan(data_parallel=8)
    whole = Workload(model=models["llama3-8b"](), global_batch=16, seq=2048)
    changes = []
    for name in ("dgx-h100", "llama3-grandteton"):
        answer = evaluate(whole, clusters[name].build(8), plan)
        assert isinstance(answer, Infeasible)
        changes.append({lever.change for lever in answer.levers})
    assert "offload_optimizer: true" in changes[0]
    more = {change for change in changes[0] if change.startswith("offload_activations_frac")}
    assert more
    assert changes[0] - {"offload_optimizer: true"} - more == changes[1]


def test_a_faster_host_is_among_what_would_help_where_it_is_used():
    outcome = evaluate(workload(), cluster(), replace(PLAN, zero_stage=1, offload_optimizer=True))
    assert isinstance(outcome, Outcome)
    assert {"host link bandwidth", "host memory bandwidth"} <= {e.resource for e in outcome.elasticities}
    plain = evaluate(workload(), cluster(), replace(PLAN, zero_stage=1))
    assert isinstance(plain, Outcome)
    assert not any(e.resource.startswith("host ") and "bandwidth" in e.resource for e in plain.elasticities)


@pytest.mark.parametrize(
    ("order", "num_layers", "end_s"),
    [
        # forward ends at 1, 2 and, with two copies in transit, 5; the last layer turns back at once, and its
        # neighbours are up again at 10 and 13
        ("F0 B0", 3, 15.0),
        # both are down at 4 and 7, up again at 7 and 10
        ("F0 F1 B0 B1", 1, 12.0),
        # the third waits for the first to be down at 4, and is down itself at 10; buffers are free for it at 9
        ("F0 F1 F2 B0 B1 B2", 1, 15.0),
        # one that turns back sends nothing
        ("F0 B0 F1 B1", 1, 6.0),
    ],
)
def test_layers_wait_for_copies_in_transit_by_hand(order: str, num_layers: int, end_s: float):
    """A layer takes 1 s forward and 2 s backward, its copy 3 s each way."""
    kinds = {"F": Kind.FORWARD, "B": Kind.BACKWARD}
    passes = [(kinds[word[0]], int(word[1])) for word in order.split()]
    times = LayerTimes(num_layers=num_layers, forward_s=1.0, backward_s=2.0, copy_s=3.0)
    assert NUM_OFFLOADED_IN_TRANSIT == 2
    assert passes_end_s(passes, times) == end_s
