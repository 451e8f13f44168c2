"""Model files: a model as it was captured, in JSON, with its format and version; read as any user's file is."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

from dovetail import __version__
from dovetail.errors import DovetailError, InvalidInput
from dovetail.files.captured_checks import CHECKS
from dovetail.files.entry import Entry, opened
from dovetail.files.model import FORMAT_KEY
from dovetail.files.text import JSON_LIMIT_BYTES, one_line
from dovetail.files.tree import MAX_JSON_VALUES
from dovetail.files.value_json import as_plain, read_value
from dovetail.files.written import write_file
from dovetail.units import format_bytes
from dovetail.workload.layers import Sample
from dovetail.workload.model import Model
from dovetail.workload.recorded.captured import Captured

FORMAT = "dovetail-captured-model"
VERSION = 1
KEYS = (FORMAT_KEY, "version", "dovetail", "captured")
SUFFIX = ".json"
WIDTH = 120  # of a line, where its values can be split
# What a file can bring about in code that was written for what a capture gives: parts that do not belong together.
_MISFITS = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)


def captured_entries(captured: Captured) -> dict[str, Any]:
    """What a model file says, as a spec may say it too in place of a model's name."""
    return {FORMAT_KEY: FORMAT, "version": VERSION, "dovetail": __version__, "captured": as_plain(captured)}


def captured_text(captured: Captured) -> str:
    """The text of a model file, as many values on a line as there is room for."""
    whole = captured_entries(captured)
    text = "\n".join(_lines(whole)) + "\n"
    if (num_values := _num_values(whole)) > MAX_JSON_VALUES:
        message = f"a model file holds at most {MAX_JSON_VALUES:,} values; {captured.name} would have {num_values:,}"
        raise InvalidInput(f"{message}: it has too many different operators")
    num_bytes = len(text.encode())
    if num_bytes > JSON_LIMIT_BYTES:
        message = f"a model file has at most {format_bytes(JSON_LIMIT_BYTES, 0)}; {captured.name} would have"
        raise InvalidInput(f"{message} {format_bytes(num_bytes)}: it has too many different operators")
    return text


def _num_values(value: Any) -> int:
    """As they are counted when the file is read."""
    if not isinstance(value, dict | list):
        return 1
    return 1 + sum(map(_num_values, value.values() if isinstance(value, dict) else value))


def _lines(value: Any, before: str = "", indent: str = "") -> Iterator[str]:
    """`value` as JSON: on one line where that is short, else its parts below each other."""
    flat = f"{indent}{before}{json.dumps(value, allow_nan=False, ensure_ascii=False)}"
    if len(flat) <= WIDTH or not isinstance(value, dict | list):
        yield flat
        return
    is_list = isinstance(value, list)
    parts = [("", item) for item in value] if is_list else [(f"{json.dumps(key)}: ", value[key]) for key in value]
    yield f"{indent}{before}{'[' if is_list else '{'}"
    for place, (key, part) in enumerate(parts, start=1):
        *lines, last = _lines(part, key, f"{indent} ")
        yield from lines
        yield last if place == len(parts) else f"{last},"
    yield f"{indent}{']' if is_list else '}'}"


def check_model_file(file: str) -> None:
    """Raises where a model file cannot have this name."""
    if Path(file).suffix.lower() != SUFFIX:
        raise InvalidInput(f"a model file ends in {SUFFIX}; got {one_line(Path(file).name)!r}")


def write_captured(captured: Captured, path: str | PathLike[str]) -> None:
    """Writes the model file whole or not at all."""
    check_model_file(os.fspath(path))
    write_file(Path(path), captured_text(captured))


def read_captured(path: str | PathLike[str]) -> Captured:
    """What stands in the model file at `path`."""
    return captured_of(opened(Path(path)))


def captured_of(entry: Entry) -> Captured:
    """The model of a file's text, from any source: every part is checked, and that its graph can be laid out."""
    _check_head(entry)
    inside = entry.child("captured")
    try:
        found = read_value(Captured, inside.node, CHECKS)
        with_graph(found)
    except DovetailError as error:
        places = (inside.path, error.where)
        where = ": ".join(filter(None, (entry.document.shown, ".".join(filter(None, places)))))
        raise type(error)(one_line(error.message), where) from None
    return found


def _check_head(entry: Entry) -> None:
    for key in entry.value:
        if key not in KEYS:
            raise entry.child(key).refused(f"a model file has the keys {', '.join(KEYS)} and no other")
    if entry.child(FORMAT_KEY).value != FORMAT:
        raise entry.child(FORMAT_KEY).refused(f"the format of a model file is {FORMAT!r}")
    version = entry.child("version").value
    if version != VERSION or isinstance(version, bool):
        message = f"this Dovetail reads version {VERSION} of model files; capture the model again"
        raise entry.child("version").refused(message)
    if not entry.has("captured"):
        raise entry.refused("captured is missing; capture the model again")


def with_graph(captured: Captured) -> Captured:
    """`captured`, once its graph was laid out: parts that do not fit together are found here."""
    try:
        captured.forward(Sample(batch=1, seq=captured.seq, dtype="bf16"))
    except _MISFITS:
        message = "no graph can be laid out of its parts, which do not fit together"
        raise InvalidInput(f"{message}: the file was changed or cut; capture the model again") from None
    return captured


def captured_model(captured: Captured) -> Model:
    """As the rest of Dovetail takes a model; its number of parameters is not published."""
    return Model(
        architecture=captured,
        family="captured",
        seq=captured.seq,
        sample="tokens" if captured.seq > 1 else "samples",
        published_parameters=0.0,
        is_exact=False,
        source=f"captured with {captured.tool}",
        notes=captured.notes,
    )
