"""What a name or a file is: a model, a chip, a cluster, a plan, a workload or a whole spec."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from dovetail.errors import InvalidInput, did_you_mean
from dovetail.files.chip_names import full_name
from dovetail.files.cluster_names import names_cluster
from dovetail.files.entry import SECTIONS, is_file_name, opened
from dovetail.files.inline_plan import SHORT_NAMES
from dovetail.files.model import FORMAT_KEY, HUGGING_FACE_KEYS
from dovetail.files.plan import OLD_NAMES
from dovetail.files.schema import written_keys
from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import Chip
from dovetail.hardware.clusters import clusters
from dovetail.parallel.plan import Plan
from dovetail.parallel.recipes import plans
from dovetail.registry import Registry
from dovetail.workload.models import models
from dovetail.workload.transformer import Transformer
from dovetail.workload.workload import Workload

CATALOGUES: dict[str, Registry[object]] = {"model": models, "chip": chips, "cluster": clusters, "plan": plans}  # type: ignore[dict-item]
SEARCH = "search"  # of chips: what `dovetail mine`, `codesign` and `pareto` read
SEARCH_KEYS = {"models", "weights", "stages", "keep"}


def kind_of(name: str) -> str:
    """The one catalogue that knows `name` or the beginning of it, or what a file of that name describes."""
    if is_file_name(name):
        return _kind_or_refusal(name)
    kinds = [kind for kind, registry in CATALOGUES.items() if name in registry]
    if len(kinds) > 1:
        raise InvalidInput(f"{name!r} names a {' and a '.join(kinds)}; specify --kind {' or --kind '.join(kinds)}")
    if kinds:
        return kinds[0]
    if Path(name).is_file():
        return _kind_or_refusal(name)
    if full_name(name, "--kind chip") in chips:
        return "chip"
    if names_cluster(name):
        return "cluster"
    known = {known for registry in CATALOGUES.values() for known in registry.names()}
    raise InvalidInput(f"no model, chip, cluster or plan is named {name!r}{did_you_mean(name, known)}")


def is_spec_file(name: str) -> bool:
    return is_file_name(name) and any(opened(Path(name)).has(section) for section in SECTIONS)


def kind_of_file(name: str) -> str:
    """What a file describes, by the keys it holds; empty where they could be of two things or of none."""
    whole = opened(Path(name))
    keys = set(whole.value)
    if keys & SEARCH_KEYS or {"chip", "devices", "budget"} <= keys:
        return SEARCH
    if any(whole.has(section) for section in SECTIONS):
        return "spec"
    if (HUGGING_FACE_KEYS | {FORMAT_KEY}) & keys:
        return "model"
    if whole.has("calibration") and any(whole.child("calibration").has(key) for key in ("compute", "links")):
        return "cluster"
    known: dict[str, set[str]] = {
        "model": {*written_keys(Transformer).values(), "seq", "batch"},
        "workload": {field.name for field in dataclasses.fields(Workload)},
        "chip": set(written_keys(Chip).values()),
        "cluster": {"chip", "topology", "devices", "pools", "parts", "between"},
        "plan": {*written_keys(Plan).values(), *SHORT_NAMES, *OLD_NAMES},
    }
    ranked = sorted(known, key=lambda kind: -len(keys & (known[kind] - {"name"})))
    best, second = (len(keys & (known[kind] - {"name"})) for kind in ranked[:2])
    return ranked[0] if best > second else ""


def _kind_or_refusal(name: str) -> str:
    kind = kind_of_file(name)
    if kind in ("", SEARCH):
        raise InvalidInput("cannot tell what this file describes; specify --kind model, chip or cluster", name)
    return kind
