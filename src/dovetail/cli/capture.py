"""`dovetail capture`: a model as another tool has it, into a model file."""

# Annotations are evaluated here: the options in them are the command's.
import io
import re
import shlex
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from dovetail.api.requests.entries import CaptureRequest
from dovetail.api.requests.option import FLAG, Option
from dovetail.cli.options import AsJson, Html, command
from dovetail.errors import InvalidInput

if TYPE_CHECKING:
    from dovetail.api.captured import Capture

CLUSTER = "dgx-h100"  # of the command that is shown to go on with


@command(CaptureRequest, before={"out": "name"})
def capture(
    request: CaptureRequest,
    *,
    out: Annotated[
        str,
        Option("The model file to write, NAME.captured.json if left out; every command takes it as --model.", "FILE"),
    ] = "",
    perfetto: Annotated[
        str, Option("With --world-size: write the timeline, a track for each stream, for ui.perfetto.dev.", "FILE")
    ] = "",
    force: Annotated[
        bool, Option("Overwrite an existing model file; pages and timelines are written each time.", kind=FLAG)
    ] = False,
    html: Html = "",
    as_json: AsJson = False,
) -> None:
    """Take a PyTorch, Hugging Face or ONNX model as it is.

    Every other command takes the file it writes. Its code runs here, on tensors without memory: no weights, no GPU, no
    download. With --chip, the step that the code takes there comes first. With --world-size, TARGET is a training
    script of so many processes, and its step is predicted: capture train.py --world-size 64 -- ARGS.
    """
    from dovetail.api.captured import Refused, found_capture
    from dovetail.cli.html import check_html
    from dovetail.cli.process import stream
    from dovetail.cli.progress import telling
    from dovetail.files.perfetto import check_trace_name
    from dovetail.files.written import check_writable

    check_html(html)
    if perfetto:
        if not request.world_size:
            raise InvalidInput("a timeline is of a job; give its number of processes: --world-size 64", "--perfetto")
        check_trace_name(perfetto)
        check_writable(Path(perfetto), is_forced=True)
    if out:
        _check_out(out, request.model, is_forced=force)
    aside = stream("stderr") or io.StringIO()  # what the user's code prints is no part of the answer
    with telling("capturing") as tell, redirect_stdout(aside):
        found = found_capture(request, tell=tell)
    for job in found.jobs if perfetto else ():
        job.to_perfetto(perfetto)
    if isinstance(found.found, Refused):
        _show(found, html=html, as_json=as_json)
        return
    if not out:
        out = file_name(found.captured.name)
        _check_out(out, request.model, is_forced=force)
    found.save(out)
    _show(replace(found, model_file=out), html=html, as_json=as_json)


def _check_out(file: str, target: str, *, is_forced: bool) -> None:
    from dovetail.files.captured import check_model_file
    from dovetail.files.text import one_line
    from dovetail.files.written import check_writable

    check_model_file(file)
    check_writable(Path(file), is_forced=is_forced)
    if Path(file).resolve() == Path(target).resolve():
        raise InvalidInput(f"{one_line(file)} is what is captured; name another file to write", "--out")


def file_name(model: str) -> str:
    """A file in the current folder, as the model is called; a configuration may have the model's own name."""
    from dovetail.files.captured import SUFFIX

    return (re.sub(r"[^\w.-]+", "-", model).strip("-.") or "model") + f".captured{SUFFIX}"


def _show(found: "Capture", *, html: str, as_json: bool) -> None:
    from dovetail.cli.html import show_html
    from dovetail.cli.screen import remark, show_json, show_tables
    from dovetail.files.text import one_line

    if as_json:
        show_json(found.record)
    else:
        show_tables(found.tables)
        file = one_line(found.model_file)
        if file:
            planning = shlex.join(["dovetail", "plan", "--model", file, "--cluster", CLUSTER])
            remark(f"\nmodel file: {file}\nto plan with it: {planning}\n")
    if html:
        show_html(html, found.page, found.inputs, found.record, is_announced=not as_json)
