"""What can be named: models, chips, clusters, plans, and methods such as pipeline schedules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dovetail.api.answer import tables_html
from dovetail.hardware.catalog import chips as known_chips
from dovetail.hardware.clusters import clusters as known_clusters
from dovetail.parallel.recipes import plans as known_plans
from dovetail.report.catalogue import chip_brief, cluster_brief, model_brief, plan_entry_record
from dovetail.report.catalogue_tables import chips_table, clusters_table, models_table, plans_table
from dovetail.report.methods import method_records, methods_table
from dovetail.report.plain import Record, versioned
from dovetail.report.table import Table, text_of
from dovetail.workload.models import models as known_models


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Catalogue:
    """The entries of one catalogue, sorted by name; `record` is what `--json` prints.

    It goes through the names: `for name in dv.models()`, `"llama3-8b" in dv.models()`, `len(dv.chips())`.
    """

    kind: str  # such as models
    names: tuple[str, ...]
    entries: list[Record]
    table: Table

    @property
    def record(self) -> Record:
        """The entries as a list, under what they are."""
        return versioned({self.kind: self.entries})

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __str__(self) -> str:
        return text_of((self.table,))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.table.title}>"

    def _repr_html_(self) -> str:
        return tables_html((self.table,))


def models() -> Catalogue:
    """The catalogue of models."""
    briefs = known_models.each(lambda _, build: model_brief(build()))
    return _catalogue("models", known_models.names(), briefs, models_table)


def chips() -> Catalogue:
    """The catalogue of chips."""
    briefs = known_chips.each(lambda _, build: chip_brief(build()))
    return _catalogue("chips", known_chips.names(), briefs, chips_table)


def clusters() -> Catalogue:
    """The catalogue of clusters; each takes a number of devices, as in "h100x512"."""
    briefs = known_clusters.each(lambda _, entry: cluster_brief(entry.build(entry.default_devices)))
    return _catalogue("clusters", known_clusters.names(), briefs, clusters_table)


def plans() -> Catalogue:
    """The catalogue of plans."""
    briefs = known_plans.each(plan_entry_record)
    return _catalogue("plans", known_plans.names(), briefs, plans_table)


def methods() -> Catalogue:
    """The named pipeline schedules, collectives, their algorithms and search algorithms."""
    records = method_records()
    return _catalogue("methods", tuple(str(record["name"]) for record in records), records, methods_table)


def _catalogue(
    kind: str, names: tuple[str, ...], briefs: list[Record], table: Callable[[list[Record]], Table]
) -> Catalogue:
    return Catalogue(kind=kind, names=names, entries=briefs, table=table(briefs))
