"""The planner over the space that Calculon enumerates for GPT-3 175B on 512 A100: how much of it is covered, how fast.

What its flags are here. Which only lower time and which only add to it: tests/property/test_calculon_laws.py.

| Calculon | here |
|---|---|
| degrees, microbatch, interleave | the same; interleaved schedules that Megatron-LM refuses are left out |
| recompute full, attn_only, none | full, selective, none |
| optimizer sharding | ZeRO-1 |
| tensor communication ar, p2p_rs_ag | no sequence parallelism: parts are sent between stages and gathered behind |
| rs_ag, gathered again | sequence parallelism, as Megatron-LM has it: only parts are kept |
| rs_ag, kept whole | none: those that fit are timed without the second gather |
| data overlap; tensor overlap none, ring, pipe | `overlap.data`; `overlap.tensor`, one way of it |
| network of each axis | the order of axes on the network |
| optimizer and activations on the host | `offload_optimizer`, `offload_activations_frac` 1 |
| weights on the host | none: only plans that fit no other way could gain, and those are timed with memory without end |
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations, product

import numpy as np

from benchmarks.bar import REPOSITORY, Bar
from dovetail.files.job import load_spec
from dovetail.hardware.clusters import clusters
from dovetail.parallel.memory import ALLOCATOR_RESERVE_FRAC, memory_table
from dovetail.parallel.placement import NOWHERE, placements_of
from dovetail.parallel.plan import RECOMPUTE_POLICIES, Overlap, Plans
from dovetail.parallel.sharding import shard_plans
from dovetail.search.objectives import objectives
from dovetail.search.planners.candidates import Scoring, best_of
from dovetail.search.planners.even_plans import EvenSearch, PlanProgress
from dovetail.search.planners.plan_space import PlanSpace, batches, divisors
from dovetail.search.planners.refine import Job
from dovetail.step.memory_needs import need_bytes
from dovetail.step.offload import host_of
from dovetail.step.pipelines import PipelineShape, pipelines
from dovetail.step.step import step_times, training_steps
from dovetail.step.work import COMM_AXES
from dovetail.units import GIGA, KIBI, MEGA
from dovetail.workload.graph import FloatArray, IntArray
from dovetail.workload.operators import dtype_bytes
from dovetail.workload.transformer import Transformer

ISSUE = 5
SPEC = REPOSITORY / "examples" / "gpt3-175b-1024xa100.yaml"
NUM_DEVICES = 512
NUM_NETWORKS = 2  # of its A100 system: within a box and between boxes
MOST_S, MOST_BYTES = 120, 1 * GIGA  # CPU-seconds: 60 s on 2 cores
RECORDED_PLANS, RECORDED_CPU_HOURS = 13.2 * MEGA, 32  # Source: peers.md, first table
NEAR = 1.2  # times the best step, within which plans are looked at by parts; no gather is as much as the rest
MOST_GAP_FRAC = 0.001  # that plans of which only a bound is known may be ahead
RECOMPUTE = ("none", "selective", "full")
HAVE = ("tp", "dp", "pp")  # axes whose order matters; context parallelism is not in its space


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a model's plans are counted by."""

    hidden: int
    num_heads: int
    num_layers: int
    batch: int


@dataclass(frozen=True, slots=True)
class Counted:
    """Plans that Calculon enumerates: all, those that no schedule runs, and of the others those without counterpart.

    Their weights are on the host, or they keep whole what sequence parallelism gathered, not the parts of it.
    """

    num_all: int
    num_refused: int
    num_weights_away: int
    num_kept_whole: int  # and weights on the devices

    @property
    def num_covered(self) -> int:
        return self.num_all - self.num_refused - self.num_weights_away - self.num_kept_whole


def bars() -> Iterator[Bar]:
    yield covered()


