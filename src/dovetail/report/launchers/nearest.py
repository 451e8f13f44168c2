"""What a framework runs for a plan: the plan, or the nearest that it has words for, and what the difference costs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from dovetail.errors import DovetailError
from dovetail.evaluate import memory_use, trial, with_host
from dovetail.hardware.heterogeneous import AnyCluster
from dovetail.parallel.frameworks import framework_name
from dovetail.parallel.levers import Trial
from dovetail.parallel.plan import RECOMPUTE_POLICIES, Plan
from dovetail.parallel.pools import usable_by_stage
from dovetail.parallel.sharding import shard
from dovetail.report.assumptions import layers_per_stage
from dovetail.report.labels import gain, recompute_in_brief
from dovetail.report.launchers.fallbacks import as_run
from dovetail.report.launchers.frameworks import Launcher
from dovetail.report.launchers.launch import Launch, Missing
from dovetail.units import format_bytes, format_s
from dovetail.workload.workload import Workload

_RECOMPUTE = ("recompute", "recompute_layers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """A plan as it runs beside the plan as it was wanted."""

    requested_step_s: float
    step_s: float
    need_bytes: float
    limit_bytes: float

    @property
    def slowdown_frac(self) -> float:
        return self.step_s / self.requested_step_s - 1.0

    @property
    def fits(self) -> bool:
        return self.need_bytes <= self.limit_bytes

    @property
    def words(self) -> str:
        took = f"{format_s(self.step_s)} per step ({gain(self.slowdown_frac)})"
        if self.fits:
            return took
        limit = f"{format_bytes(self.limit_bytes)} usable"
        return f"{took}, but it does not fit: {format_bytes(self.need_bytes)} of {limit}"


def cost_record(cost: Cost) -> dict[str, Any]:
    """A cost as JSON."""
    return asdict(cost) | {"slowdown_frac": cost.slowdown_frac, "fits": cost.fits}


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """A plan, and its launch by some framework."""

    workload: Workload
    cluster: AnyCluster
    plan: Plan
    launch: Launch

    @property
    def says_recompute(self) -> bool:
        return not any(map(_is_recompute, self.launch.missing))

    @property
    def _as_run(self) -> tuple[Workload, Plan]:
        """What runs, with the buffers and copies of the framework that runs it."""
        workload, plan = as_run(self.workload, self.plan, self.launch.missing)
        return workload, replace(plan, framework=framework_name(self.launch.framework))

    @property
    def fits(self) -> bool:
        """Whether what runs fits; one that cannot run does not."""
        workload, plan = self._as_run
        try:
            pieces = shard(workload.training_graph(), plan)
            use = memory_use(pieces, workload.precision, *usable_by_stage(plan, self.cluster))
            return with_host(use, plan, self.cluster).fits
        except DovetailError:
            return False

    @property
    def trial(self) -> Trial:
        """What runs takes and needs; raises where that is not modelled or cannot run."""
        workload, plan = self._as_run
        return trial(workload.training_graph(), self.cluster, plan, workload.precision)


def nearest(launcher: Launcher, workload: Workload, cluster: AnyCluster, plan: Plan) -> Launch:
    """The launch of `plan`; where its recompute cannot be said, of the plan with the fastest that can and that fits.

    Where none fits, recompute is what the launcher makes of it by itself.
    """
    wanted = Launched(workload=workload, cluster=cluster, plan=plan, launch=launcher(workload, cluster, plan))
    if wanted.says_recompute:
        return wanted.launch
    timed = [(step_s, one) for one in _sayable(launcher, wanted) if one.fits for step_s in _step_s(one)]
    if not timed:
        return wanted.launch
    _, found = min(timed, key=lambda one: one[0])
    because = "; ".join(dict.fromkeys(one.why for one in wanted.launch.missing if _is_recompute(one)))
    said = recompute_in_brief(found.plan) or "none"
    message = f"{recompute_in_brief(plan)}, written as {said}"
    instead = tuple((name, getattr(found.plan, name)) for name in _RECOMPUTE)
    return replace(found.launch, missing=(Missing(message, because, instead), *found.launch.missing))


def costs(launch: Launch, workload: Workload, cluster: AnyCluster, plan: Plan) -> tuple[Cost, ...]:
    """What `plan` costs as it is launched, or nothing where it runs as it is; raises where either is not modelled."""
    if as_run(workload, plan, launch.missing) == (workload, plan):
        return ()
    wanted = trial(workload.training_graph(), cluster, plan, workload.precision)
    found = Launched(workload=workload, cluster=cluster, plan=plan, launch=launch).trial
    return (
        Cost(
            requested_step_s=float(wanted.step_s),
            step_s=float(found.step_s),
            need_bytes=float(found.need_bytes),
            limit_bytes=float(found.limit_bytes),
        ),
    )


def _is_recompute(one: Missing) -> bool:
    return any(name in _RECOMPUTE for name, _ in one.instead)


def _sayable(launcher: Launcher, wanted: Launched) -> Iterator[Launched]:
    """Every policy for all layers, and full recompute of the fewest layers that fit, as far as they can be said."""
    for policy in RECOMPUTE_POLICIES:
        yield from _said(launcher, wanted, recompute=(policy,), recompute_layers=())
    workload = wanted.workload
    most = max(layers_per_stage(workload.model.forward(workload.sample).num_layers, wanted.plan))
    counts = range(1, most + 1)
    counted = [
        one for count in counts for one in _said(launcher, wanted, recompute=("full",), recompute_layers=(count,))
    ]
    fewest = bisect_left(counted, True, key=lambda one: one.fits)  # more layers recomputed never need more
    yield from counted[fewest : fewest + 1]


def _said(launcher: Launcher, wanted: Launched, **recompute: Any) -> Iterator[Launched]:
    plan = replace(wanted.plan, **recompute)
    found = replace(wanted, plan=plan, launch=launcher(wanted.workload, wanted.cluster, plan))
    if found.says_recompute:
        yield found


def _step_s(one: Launched) -> Iterator[float]:
    try:
        yield float(one.trial.step_s)
    except DovetailError:  # a step that is not modelled cannot be the fastest
        return
