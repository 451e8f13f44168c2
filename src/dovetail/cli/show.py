"""`dovetail show`: one entry of any catalogue, or a file, with everything known of it."""

from __future__ import annotations

from pathlib import Path

from dovetail.cli.screen import show_json, show_tables
from dovetail.errors import InvalidInput, did_you_mean
from dovetail.files import load_chip, load_cluster, load_model, load_spec
from dovetail.files.entry import SECTIONS, is_file_name, opened
from dovetail.files.model import HUGGING_FACE_KEYS
from dovetail.files.plan import SHORT_NAMES
from dovetail.files.schema import written_keys
from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import Chip
from dovetail.hardware.clusters import clusters
from dovetail.plan.plan import Plan
from dovetail.plan.recipes import PlanEntry, plans
from dovetail.registry import Registry
from dovetail.report.catalogue import chip_record, cluster_record, model_record, plan_entry_record
from dovetail.report.catalogue_tables import entry_tables
from dovetail.report.record import Record
from dovetail.workload.models import models
from dovetail.workload.transformer import Transformer

CATALOGUES: dict[str, Registry[object]] = {"model": models, "chip": chips, "cluster": clusters, "plan": plans}  # type: ignore[dict-item]


def show_entry(name: str, kind: str, *, as_json: bool) -> None:
    """Shows what `name` names; `kind` says which catalogue is meant, empty for any."""
    if kind and kind not in CATALOGUES:
        raise InvalidInput(f"no catalogue is of kind {kind!r}{did_you_mean(kind, CATALOGUES)}", "--kind")
    records = _spec_records(name) if _is_spec(name, kind) else (_record(name, kind or kind_of(name)),)
    if as_json:
        show_json(records[0] if len(records) == 1 else list(records))
    else:
        show_tables(tuple(table for record in records for table in entry_tables(record)))


def kind_of(name: str) -> str:
    """The one catalogue that knows `name`, or what a file of that name describes."""
    if is_file_name(name):
        return _kind_of_file(name)
    kinds = [kind for kind, registry in CATALOGUES.items() if name in registry]
    if len(kinds) > 1:
        raise InvalidInput(f"{name!r} names a {' and a '.join(kinds)}; say which: --kind {' or --kind '.join(kinds)}")
    if kinds:
        return kinds[0]
    if Path(name).is_file():
        return _kind_of_file(name)
    known = {known for registry in CATALOGUES.values() for known in registry.names()}
    raise InvalidInput(f"no model, chip, cluster or plan is named {name!r}{did_you_mean(name, known)}")


def _record(name: str, kind: str) -> Record:
    if kind == "model":
        return model_record(load_model(name))
    if kind == "chip":
        return chip_record(load_chip(name))
    if kind == "cluster":
        return cluster_record(load_cluster(name), clusters[name].summary if name in clusters else "")
    if is_file_name(name):
        raise InvalidInput("a plan in a file is completed for a workload and a cluster; use dovetail simulate", name)
    return plan_entry_record(name, plans[name])


def _is_spec(name: str, kind: str) -> bool:
    return not kind and is_file_name(name) and any(opened(Path(name)).has(section) for section in SECTIONS)


def _spec_records(name: str) -> tuple[Record, ...]:
    job = load_spec(name)
    source = f"given in {Path(name).name}"
    entry = PlanEntry(plan=job.plan, fills_data_parallel=False, summary="as completed for this spec", source=source)
    return (model_record(job.workload.model), cluster_record(job.cluster), plan_entry_record(job.name, entry))


def _kind_of_file(name: str) -> str:
    """What a file describes, by the keys it holds."""
    keys = set(opened(Path(name)).value)
    if HUGGING_FACE_KEYS & keys:
        return "model"
    known: dict[str, set[str]] = {
        "model": {*written_keys(Transformer).values(), "seq", "batch"},
        "chip": set(written_keys(Chip).values()),
        "cluster": {"chip", "topology", "devices"},
        "plan": {*written_keys(Plan).values(), *SHORT_NAMES},
    }
    ranked = sorted(known, key=lambda kind: -len(keys & (known[kind] - {"name"})))
    best, second = (len(keys & (known[kind] - {"name"})) for kind in ranked[:2])
    if best == second:
        raise InvalidInput("cannot tell what this file describes; say it: --kind model, chip or cluster", name)
    return ranked[0]
