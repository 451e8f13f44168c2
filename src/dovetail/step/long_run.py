"""Many steps of one plan on a cluster that fails: what its checkpoints and restarts take, and what is left."""

from __future__ import annotations

from dovetail.errors import NotModelled
from dovetail.hardware.heterogeneous import AnyCluster, HeterogeneousCluster
from dovetail.hardware.reliability import NotStated, Reliability, slowest_s
from dovetail.parallel.checkpoint import checkpoint_bytes, copied_checkpoint_bytes, device_checkpoint_bytes
from dovetail.parallel.sharding import ShardedPlan
from dovetail.step.goodput import Goodput, Recovery, Slowing, goodput, replaced, standing
from dovetail.step.step import PlanSteps
from dovetail.step.straggler import slowed_step_s
from dovetail.workload.optimizer import Precision


def long_run(
    sharded: ShardedPlan, steps: PlanSteps, cluster: AnyCluster, precision: Precision, step_s: float
) -> Goodput | NotStated:
    """What a run of `steps` of `step_s` each makes of its time, where `cluster` says how it fails.

    `steps` are those of `sharded`.
    """
    if isinstance(cluster, HeterogeneousCluster):
        if any(isinstance(pool.reliability, Reliability) for pool in cluster.pools):
            message = "reliability is not modelled for clusters of several pools"
            raise NotModelled(f"{message}; leave it out of its pools", "reliability")
        return NotStated()
    reliability = cluster.reliability
    if isinstance(reliability, NotStated):
        return reliability
    total_bytes = checkpoint_bytes(sharded.graph, precision)
    recovery = _recovery(reliability, cluster.num_devices, total_bytes, sharded, precision)
    slow_s = slowed_step_s(steps, cluster, reliability.slow_devices) if reliability.slow_devices else step_s
    slowing = _slowing(reliability, cluster.num_devices, recovery, step_s, slow_s)
    return goodput(recovery, slowing, reliability.checkpoints.interval, total_bytes)


def _recovery(
    reliability: Reliability, num_devices: int, total_bytes: float, sharded: ShardedPlan, precision: Precision
) -> Recovery:
    """A restart reads what a checkpoint wrote, at the pace it was written."""
    checkpoints = reliability.checkpoints
    write_s = slowest_s(checkpoints.writes, total_bytes, device_checkpoint_bytes(sharded, precision))
    copy_s = slowest_s(checkpoints.copies, total_bytes, copied_checkpoint_bytes(sharded, precision))
    return Recovery(
        mtbf_s=reliability.failures.among_s(num_devices),
        stall_s=copy_s if checkpoints.is_asynchronous else write_s,
        write_s=write_s if checkpoints.is_asynchronous else 0.0,
        restart_s=reliability.restart_s + write_s,
    )


def _slowing(reliability: Reliability, num_devices: int, recovery: Recovery, step_s: float, slow_s: float) -> Slowing:
    """A slow device is replaced by a restart from a checkpoint written for it, so that no work is lost."""
    replacement = reliability.slow_devices.replacement if reliability.slow_devices else None
    if replacement is None:
        return standing(step_s, slow_s)
    onset_s = replacement.onsets.among_s(num_devices)
    swap_s = recovery.stall_s + recovery.write_s + recovery.restart_s
    return replaced(step_s, slow_s, onset_s, replacement.detect_s, swap_s)
