"""`dovetail models`, `chips`, `clusters`, `plans` and `methods`: what can be named."""

from __future__ import annotations

from dovetail.api.catalogue import Catalogue, chips, clusters, methods, models, plans
from dovetail.cli.screen import show_json, show_tables


def list_models(*, as_json: bool) -> None:
    _show(models(), as_json=as_json)


def list_chips(*, as_json: bool) -> None:
    _show(chips(), as_json=as_json)


def list_clusters(*, as_json: bool) -> None:
    _show(clusters(), as_json=as_json)


def list_plans(*, as_json: bool) -> None:
    _show(plans(), as_json=as_json)


def list_methods(*, as_json: bool) -> None:
    _show(methods(), as_json=as_json)


def _show(found: Catalogue, *, as_json: bool) -> None:
    show_json(found.record) if as_json else show_tables((found.table,))
