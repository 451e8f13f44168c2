"""Dovetail from Python: what every command answers, as values. Names are taken from here when they are first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dovetail.api.answer import Answer
    from dovetail.api.captured import Capture
    from dovetail.api.catalogue import Catalogue, chips, clusters, methods, models, plans
    from dovetail.api.codesigned import Codesign
    from dovetail.api.compared import Comparison
    from dovetail.api.fronts import Front
    from dovetail.api.gpu_measured import Measurement
    from dovetail.api.launched import LaunchScript
    from dovetail.api.mined import Mining
    from dovetail.api.networks import Collective
    from dovetail.api.operators import Operator, operator_kinds
    from dovetail.api.planned import Planning
    from dovetail.api.plugged import use_plugin
    from dovetail.api.progress import Progress
    from dovetail.api.reproduced import Reproduction
    from dovetail.api.requests.comparisons import compare, sweep
    from dovetail.api.requests.components import network, op, schedule
    from dovetail.api.requests.entries import capture, show, studies
    from dovetail.api.requests.evidence import reproduce, validate
    from dovetail.api.requests.jobs import launch, plan, simulate
    from dovetail.api.requests.measurements import measure
    from dovetail.api.requests.searches import codesign, mine, pareto
    from dovetail.api.saved import SavedAnswer, load
    from dovetail.api.scheduled import BlockSchedule
    from dovetail.api.shown import Entry
    from dovetail.api.simulated import Simulation
    from dovetail.api.stored import Studies
    from dovetail.api.validated import Validation
    from dovetail.errors import DovetailError, InvalidInput, NotModelled
    from dovetail.files.pictures import save_chart
    from dovetail.hardware.chip import Chip
    from dovetail.hardware.cluster import Cluster
    from dovetail.parallel.plan import Plan
    from dovetail.store.version import model_version
    from dovetail.workload.model import Model

# Where each name is defined. A test holds this, the imports above and `__all__` together.
HOMES = {
    "Answer": "dovetail.api.answer",
    "BlockSchedule": "dovetail.api.scheduled",
    "Capture": "dovetail.api.captured",
    "Catalogue": "dovetail.api.catalogue",
    "Chip": "dovetail.hardware.chip",
    "Cluster": "dovetail.hardware.cluster",
    "Codesign": "dovetail.api.codesigned",
    "Collective": "dovetail.api.networks",
    "Comparison": "dovetail.api.compared",
    "DovetailError": "dovetail.errors",
    "Entry": "dovetail.api.shown",
    "Front": "dovetail.api.fronts",
    "InvalidInput": "dovetail.errors",
    "LaunchScript": "dovetail.api.launched",
    "Measurement": "dovetail.api.gpu_measured",
    "Mining": "dovetail.api.mined",
    "Model": "dovetail.workload.model",
    "NotModelled": "dovetail.errors",
    "Operator": "dovetail.api.operators",
    "Plan": "dovetail.parallel.plan",
    "Planning": "dovetail.api.planned",
    "Progress": "dovetail.api.progress",
    "Reproduction": "dovetail.api.reproduced",
    "SavedAnswer": "dovetail.api.saved",
    "Simulation": "dovetail.api.simulated",
    "Studies": "dovetail.api.stored",
    "Validation": "dovetail.api.validated",
    "capture": "dovetail.api.requests.entries",
    "chips": "dovetail.api.catalogue",
    "clusters": "dovetail.api.catalogue",
    "codesign": "dovetail.api.requests.searches",
    "compare": "dovetail.api.requests.comparisons",
    "launch": "dovetail.api.requests.jobs",
    "load": "dovetail.api.saved",
    "measure": "dovetail.api.requests.measurements",
    "methods": "dovetail.api.catalogue",
    "mine": "dovetail.api.requests.searches",
    "model_version": "dovetail.store.version",
    "models": "dovetail.api.catalogue",
    "network": "dovetail.api.requests.components",
    "op": "dovetail.api.requests.components",
    "operator_kinds": "dovetail.api.operators",
    "pareto": "dovetail.api.requests.searches",
    "plan": "dovetail.api.requests.jobs",
    "plans": "dovetail.api.catalogue",
    "reproduce": "dovetail.api.requests.evidence",
    "save_chart": "dovetail.files.pictures",
    "schedule": "dovetail.api.requests.components",
    "show": "dovetail.api.requests.entries",
    "simulate": "dovetail.api.requests.jobs",
    "studies": "dovetail.api.requests.entries",
    "sweep": "dovetail.api.requests.comparisons",
    "use_plugin": "dovetail.api.plugged",
    "validate": "dovetail.api.requests.evidence",
}

__all__ = [
    "Answer",
    "BlockSchedule",
    "Capture",
    "Catalogue",
    "Chip",
    "Cluster",
    "Codesign",
    "Collective",
    "Comparison",
    "DovetailError",
    "Entry",
    "Front",
    "InvalidInput",
    "LaunchScript",
    "Measurement",
    "Mining",
    "Model",
    "NotModelled",
    "Operator",
    "Plan",
    "Planning",
    "Progress",
    "Reproduction",
    "SavedAnswer",
    "Simulation",
    "Studies",
    "Validation",
    "capture",
    "chips",
    "clusters",
    "codesign",
    "compare",
    "launch",
    "load",
    "measure",
    "methods",
    "mine",
    "model_version",
    "models",
    "network",
    "op",
    "operator_kinds",
    "pareto",
    "plan",
    "plans",
    "reproduce",
    "save_chart",
    "schedule",
    "show",
    "simulate",
    "studies",
    "sweep",
    "use_plugin",
    "validate",
]


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