def counted(shape: Shape, num_devices: int) -> Counted:
    """Flags are multiplied as its search loops over them; which have a choice depends on the degrees."""
    found = np.zeros(4, dtype=np.int64)
    for tp in divisors(num_devices):
        if shape.hidden % tp or shape.num_heads % tp:
            continue
        for pp in divisors(num_devices // tp):
            if shape.num_layers % pp:
                continue
            dp = num_devices // (tp * pp)
            each = max(1, shape.batch // dp)
            networks = NUM_NETWORKS ** sum(degree > 1 for degree in (tp, pp, dp))
            flags = networks * (4 if dp > 1 else 1) * (3 if tp > 1 else 1)
            for v, microbatch in product(divisors(shape.num_layers // pp) if pp > 1 else (1,), divisors(each)):
                is_refused = v > 1 and (each // microbatch) % pp > 0
                found += flags * _kept_and_moved(is_refused=is_refused)
    return Counted(*(int(count) for count in found))


def _kept_and_moved(*, is_refused: bool) -> IntArray:
    """Recompute, tensor communication with or without a second gather, and the three that may be on the host.

    As in `Counted`: all, refused, weights away, kept whole.
    """
    found = np.zeros(4, dtype=np.int64)
    for again, comm in product(("full", "attn_only", "none"), ("ar", "p2p_rs_ag", "rs_ag")):
        hosted = 2 if again == "full" else 4  # optimizer and activations, of which full recompute keeps none
        for is_whole in (False, True) if comm == "rs_ag" and again != "full" else (False,):
            for is_away in (False, True):
                place = 1 if is_refused else 2 if is_away else 3 if is_whole else 0
                found[[0, place] if place else [0]] += hosted
    return found


def space(shape: Shape) -> PlanSpace:
    """The plans of ours that stand for Calculon's."""
    orders = (order for order in permutations(HAVE))
    return PlanSpace(
        context_parallel=(1,),
        pipeline_parallel=tuple(d for d in divisors(NUM_DEVICES) if shape.num_layers % d == 0),
        interleave=divisors(shape.num_layers),
        microbatch=divisors(shape.batch),
        zero_stage=(0, 1),
        recompute=RECOMPUTE,
        axis_order=tuple((*order[:1], "cp", *order[1:]) for order in orders),
        overlap=tuple(Overlap(data=data, tensor=tensor) for data, tensor in product((True, False), (False, True))),
        offload_optimizer=(False, True),
        offload_activations_frac=(0.0, 1.0),
    )


def covered() -> Bar:
    workload, cluster = load_spec(SPEC).workload, clusters["dgx-a100"].build(NUM_DEVICES)
    model = workload.model.architecture
    assert isinstance(model, Transformer), model
    shape = Shape(
        hidden=model.hidden, num_heads=model.num_heads, num_layers=model.num_layers, batch=workload.global_batch
    )
    began_s = time.process_time()
    graph, asked, found = workload.training_graph(), space(shape), []
    policies = tuple(RECOMPUTE_POLICIES.index(policy) for policy in asked.recompute)
    scoring = Scoring(objective=objectives["time"], cluster=cluster, num_tokens=graph.num_tokens, cluster_usd=1.0)
    job = Job(graph=graph, cluster=cluster, precision=workload.precision, policies=policies)
    silent: PlanProgress = lambda *_: None  # noqa: E731
    for part in asked.by_offload:
        search = EvenSearch(job=job, space=part, scoring=scoring, num_best=3, progress=silent)
        found.append(search.all_evaluated())
    [best, *_] = best_of(tuple(candidate for each in found for candidate in each.best), 1)
    away_frac = max(0.0, 1 - _weights_away_s(asked, job) / best.step_s)
    whole_frac = max(0.0, 1 - _kept_whole_s(asked, job, best.step_s) / best.step_s)
    took_s = time.process_time() - began_s
    plans, num_ours = counted(shape, NUM_DEVICES), sum(each.tally.num_plans for each in found)
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIBI
    return Bar(
        name=f"the space that Calculon enumerates, GPT-3 175B on {NUM_DEVICES} A100, all of it evaluated",
        issue=ISSUE,
        bar=f"< {MOST_S} CPU-s (60 s on 2 cores), < {MOST_BYTES / GIGA:.0f} GB, none better by {MOST_GAP_FRAC:.1%}",
        measured=(
            f"{took_s:.0f} CPU-s, {peak_bytes / GIGA:.2f} GB for {num_ours:,} plans, which stand for"
            f" {plans.num_covered:,} of {plans.num_all:,} (recorded {RECORDED_PLANS / MEGA:.1f} M,"
            f" {RECORDED_CPU_HOURS} CPU-hours); {plans.num_refused:,} no schedule runs; best {best.step_s:.2f} s,"
            f" which {plans.num_weights_away:,} with weights on the host beat by {away_frac:.2%} at most, and"
            f" {plans.num_kept_whole:,} that keep what they gathered by {whole_frac:.2%}"
        ),
        holds=took_s < MOST_S and peak_bytes < MOST_BYTES and max(away_frac, whole_frac) < MOST_GAP_FRAC,
    )


def _weights_away_s(asked: PlanSpace, job: Job) -> float:
    """What none of the plans that fit only if their weights take no memory takes less than.

    Weights on the host add time to a plan, so one that fits with them on its devices has none faster by that. A plan
    takes no less than with all the memory it likes, and no less than its weights take to come from the host: for
    both passes of every microbatch, or of as many as there are stages where a chunk takes those one after the other.
    """
    least_s = np.inf
    host = host_of(job.cluster)
    for part in asked.by_offload:
        for plans in batches(part, job.graph, NUM_DEVICES):
            plans = plans.at(np.flatnonzero(placements_of(plans, job.cluster.topology).group_of["tensor"] != NOWHERE))
            if not len(plans):
                continue
            need = need_bytes(shard_plans(job.graph, plans), job.precision)
            weights_bytes = _weights_bytes(job, plans)
            away_bytes = (1 + ALLOCATOR_RESERVE_FRAC) * weights_bytes
            limit_bytes = job.cluster.usable_bytes
            rows = np.flatnonzero((need > limit_bytes) & (need - away_bytes <= limit_bytes))
            if not len(rows):
                continue
            some = plans.at(rows)
            together = np.where(some.interleave > 1, some.pipeline_parallel, 1)
            num_loads = 2 * job.graph.batch / (some.data_parallel * some.microbatch * together)
            loaded_s = num_loads * weights_bytes[rows] / host.copied_bytes_per_s
            times_s = np.maximum(step_times(job.graph, some, job.cluster, job.precision).step_s, loaded_s)
            least_s = min(least_s, float(times_s.min()))
    return least_s


def _kept_whole_s(asked: PlanSpace, job: Job, best_s: float) -> float:
    """What no plan that keeps the two tensors of a layer that sequence parallelism gathers takes less than.

    It needs more memory than one that keeps parts, and saves no more than what that one sends more than plain tensor
    parallelism does: the second gather.
    """
    least_s, where = np.inf, COMM_AXES.index("tp")
    for part in asked.by_offload:
        kept = replace(part, sequence_parallel=(True,), recompute=RECOMPUTE[:2])
        for plans in batches(kept, job.graph, NUM_DEVICES):
            plans = plans.at(np.flatnonzero(placements_of(plans, job.cluster.topology).group_of["tensor"] != NOWHERE))
            if not len(plans):
                continue
            need = need_bytes(shard_plans(job.graph, plans), job.precision)
            plans = plans.at(np.flatnonzero(need + _whole_bytes(job, plans) <= job.cluster.usable_bytes))
            if not len(plans):
                continue
            times = step_times(job.graph, plans, job.cluster, job.precision)
            near = plans.at(np.flatnonzero(times.step_s < NEAR * best_s))
            least_s = min(least_s, float(times.step_s[times.step_s >= NEAR * best_s].min(initial=np.inf)) / NEAR)
            if not len(near):
                continue
            plain = replace(near, sequence_parallel=np.zeros(len(near), dtype=bool))
            parts, whole = (training_steps(job.graph, some, job.cluster, job.precision) for some in (near, plain))
            more_s = np.maximum(0.0, parts.comm[where].exposed_s - whole.comm[where].exposed_s)
            num_microbatches = job.graph.batch / (near.data_parallel * near.microbatch)
            saved_s = (1 + near.pipeline_parallel / num_microbatches) * more_s
            least_s = min(least_s, float((parts.step_s - saved_s).min()))
    return least_s


def _whole_bytes(job: Job, plans: Plans) -> FloatArray:
    """What keeping both gathered tensors of every layer adds, where the fewest microbatches are under way."""
    [layer] = [block for block in job.graph.blocks if block.is_layer]
    whole = layer.boundary_activation_elements / job.graph.batch * plans.microbatch * dtype_bytes(job.graph.dtype)
    shape = PipelineShape(
        num_stages=int(plans.pipeline_parallel[0]),
        num_microbatches=job.graph.batch // (plans.data_parallel * plans.microbatch),
        interleave=plans.interleave,
    )
    last = shape.num_stages - 1
    in_flight = [pipelines[name].in_flight(last, shape) for name in ("1f1b", "interleaved")]
    layers = layer.repeat / plans.pipeline_parallel * np.where(plans.interleave > 1, in_flight[1], in_flight[0])
    kept_frac = (1 - plans.offload_activations_frac) * (1 - 1 / plans.tensor_parallel)
    return (1 + ALLOCATOR_RESERVE_FRAC) * 2 * whole * layers * kept_frac


def _weights_bytes(job: Job, plans: Plans) -> FloatArray:
    """Weights of a device's layers, and of the ends of the model where it may hold them."""
    table, total = memory_table(shard_plans(job.graph, plans), job.precision), np.zeros(len(plans))
    for block, held in zip(job.graph.blocks, table.elements, strict=True):
        share = block.repeat / plans.pipeline_parallel if block.is_layer else 1.0
        total += share * np.broadcast_to(held.plain, len(table.cuts))[table.cuts.of_plan]
    return job.precision.weight_bytes * total
