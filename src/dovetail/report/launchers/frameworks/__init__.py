"""Launchers, one file a framework: a plan as what starts the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from dovetail.hardware.heterogeneous import AnyCluster
from dovetail.parallel.plan import Plan
from dovetail.registry import Registry
from dovetail.report.launchers.launch import Launch
from dovetail.workload.workload import Workload

Launcher: TypeAlias = Callable[[Workload, AnyCluster, Plan], Launch]

launchers: Registry[Launcher] = Registry("framework", __name__)
