"""A step that waits for slow devices: one stage at their pace, and everybody else waiting for it."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from dovetail.hardware.cluster import Cluster
from dovetail.hardware.reliability import SlowDevices
from dovetail.hardware.scales import Scales, scaled
from dovetail.step.pipelines import StageTimes
from dovetail.step.step import PlanSteps


def slowed_step_s(steps: PlanSteps, cluster: Cluster, slow: SlowDevices) -> float:
    """One of a plan's `steps` with slow devices where they cost most: on the stages that take longest, one on each.

    Whoever shares a layer or a gradient with a slow device waits for it, so a stage is as slow as its slowest device,
    and all replicas of the pipeline as slow as its slowest one. More slow devices than stages change no more.
    """
    usual, slowed = (steps.assembly(on) for on in (cluster, slowed_cluster(cluster, slow.speed_frac)))
    usual_times, slowed_times = (assembly.stage_times(is_transfer_free=False) for assembly in (usual, slowed))
    order = np.argsort(-(usual_times.forward + usual_times.backward)[0], kind="stable")
    chosen = {int(stage) for stage in order[: slow.num_devices]}
    pipeline_s = usual.pipeline_of(_mixed(usual_times, slowed_times, chosen))[0]
    slow_runs = sorted({usual_times.stage_run[stage] for stage in chosen})
    synced_s = max(float(usual.exposed_s.max()), float(slowed.exposed_s[0, slow_runs].max()))
    return float(max(pipeline_s + usual.tied_s[0] + synced_s + slowed.update_s[0], usual.step_s[0]))


def slowed_cluster(cluster: Cluster, speed_frac: float) -> Cluster:
    """`cluster` with all devices at `speed_frac` of their pace; hosts and links keep theirs."""
    slow = scaled(cluster, Scales(compute_scale=speed_frac))
    calibration = cluster.chip.calibration
    hosts = {one.name: getattr(calibration, one.name) for one in fields(calibration) if one.name.startswith("host_")}
    return replace(slow, chip=replace(slow.chip, calibration=replace(slow.chip.calibration, **hosts)))


def _mixed(usual: StageTimes, slowed: StageTimes, chosen: set[int]) -> StageTimes:
    """The times of `usual`, but for the `chosen` stages those of `slowed`."""
    num_runs = usual.by_run[0].shape[-1]
    columns = [run + num_runs * (stage in chosen) for stage, run in enumerate(usual.stage_run)]
    used = sorted({*columns})
    forward_s, backward_s, weight_s = (
        np.concatenate(ways, axis=-1)[..., used] for ways in zip(usual.by_run, slowed.by_run, strict=True)
    )
    return replace(
        usual,
        forward_s=forward_s,
        backward_s=backward_s,
        weight_s=weight_s,
        stage_run=tuple(used.index(column) for column in columns),
    )
