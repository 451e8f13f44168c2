"""`dovetail models`, `chips`, `clusters` and `plans`: what can be named."""

from __future__ import annotations

from collections.abc import Callable

from dovetail.cli.screen import show_json, show_tables
from dovetail.hardware.catalog import chips
from dovetail.hardware.clusters import clusters
from dovetail.plan.recipes import plans
from dovetail.report.catalogue import chip_brief, cluster_brief, model_brief, plan_entry_record
from dovetail.report.catalogue_tables import chips_table, clusters_table, models_table, plans_table
from dovetail.report.record import Record
from dovetail.report.table import Table
from dovetail.workload.models import models


def list_models(*, as_json: bool) -> None:
    _show([model_brief(build()) for _, build in models.items()], models_table, as_json=as_json)


def list_chips(*, as_json: bool) -> None:
    _show([chip_brief(build()) for _, build in chips.items()], chips_table, as_json=as_json)


def list_clusters(*, as_json: bool) -> None:
    briefs = [cluster_brief(entry.build(entry.default_devices)) for _, entry in clusters.items()]
    _show(briefs, clusters_table, as_json=as_json)


def list_plans(*, as_json: bool) -> None:
    _show([plan_entry_record(name, entry) for name, entry in plans.items()], plans_table, as_json=as_json)


def _show(briefs: list[Record], table: Callable[[list[Record]], Table], *, as_json: bool) -> None:
    if as_json:
        show_json(briefs)
    else:
        show_tables((table(briefs),))
