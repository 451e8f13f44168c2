"""`dovetail show`: one entry of any catalogue, or a file, with everything known of it."""

from __future__ import annotations

from dovetail.api.shown import shown
from dovetail.cli.screen import show_json, show_tables


def show_entry(name: str, kind: str, *, as_json: bool) -> None:
    """Shows what `name` names; `kind` says which catalogue is meant, empty for any."""
    found = shown(name, kind)
    show_json(found.record) if as_json else show_tables(found.tables)
