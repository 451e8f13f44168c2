"""Training frameworks that plans are written for, one file each: releases, what each can express, what starts a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from dovetail.errors import InvalidInput, did_you_mean
from dovetail.hardware.heterogeneous import AnyCluster
from dovetail.parallel.plan import Plan, Plans
from dovetail.registry import Registry
from dovetail.report.launchers.launch import Launch
from dovetail.workload.graph import BoolArray
from dovetail.workload.workload import Workload

Launcher: TypeAlias = Callable[[Workload, AnyCluster, Plan], Launch]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkLauncher:
    """One training framework, whole: `launchers` has an entry for each.

    `versions`: releases that text is written for, the newest first. `write` gives the launch of a plan by one of them;
    it raises where the framework cannot run the plan, and names what it runs otherwise. `choices`: values that a
    search may give each choice of a plan, by the keys of `dovetail plan --fix`; choices that are not named are free.
    `rules`: which of some plans of these choices the framework runs as they are, by columns, whatever their
    recompute. `partial_recompute`: releases where full recompute may go for some layers of a stage. `is_for_tpus`: it
    is shown for TPUs, where others do not run, and not for GPUs. `same_as`: a framework that runs the same plans in the
    same memory, so that one search does for both.
    """

    versions: tuple[str, ...]
    write: Callable[[Workload, AnyCluster, Plan, str], Launch]
    choices: Mapping[str, tuple[Any, ...]] = field(hash=False)
    rules: Callable[[Plans, Workload], BoolArray]
    partial_recompute: tuple[str, ...] = ()
    is_for_tpus: bool = False
    same_as: str = ""

    def __call__(self, workload: Workload, cluster: AnyCluster, plan: Plan) -> Launch:
        """The launch of `plan` by the newest release."""
        return self.write(workload, cluster, plan, self.versions[0])

    def version(self, named: str) -> str:
        """The release that is called `named`, the newest where it is empty; raises where there is none."""
        if not named:
            return self.versions[0]
        if named not in self.versions:
            hint = did_you_mean(named, self.versions)
            known = ", ".join(self.versions)
            raise InvalidInput(f"--framework-version must be one of {known}; got {named!r}{hint}", "framework_version")
        return named

    def at(self, version: str) -> Launcher:
        """The launcher of one release."""

        def launch(workload: Workload, cluster: AnyCluster, plan: Plan) -> Launch:
            return self.write(workload, cluster, plan, version)

        return launch


launchers: Registry[FrameworkLauncher] = Registry("framework", __name__)
