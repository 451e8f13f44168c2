"""`dovetail plan`: the best plans on the screen, and the best of them in files."""

# Annotations are evaluated here: the options in them are the command's.
from dataclasses import replace
from typing import Annotated

from dovetail.api.requests.jobs import PlanRequest
from dovetail.api.requests.option import Option
from dovetail.cli.options import AsJson, Force, Html, Ranks, command


@command(PlanRequest)
def plan(
    request: PlanRequest,
    *,
    plan_file: Annotated[
        str, Option("Write the best plan to this file, whole, as simulate --plan takes it.", "FILE")
    ] = "",
    perfetto: Annotated[
        str, Option("Write the timeline of a step by the best plan, device by device, for ui.perfetto.dev.", "FILE")
    ] = "",
    ranks: Ranks = "",
    html: Html = "",
    force: Force = False,
    as_json: AsJson = False,
) -> bool:
    """Find the best plan for a model on a cluster, and prove it.

    Without SPEC, give --model and --cluster. Every plan of the space is evaluated or shown to be no better: degrees,
    interleave, ZeRO, microbatch, the order of axes on the network, layers and recompute by stage.
    """
    from dovetail.api.planned import check_objective, planned
    from dovetail.cli.answers import show_answer, tell_cluster
    from dovetail.cli.html import check_html
    from dovetail.cli.results import check_plan_file
    from dovetail.cli.terminal import TerminalContext
    from dovetail.cli.timeline import tell_timeline, timeline_files, timeline_record, write_step
    from dovetail.cli.usage import check_needed

    check_html(html)
    files = timeline_files(perfetto, ranks)
    check_needed("--force", {"--plan-file": bool(plan_file)}, is_given=force)
    check_plan_file(plan_file, is_forced=force)
    check_objective(request.objective)
    tell_cluster(request.cluster, request.devices)
    found = planned(request, TerminalContext(), plan_file)
    if plan_file and found.fits:
        found.to_yaml(plan_file)
        found = replace(found, written=(plan_file,))
    timeline = write_step(files, found.best.outcome)
    fits = show_answer(found, as_json=as_json, html=html, more=timeline_record(files, timeline))
    if not as_json:
        tell_timeline(files, timeline)
    return fits
