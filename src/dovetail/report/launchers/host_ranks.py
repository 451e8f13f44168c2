"""Which host gets which node rank, where hosts are not all equal: frameworks give ranks to stages by their number."""

from __future__ import annotations

import math
from itertools import groupby

from dovetail.hardware.heterogeneous import AnyCluster, HeterogeneousCluster
from dovetail.parallel.plan import AXES, Plan

NODE_RANK = "NODE_RANK must be"  # torchrun's
HOSTFILE = "hosts of the hostfile, the first being 0, must be"  # the deepspeed launcher's, which counts its lines


def pool_notes(
    plan: Plan, cluster: AnyCluster, per_host: int, order: tuple[str, ...] = AXES, numbering: str = NODE_RANK
) -> tuple[str, ...]:
    """Of a framework whose ranks go by `order`, innermost first: the pool that the hosts of node ranks must be of."""
    if not isinstance(cluster, HeterogeneousCluster):
        return ()
    inside = math.prod(plan.degree(axis) for axis in order[: order.index("pp")])
    ranks = range(0, plan.num_devices, math.gcd(inside, per_host))
    pools = [(rank // per_host, plan.stage_pools[rank // inside % plan.pipeline_parallel]) for rank in ranks]
    hosts = [{pool for _, pool in some} for _, some in groupby(pools, key=lambda one: one[0])]
    if any(len(names) > 1 for names in hosts):
        return (
            f"hosts of {per_host} devices would hold stages of two pools in this order of axes: no numbering of hosts"
            " puts stages where the plan has them",
        )
    told, start = [], 0
    for [pool], some in groupby(hosts):
        end = start + len(list(some))
        told.append(f"{start}{'' if end == start + 1 else f'-{end - 1}'} on {cluster.pools[pool].name}")
        start = end
    return (f"stages go by the number of a host, so {numbering} {', '.join(told)}",)
