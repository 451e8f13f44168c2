"""Models, clusters and plans from text that was sent: read as files are, but no other file is opened on its word."""

from __future__ import annotations

from pathlib import Path, PurePosixPath, PureWindowsPath

from dovetail.errors import InvalidInput
from dovetail.files.entry import Document, Entry, described
from dovetail.files.heterogeneous_cluster import any_cluster_of
from dovetail.files.inline_plan import Over
from dovetail.files.job import forward_graph, plan_on
from dovetail.files.model import model_of
from dovetail.files.plan import NOTHING
from dovetail.files.text import SUFFIXES, YAML_LIMIT_BYTES, decoded, one_line, quoted
from dovetail.files.tree import Node, parse_json, parse_yaml
from dovetail.hardware.heterogeneous import AnyCluster
from dovetail.parallel.plan import Plan
from dovetail.units import format_bytes
from dovetail.workload.model import Model
from dovetail.workload.workload import Workload

LIMIT_BYTES = YAML_LIMIT_BYTES
MAX_NAME_CHARACTERS = 80


def upload_name(name: str) -> str:
    """The last part of a file's name, whatever machine it comes from; it is shown and never opened."""
    last = one_line(PureWindowsPath(PurePosixPath(name).name).name)
    suffix = PurePosixPath(last).suffix
    if suffix.lower() not in SUFFIXES:
        shown = last[:MAX_NAME_CHARACTERS]
        raise InvalidInput(f"a file to upload ends in {', '.join(SUFFIXES)}; got {quoted(shown)}")
    return last if len(last) <= MAX_NAME_CHARACTERS else last[: MAX_NAME_CHARACTERS - len(suffix)] + suffix


def upload_text(data: bytes, name: str) -> str:
    """What was uploaded as text; `name` is shown in errors."""
    if len(data) > LIMIT_BYTES:
        message = f"an upload has at most {format_bytes(LIMIT_BYTES, 0)}; {quoted(name)} has {format_bytes(len(data))}"
        raise InvalidInput(message)
    return decoded(data, Path(name))


def uploaded_entry(text: str, name: str) -> Entry:
    """The whole of a text, which may name entries of catalogues and no files."""
    shown = upload_name(name)
    root = (parse_json if shown.lower().endswith(".json") else parse_yaml)(text, shown)
    if not isinstance(root.value, dict):
        raise InvalidInput(f"a file holds keys with values, as in 'name: value'; got {described(root.value)}", shown)
    return Entry(document=Document(shown=shown, is_closed=True), node=root)


def catalogue_entry(name: str) -> Entry:
    """A name that can only be one of a catalogue."""
    return Entry(document=Document(is_closed=True), node=Node(name))


def uploaded_model(text: str, name: str, seq: int = 0) -> Model:
    entry = uploaded_entry(text, name)
    return model_of(entry.child("model") if entry.has("model") else entry, seq)


def uploaded_cluster(text: str, name: str) -> AnyCluster:
    entry = uploaded_entry(text, name)
    return any_cluster_of(entry.child("cluster") if entry.has("cluster") else entry)


def uploaded_plan(text: str, workload: Workload, cluster: AnyCluster, over: Over = NOTHING) -> Plan:
    """A plan as `plan_text` writes it with the decisions of `over`, checked for `workload` on `cluster`."""
    return plan_on(uploaded_entry(text, "plan.yaml"), forward_graph(workload), cluster, over)
