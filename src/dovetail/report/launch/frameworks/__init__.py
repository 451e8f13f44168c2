"""Launchers, one file a framework: a plan as what starts the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from dovetail.hardware.mixed import AnyCluster
from dovetail.plan.plan import Plan
from dovetail.registry import Registry
from dovetail.report.launch.launch import Launch
from dovetail.workload.workload import Workload

Launcher: TypeAlias = Callable[[Workload, AnyCluster, Plan], Launch]

launchers: Registry[Launcher] = Registry("framework", __name__)
