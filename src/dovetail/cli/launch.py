"""`dovetail launch`: what starts a run, on the screen or in files."""

# Annotations are evaluated here: the options in them are the command's.
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from dovetail.api.requests.jobs import LaunchRequest
from dovetail.api.requests.option import FLAG, Option
from dovetail.cli.options import AsJson, Html, command


@command(LaunchRequest, before={"out": "model", "plan_file": "model", "force": "model"})
def launch(
    request: LaunchRequest,
    *,
    out: Annotated[str, Option("Write it to this file: a script, or TOML for torchtitan.", "FILE")] = "",
    plan_file: Annotated[
        str, Option("Write the plan to this file too, whole, as simulate --plan takes it.", "FILE")
    ] = "",
    force: Annotated[bool, Option("Overwrite existing files.", kind=FLAG)] = False,
    html: Html = "",
    as_json: AsJson = False,
) -> None:
    """Print what starts a plan with a training framework.

    SPEC and its options are those of simulate. What the framework has no words for is named: not expressed.
    """
    from dovetail.api.launched import launched, launcher_name
    from dovetail.api.planned import title_of
    from dovetail.cli.answers import tell_cluster
    from dovetail.cli.html import check_html, show_html
    from dovetail.cli.results import check_plan_file
    from dovetail.cli.screen import show_json, wrapped, write
    from dovetail.cli.usage import check_needed
    from dovetail.files.plan_text import plan_text
    from dovetail.files.text import one_line
    from dovetail.files.written import check_writable, write_file

    launcher_name(request.framework)
    check_html(html)
    check_needed("--force", {"--out": bool(out), "--plan-file": bool(plan_file)}, is_given=force)
    if out:
        check_writable(Path(out), is_forced=force)
    check_plan_file(plan_file, is_forced=force)
    tell_cluster(request.cluster, request.devices)
    found = launched(request)
    if plan_file:
        write_file(Path(plan_file), plan_text(found.job.plan, title_of(found.job)))
    if out:
        found.to_file(out)
    found = replace(found, written=tuple(file for file in (out, plan_file) if file))
    if as_json:
        show_json(found.record)
    elif out:
        missing = tuple(one.sentence for one in found.outcome.missing)
        lines = (f"{one_line(out)}: {found.headline}", *found.differing, *missing)
        write("".join(f"{wrapped(line)}\n" for line in lines))
    else:
        write(found.text)
    if html:
        is_announced = bool(out) and not as_json  # else what is printed is a script, and nothing else
        show_html(html, found.page, found.inputs, found.record, is_announced=is_announced)
