"""`dovetail capture`: a model as another tool has it, into a model file."""

from __future__ import annotations

import io
import re
import shlex
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path

from dovetail.api.captured import Capture, dim_of, found_capture
from dovetail.capture.captures import CaptureAsked
from dovetail.cli.html import check_html, show_html
from dovetail.cli.process import stream
from dovetail.cli.progress import telling
from dovetail.cli.screen import remark, show_json, show_tables
from dovetail.errors import InvalidInput
from dovetail.files.captured import SUFFIX, check_model_file
from dovetail.files.text import one_line
from dovetail.files.written import check_writable

ENDING = f".captured{SUFFIX}"  # of a file that nobody named: a configuration may have the model's own name
CLUSTER = "dgx-h100"  # of the command that is shown to go on with


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureSaid:
    """The command's arguments; empty or 0 where nothing was said."""

    target: str
    inputs: str
    name: str
    batch: int
    seq: int
    seq_dim: int
    is_kept: bool
    out: str
    is_forced: bool
    html: str
    as_json: bool


def answer(said: CaptureSaid) -> None:
    """Shows what was captured, and writes the model file."""
    check_html(said.html)
    if said.out:
        _check_out(said.out, said)
    asked = CaptureAsked(
        model=said.target,
        example_inputs=said.inputs or None,
        name=said.name,
        batch=said.batch,
        seq=said.seq,
        seq_dim=dim_of("--seq-dim", said.seq_dim) if said.seq_dim else None,
        is_kept=said.is_kept,
    )
    aside = stream("stderr") or io.StringIO()  # what the user's code prints is no part of the answer
    with telling("capturing") as tell, redirect_stdout(aside):
        found = found_capture(asked, tell=tell)
    out = said.out or file_name(found.captured.name)
    if not said.out:
        _check_out(out, said)
    found.save(out)
    _show(replace(found, model_file=out), said)


def _check_out(file: str, said: CaptureSaid) -> None:
    check_model_file(file)
    check_writable(Path(file), is_forced=said.is_forced)
    if Path(file).resolve() == Path(said.target).resolve():
        raise InvalidInput(f"{one_line(file)} is what is captured; name another file to write", "--out")


def file_name(model: str) -> str:
    """A file in the current folder, as the model is called."""
    return (re.sub(r"[^\w.-]+", "-", model).strip("-.") or "model") + ENDING


def _show(found: Capture, said: CaptureSaid) -> None:
    if said.as_json:
        show_json(found.record)
    else:
        show_tables(found.tables)
        file = one_line(found.model_file)
        command = shlex.join(["dovetail", "plan", "--model", file, "--cluster", CLUSTER])
        remark(f"\nmodel file: {file}\nto plan with it: {command}\n")
    if said.html:
        show_html(said.html, found.page, found.inputs, found.record, is_told=not said.as_json)
