"""An answer on the screen, as text or as JSON, and as a page on request."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from dovetail.api.answer import Answer
from dovetail.cli.html import show_html
from dovetail.cli.screen import show_json, show_tables
from dovetail.cli.verbosity import note
from dovetail.files.cluster import load_cluster
from dovetail.files.cluster_names import meant

NOTHING: Mapping[str, Any] = MappingProxyType({})


def tell_cluster(cluster: object, devices: int = 0) -> None:
    """Says which cluster a short name such as h100 is, and how many devices it then has; nothing of any other."""
    if isinstance(cluster, str) and (name := meant(cluster)):
        count = devices or load_cluster(name).num_devices
        short = cluster.strip()
        note(f"cluster {short} is {name} with {count:,} devices" + ("" if devices else f"; {short}x64 has 64 of them"))


def show_answer(answer: Answer, *, as_json: bool, html: str = "", more: Mapping[str, Any] = NOTHING) -> bool:
    """Shows it, and returns whether it fits; `html` is checked before the work by `check_html`.

    `more` is what JSON says beside the answer, such as which files were written.
    """
    record = answer.record if as_json or html else {}
    show_json({**record, **more}) if as_json else show_tables(answer.tables)
    if html:
        show_html(html, answer.page, answer.inputs, record, is_announced=not as_json)
    return answer.fits
