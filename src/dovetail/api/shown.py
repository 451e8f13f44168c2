"""One entry of a catalogue, or a file, with everything known of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dovetail.api.answer import tables_html
from dovetail.api.requests.entries import ShowRequest
from dovetail.errors import InvalidInput, did_you_mean
from dovetail.files.chip_names import chip_named
from dovetail.files.cluster import load_cluster
from dovetail.files.entry import is_file_name
from dovetail.files.heterogeneous_cluster import load_any_cluster
from dovetail.files.job import load_spec
from dovetail.files.kinds import CATALOGUES, is_spec_file, kind_of
from dovetail.files.model import load_model
from dovetail.files.text import one_line
from dovetail.hardware.clusters import clusters
from dovetail.hardware.heterogeneous import AnyCluster, HeterogeneousCluster, chips_of, pools_of
from dovetail.parallel.recipes import PlanEntry, plans
from dovetail.report.catalogue import (
    chip_record,
    cluster_record,
    mixed_cluster_record,
    model_record,
    plan_entry_record,
)
from dovetail.report.catalogue_tables import entry_tables
from dovetail.report.plain import Record, versioned
from dovetail.report.table import Table, text_of


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Entry:
    """The contents of a name or file: one record, or those of a whole spec or cluster, with sources."""

    name: str
    records: tuple[Record, ...]

    @property
    def record(self) -> Record:
        """What the command prints with `--json`: the one record, or under `entries` a list of several."""
        return versioned(self.records[0] if len(self.records) == 1 else {"entries": list(self.records)})

    @property
    def tables(self) -> tuple[Table, ...]:
        """What the command prints, as values."""
        return tuple(table for record in self.records for table in entry_tables(record))

    def __str__(self) -> str:
        return text_of(self.tables)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {one_line(self.name)}>"

    def _repr_html_(self) -> str:
        return tables_html(self.tables)


def shown(request: ShowRequest) -> Entry:
    """What a name or file is, in the catalogue that is meant or in any."""
    name, kind = request.name, request.kind
    if kind and kind not in CATALOGUES:
        raise InvalidInput(f"no catalogue is of kind {kind!r}{did_you_mean(kind, CATALOGUES)}", "--kind")
    records = _spec_records(name) if not kind and is_spec_file(name) else _records(name, kind or kind_of(name))
    return Entry(name=name, records=records)


def _records(name: str, kind: str) -> tuple[Record, ...]:
    if kind == "model":
        return (model_record(load_model(name)),)
    if kind == "chip":
        return (chip_record(chip_named(name)),)
    if kind == "cluster":
        if name in clusters:
            return (cluster_record(load_cluster(name), clusters[name].summary),)
        return _with_chip(load_any_cluster(name))
    if kind == "workload":
        raise InvalidInput("a workload alone is not shown; show its model, or a whole spec", one_line(name))
    if is_file_name(name):
        raise InvalidInput(
            "a plan is completed for a workload and a cluster: show a spec that has all three,"
            f" or dovetail simulate --model NAME --cluster NAME --plan {one_line(name)}",
            one_line(name),
        )
    return (plan_entry_record(name, plans[name]),)


def _with_chip(cluster: AnyCluster) -> tuple[Record, ...]:
    """A cluster of one's own, its pools if it has several, and every figure of its chips."""
    whole = (mixed_cluster_record(cluster),) if isinstance(cluster, HeterogeneousCluster) else ()
    pools = tuple(cluster_record(pool) for pool in pools_of(cluster))
    return (*whole, *pools, *(chip_record(chip) for chip in chips_of(cluster)))


def _spec_records(name: str) -> tuple[Record, ...]:
    job = load_spec(name)
    source = f"given in {one_line(Path(name).name)}"
    entry = PlanEntry(plan=job.plan, fills_data_parallel=False, summary="as completed for this spec", source=source)
    return (model_record(job.workload.model), *_with_chip(job.cluster), plan_entry_record(job.name, entry))
