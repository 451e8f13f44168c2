"""Which devices of a cluster hold which stage, and what group of the network some devices are.

Devices are counted through `axis_order`, the innermost axis first, as `torchrun` numbers ranks: those of a node follow
each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from dovetail.errors import InvalidInput, NotModelled
from dovetail.hardware.heterogeneous import AnyCluster, HeterogeneousCluster
from dovetail.hardware.topology import Dimension, Group, Span, Topology
from dovetail.parallel.plan import Plan
from dovetail.parallel.pools import stages_by_pool


def stage_of(plan: Plan, cluster: AnyCluster, device: int) -> int:
    """The stage that `device` is of; on several pools, whose devices follow each other, `plan` must say the pools."""
    assert 0 <= device < cluster.num_devices, device
    inside = _inside(plan)
    if not isinstance(cluster, HeterogeneousCluster):
        return device // inside % plan.pipeline_parallel
    counts = stages_by_pool(plan, cluster)
    for pool, (equal, count) in enumerate(zip(cluster.pools, counts, strict=True)):
        if device < equal.num_devices:
            stages = [stage for stage, stage_pool in enumerate(plan.stage_pools) if stage_pool == pool]
            return stages[device // inside % count]
        device -= equal.num_devices
    raise AssertionError(device)


def first_device(plan: Plan, cluster: AnyCluster, stage: int) -> int:
    """The first of the devices of `stage`."""
    inside = _inside(plan)
    if not isinstance(cluster, HeterogeneousCluster):
        return stage * inside
    pool = plan.stage_pools[stage]
    before = sum(equal.num_devices for equal in cluster.pools[:pool])
    return before + plan.stage_pools[:stage].count(pool) * inside


def _inside(plan: Plan) -> int:
    """Devices from one stage to the next."""
    return math.prod(plan.degree(axis) for axis in plan.axis_order[: plan.axis_order.index("pp")])


STRIDED_KINDS = ("ring", "bidirectional-ring", "mesh")  # where it matters how far apart the ranks of a group lie


def group_of_ranks(ranks: Sequence[int], topology: Topology) -> Group:
    """The group that devices of these numbers form: in each dimension that they reach into, how many and how far apart.

    Raises where a dimension has more of them in one place than in another: collectives are known of even groups.
    """
    places = sorted(set(ranks))
    if len(places) < len(ranks):
        raise InvalidInput(f"a group of ranks names one of them twice: {_listed(ranks)}")
    if places and not 0 <= places[0] <= places[-1] < topology.num_devices:
        beyond = places[-1] if places[0] >= 0 else places[0]
        raise InvalidInput(f"the cluster has {topology.num_devices:,} devices; rank {beyond:,} is none of them")
    spans = []
    for dimension in topology.dimensions:
        inside: dict[int, list[int]] = {}
        for place in places:
            inside.setdefault(place // dimension.num_devices, []).append(place % dimension.num_devices)
        counts = sorted({len(one) for one in inside.values()})
        if len(counts) > 1:
            shown = f"from {counts[0]} to {counts[-1]}"
            raise NotModelled(
                f"the group of ranks {_listed(ranks)} has {shown} in one {dimension.name}; collectives of uneven groups"
                " are not modelled"
            )
        if counts[0] > 1:
            spans.append(Span(dimension=dimension, num_ranks=counts[0], stride=_stride(inside, dimension, ranks)))
        places = sorted(inside)
    return tuple(spans)


def _stride(inside: dict[int, list[int]], dimension: Dimension, ranks: Sequence[int]) -> int:
    """How far apart neighbours lie; 1 on switches where they are not equally far."""
    steps = {later - earlier for one in inside.values() for earlier, later in pairwise(one)}
    if len(steps) == 1:
        return steps.pop()
    if dimension.kind in STRIDED_KINDS:
        raise NotModelled(
            f"ranks {_listed(ranks)} lie unequally far apart on the {dimension.kind} {dimension.name}; a group of"
            " every n-th device is modelled"
        )
    return 1


def num_nodes(group: Group) -> int:
    """Nodes that a group reaches into, where its network says which dimensions are between nodes; else 1."""
    return math.prod(span.num_ranks for span in group if span.dimension.is_network)


def _listed(ranks: Sequence[int]) -> str:
    most = 6  # style: numbers in a sentence
    shown = ", ".join(map(str, ranks[:most]))
    return f"{shown}, ... ({len(ranks):,} in all)" if len(ranks) > most else shown
