"""What can be chosen, by group, as lists on a page show it."""

from __future__ import annotations

from collections.abc import Iterable

from dovetail.explorer.state import Upload
from dovetail.hardware.catalog import chips
from dovetail.hardware.clusters import clusters
from dovetail.workload.models import models

UPLOADED = "(uploaded)"  # no entry of a catalogue is called that
Options = list[tuple[str, str]]


def model_groups(file: Upload | None = None) -> dict[str, Options]:
    """Models by family, and the one that was uploaded."""
    groups: dict[str, Options] = {"Uploaded": [(UPLOADED, file.name)]} if file is not None else {}
    for name, make in models.items():
        groups.setdefault(make().family, []).append((name, name))
    return groups


def cluster_groups(file: Upload | None = None, design: str = "") -> dict[str, Options]:
    """Clusters of the catalogue, and what was uploaded or found by a search."""
    first: Options = [(UPLOADED, file.name)] if file is not None else []
    if design:
        first = [(UPLOADED, f"a design on {design.partition('~')[0][:40]}")]
    return {**({"Yours": first} if first else {}), "Catalogue": named(clusters.names())}


def chip_groups() -> dict[str, Options]:
    return {"": [("", "from the space"), *named(chips.names())]}


def named(names: Iterable[str]) -> Options:
    return [(name, name) for name in names]
